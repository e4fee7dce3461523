"""TLS with real daemons, and certificates made for the purpose."""

import asyncio
import pathlib
import socket
import subprocess
import threading
import unittest
from typing import List, Optional, Type, TypeVar

import consort
from authority import CAN_BE_MADE, MISSING, Authority, security
from consort import AsyncClient, AsyncSession, Client, Connected, Fate, GroupView, Lost, Message, Refused, Service, Session, Tls
from daemon import LONG, PROGRAM, Cluster

Kind = TypeVar("Kind")
RULES = """\
[[rights]]
who = ["certificate:*.billing"]
groups = ["orders"]
allow = ["join", "send"]
[[rights]]
who = ["certificate:audit"]
groups = ["*"]
allow = ["join", "see"]
"""


def next_of(client: "Client | Session", kind: Type[Kind]) -> Kind:
    """The next event of a kind; others are passed over."""
    while True:
        event = client.receive(LONG)
        assert event is not None, f"no {kind.__name__} came"
        if isinstance(event, kind):
            return event


class Plain:
    """Answers each connection with these bytes, which are no TLS; without any it says nothing."""

    def __init__(self, says: Optional[bytes]) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.says = says
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        while True:
            client, _ = self.listener.accept()
            with client:
                if client.recv(4096) == b"end":
                    return
                if self.says is not None:
                    client.sendall(self.says)
                    client.shutdown(socket.SHUT_WR)
                while client.recv(4096):
                    pass

    def end(self) -> None:
        host, port = self.address.split(":")
        with socket.create_connection((host, int(port))) as last:
            last.sendall(b"end")
        self.thread.join(LONG)
        self.listener.close()


class TlsTests(unittest.TestCase):
    daemons: Authority
    clients: Authority
    others: Authority
    billing: List[str]

    @classmethod
    def setUpClass(cls) -> None:
        if not CAN_BE_MADE:
            raise unittest.SkipTest(MISSING)
        cls.daemons, cls.clients, cls.others = [Authority(name) for name in ("daemons", "clients", "others")]
        for each in (cls.daemons, cls.clients, cls.others):
            cls.addClassCleanup(each.end)
        cls.billing = list(cls.clients.of("eu.billing"))

    def cluster(self, nodes: int, more: str) -> Cluster:
        cluster = Cluster(nodes=nodes, more=more)
        self.addCleanup(cluster.end)
        return cluster

    def connect(self, address: str, tls: Tls, token: Optional[str] = None) -> Client:
        client = Client.connect(address, tls=tls, token=token)
        self.addCleanup(client.close)
        return client

    def test_a_certificate_says_who_a_client_is_and_what_it_may_do(self) -> None:
        cluster = self.cluster(1, security(self.daemons, self.clients) + RULES)
        sender = self.connect(cluster.sealed[0], self.daemons.tls(*self.billing))
        auditor = self.connect(cluster.sealed[0], self.daemons.tls(*self.clients.of("audit")))
        auditor.join("orders")
        next_of(auditor, GroupView)
        large = bytes([7]) * (1 << 20)
        sender.multicast(Service.AGREED, "orders", large)
        sender.wait_ordered(LONG)
        self.assertEqual(next_of(auditor, Message).payload, large)
        auditor.multicast(Service.AGREED, "orders", b"no")
        auditor.flush()
        text = "certificate:audit may not send to orders: no rule allows it"
        self.assertEqual(next_of(auditor, Refused).text, text)

    def test_a_token_is_shown_over_tls(self) -> None:
        tokens = self.daemons.path("tokens")
        said = subprocess.run([PROGRAM, "token", tokens, "ann"], capture_output=True, text=True, check=True)
        rules = '[[rights]]\nwho = ["token:ann"]\ngroups = ["g"]\nallow = ["join", "see"]\n'
        cluster = self.cluster(1, security(self.daemons) + f'tokens = "{tokens}"\n' + rules)
        ann = self.connect(cluster.sealed[0], self.daemons.tls(), said.stdout.strip())
        ann.join("g")
        self.assertEqual(len(next_of(ann, GroupView).members), 1)
        with self.assertRaises(consort.NotWelcome) as caught:
            Client.connect(cluster.sealed[0], tls=self.daemons.tls(), token="s1.ann.00")
        self.assertEqual(caught.exception.reason, "token_malformed")

    def test_failed_handshakes_say_why(self) -> None:
        sealed = self.cluster(1, security(self.daemons, self.clients)).sealed[0]
        by_name = sealed.replace("127.0.0.1", "localhost")

        def fails(address: str, tls: Tls, says: str) -> None:
            text = f"cannot connect to {address} by TLS: .*{says}"
            with self.assertRaisesRegex(consort.CannotConnect, text) as caught:
                Client.connect(address, tls=tls)
            self.assertNotIn("is a daemon running there", str(caught.exception))

        fails(sealed, self.others.tls(*self.billing), "UnknownIssuer")
        fails(by_name, self.daemons.tls(*self.billing), "localhost")
        fails(sealed, Tls(self.daemons.pem, *self.billing, server_name="eu.example"), "eu.example")
        # The client is through before the daemon looks at its certificate.
        for _ in range(10):
            fails(sealed, self.daemons.tls(), "CertificateRequired")
            fails(sealed, self.daemons.tls(*self.others.of("eu.billing")), "UnknownCA")
        fails(sealed, self.daemons.tls(*self.clients.expired("old.billing")), "CertificateExpired")
        self.connect(by_name, Tls(self.daemons.pem, *self.billing, server_name="127.0.0.1"))
        with self.assertRaises(consort.Error) as caught:
            Client.connect(sealed, connect_within=5.0)
        self.assertNotIsInstance(caught.exception, consort.NotWelcome)

    def test_who_speaks_no_tls_is_told_from_a_daemon(self) -> None:
        for says in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", None):
            plain = Plain(says)
            self.addCleanup(plain.end)
            with self.assertRaisesRegex(consort.CannotConnect, f"{plain.address} by TLS: .*; is TLS spoken there?"):
                Client.connect(plain.address, tls=self.daemons.tls(), connect_within=LONG if says is not None else 0.2)
        with self.assertRaises(consort.Unreachable):
            Session.connect([plain.address], tls=self.daemons.tls(), connect_within=0.2, reconnect_within=1.0)

    def test_files_that_are_of_no_use_are_named_with_line_and_remedy(self) -> None:
        root, (pem, key) = self.daemons.pem, self.billing

        def write(name: str, text: str) -> str:
            with open(self.daemons.path(name), "w", encoding="utf-8") as file:
                file.write(text)
            return self.daemons.path(name)

        with open(pem, encoding="utf-8") as file:
            spoilt = write("spoilt.pem", "of the site\n" + file.read().replace("MI", "@@", 1))
        with open(key, encoding="utf-8") as file:
            locked = write("locked.key", file.read().replace("PRIVATE", "ENCRYPTED PRIVATE"))
        other = self.clients.of("other")[1]
        for files, says in (
            (("/nowhere/at/all",), "/nowhere/at/all: cannot be read: No such file .*; name a file in PEM"),
            ((key,), f"{key}: no certificate in PEM stands in it; name a file"),
            ((root, spoilt, key), f"{spoilt}:2: the certificate is damaged .*; export it again"),
            ((root, pem, root), f"{root}: no private key in PEM stands in it; name a file"),
            ((root, pem, locked), f"{locked}:1: the private key is encrypted; name a file with the plain key"),
            ((root, pem, other), f"{other}:1: .*; name the key of the certificate in {pem}"),
            ((root, pem), "give certificate and key, or neither"),
        ):
            with self.assertRaisesRegex(consort.InvalidArgument, says):
                Tls(*files)
        with self.assertRaisesRegex(ValueError, "'two words'|\"two words\" is no name that a certificate can have"):
            Tls(root, server_name="two words")
        with self.assertRaises(TypeError):
            Tls(7)  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            Client.connect("127.0.0.1:1", tls=root)  # type: ignore[arg-type]
        self.assertEqual(repr(Tls(pathlib.Path(root))), f'Tls(authority="{root}", certificate=None)')

    def test_a_unix_socket_has_no_tls_and_a_session_may_have_addresses_of_both_kinds(self) -> None:
        cluster = self.cluster(1, security(self.daemons, self.clients))
        tls = self.daemons.tls(*self.billing)
        self.assertEqual(self.connect(cluster.addresses[0], tls).node, 1)
        for daemons in ([cluster.addresses[0], cluster.sealed[0]], [cluster.sealed[0], cluster.addresses[0]]):
            with Session.connect(daemons, tls=tls) as session:
                # An address at a Unix socket is shown with its kind.
                self.assertTrue(next_of(session, Connected).address.endswith(daemons[0]))

    def test_a_session_goes_on_at_the_next_daemon_over_tls(self) -> None:
        cluster = self.cluster(3, security(self.daemons, self.clients))
        with Session.connect(cluster.sealed, tls=self.daemons.tls(*self.billing), reconnect_within=LONG) as session:
            for at in range(2):
                for _ in range(20):
                    send = session.send(Service.AGREED, "orders", b"one dozen")
                    self.assertEqual(session.outcome(send, LONG).fate, Fate.ORDERED)
                if at == 0:
                    cluster.kill(0)
            next_of(session, Lost)
            self.assertIn(next_of(session, Connected).address, cluster.sealed[1:])


class AsyncTls(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        if not CAN_BE_MADE:
            self.skipTest(MISSING)
        self.daemons, self.clients = Authority("daemons"), Authority("clients")
        self.addCleanup(self.daemons.end)
        self.addCleanup(self.clients.end)
        self.tls = self.daemons.tls(*self.clients.of("eu.billing"))
        self.cluster = Cluster(more=security(self.daemons, self.clients))
        self.addCleanup(self.cluster.end)

    async def test_a_client_speaks_tls_and_is_told_why_it_is_refused(self) -> None:
        sealed, large = self.cluster.sealed[0], bytes([7]) * (1 << 20)
        async with await AsyncClient.connect(sealed, tls=self.tls) as ann:
            await ann.join("tea")
            await ann.multicast(Service.AGREED, "tea", large)
            self.assertIsInstance(await asyncio.wait_for(ann.receive(), LONG), GroupView)
            message = await asyncio.wait_for(ann.receive(), LONG)
            assert isinstance(message, Message)
            self.assertEqual(message.payload, large)
        with self.assertRaisesRegex(consort.CannotConnect, "by TLS: .*CertificateRequired"):
            await AsyncClient.connect(sealed, tls=self.daemons.tls())

    async def test_a_session_goes_on_at_the_next_daemon_over_tls(self) -> None:
        async with await AsyncSession.connect(self.cluster.sealed, tls=self.tls, reconnect_within=LONG) as session:
            for at in range(2):
                for _ in range(20):
                    send = await session.send(Service.AGREED, "orders", b"one dozen")
                    self.assertEqual((await session.outcome(send, LONG)).fate, Fate.ORDERED)
                if at == 0:
                    self.cluster.kill(0)
            connected: List[str] = []
            while len(connected) < 2:
                event = await asyncio.wait_for(session.receive(), LONG)
                connected += [event.address] if isinstance(event, Connected) else []
        self.assertEqual(connected[0], self.cluster.sealed[0])
        self.assertIn(connected[1], self.cluster.sealed[1:])


if __name__ == "__main__":
    unittest.main()
