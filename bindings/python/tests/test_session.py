"""Sessions over several daemons, and reading by position, against real daemons."""

import os
import subprocess
import sys
import threading
import unittest
from typing import List, Optional, Tuple, Type, TypeVar

import consort
from consort import (
    CaughtUp,
    Client,
    Connected,
    Fate,
    Gap,
    GroupView,
    Lost,
    Message,
    Parted,
    ReadingBegan,
    ReadingEnd,
    ReadingEnded,
    Refusal,
    Resumed,
    Sent,
    Service,
    Session,
    SessionEvent,
    SlowPolicy,
)
from daemon import LONG, Cluster, Daemon

Kind = TypeVar("Kind")


def next_of(client: "Client | Session", kind: Type[Kind]) -> Kind:
    """The next event of a kind; others are passed over."""
    while True:
        event = client.receive(LONG)
        assert event is not None, f"no {kind.__name__} came"
        if isinstance(event, kind):
            return event


def number(message: Message) -> int:
    return int.from_bytes(message.payload, "big")


def numbers(client: "Client | Session", last: int) -> List[int]:
    """The numbers of all messages up to this one."""
    all_of_them: List[int] = []
    while not all_of_them or all_of_them[-1] != last:
        event = client.receive(LONG)
        assert event is not None and not isinstance(event, (Gap, Parted, ReadingEnded)), f"{event} behind {all_of_them}"
        if isinstance(event, Message):
            all_of_them.append(number(event))
    return all_of_them


def send(session: Session, first: int, last: int, group: str = "orders") -> None:
    for n in range(first, last + 1):
        session.send(Service.AGREED, group, n.to_bytes(4, "big"))


class Sessions(unittest.TestCase):
    cluster: Cluster

    def setUp(self) -> None:
        self.cluster = Cluster()
        self.addCleanup(self.cluster.end)

    def session(self, first: int, producer: Optional[str] = None) -> Session:
        return Session.connect(self.cluster.from_(first), reconnect_within=LONG, producer=producer)

    def test_each_send_has_one_fate_though_its_daemon_is_killed(self) -> None:
        member = Client.connect(self.cluster.addresses[2], name="member")
        self.addCleanup(member.close)
        member.join("orders")
        next_of(member, GroupView)
        with self.session(0) as session:
            session.join("orders")
            next_of(session, GroupView)
            send(session, 1, 200)
            self.cluster.kill(0)
            send(session, 201, 400)
            first = session.outcome(1, LONG)
            session.settle(LONG)
            self.assertEqual((session.unsettled, session.node), (0, 2))
        events = list(session)
        kinds = [type(event) for event in events]
        self.assertEqual((kinds.count(Lost), kinds.count(Connected)), (1, 1))
        self.assertIn(GroupView, kinds[kinds.index(Connected) :], "it is a member again")
        fates = [first, *(event for event in events if isinstance(event, Sent))]
        self.assertEqual([fate.send for fate in fates], list(range(1, 401)))
        self.assertEqual({fate.fate for fate in fates}, {Fate.ORDERED})
        places = [fate.place for fate in fates if fate.place is not None]
        self.assertEqual(places, sorted(places))
        self.assertEqual(numbers(member, 400), list(range(1, 401)))

    def test_a_reading_goes_on_where_it_was_though_its_daemon_is_killed(self) -> None:
        with self.session(0) as reader, self.session(2) as sender:
            self.assertIsNone(reader.bookmark)
            reader.read("orders", "new")
            next_of(reader, CaughtUp)
            send(sender, 1, 100)
            sender.settle(LONG)
            self.assertEqual(numbers(reader, 60), list(range(1, 61)))
            self.cluster.kill(0)
            send(sender, 101, 200)
            sender.settle(LONG)
            self.assertEqual(numbers(reader, 150), list(range(61, 151)))
            # Another session goes on with what this one has stored.
            bookmark = reader.bookmark
            assert bookmark is not None
            with self.session(1) as other:
                other.read(["orders"], bookmark)
                self.assertIsInstance(next_of(other, ReadingBegan).start.position, int)
                self.assertEqual(numbers(other, 200), list(range(151, 201)))

    def test_a_session_that_goes_on_with_a_producer_stops_the_other(self) -> None:
        first = self.session(0)
        self.assertEqual(first.outcome(first.send(Service.SAFE, "orders", b"one"), LONG).fate, Fate.ORDERED)
        with self.session(1, first.producer) as second:
            self.assertEqual(next_of(second, Resumed).ordered, 1)
            self.assertEqual(second.outcome(second.send(Service.AGREED, "orders", b"two"), LONG).fate, Fate.ORDERED)
            first.send(Service.AGREED, "orders", b"late")
            with self.assertRaises(consort.TakenOver):
                first.settle(LONG)
            with self.assertRaises(consort.TakenOver):
                first.close()
        self.assertEqual(len(second.producer), 32)

    def test_what_is_refused_says_why_and_what_is_told_is_told_once(self) -> None:
        owner = Client.connect(self.cluster.addresses[0])
        self.addCleanup(owner.close)
        owner.join("closed", closed=True)
        next_of(owner, GroupView)
        with self.session(1) as session:
            send(session, 1, 1)
            refused = session.send(Service.AGREED, ["closed"], b"x")
            send(session, 3, 3)
            told = session.outcome(refused, LONG)
            self.assertEqual((told.fate, told.cause, told.place), (Fate.REFUSED, Refusal.CLOSED, None))
            self.assertIn("refused: ", repr(told))
            self.assertEqual(session.outcome(3, LONG).fate, Fate.ORDERED)
            self.assertEqual(next_of(session, Sent).send, 1)
            for gone in (1, refused, 4, 0):
                with self.assertRaisesRegex(consort.InvalidArgument, f"send {gone}: no fate of this send is left"):
                    session.outcome(gone, LONG)

    def test_what_is_not_retained_any_more_is_told_from_where_to_where(self) -> None:
        self.cluster.end()
        self.cluster = Cluster(more="[sessions]\nretain = 100_000\n")
        self.addCleanup(self.cluster.end)
        with self.session(0) as reader, self.session(1) as sender:
            reader.read("orders", "new")
            next_of(reader, CaughtUp)
            send(sender, 1, 10)
            sender.settle(LONG)
            self.assertEqual(numbers(reader, 5), list(range(1, 6)))
            bookmark = reader.bookmark
            assert bookmark is not None
            for n in range(11, 211):
                sender.send(Service.AGREED, "orders", n.to_bytes(4, "big") * 500)
            sender.settle(LONG)
            reader.read("orders", bookmark)
            gap = next_of(reader, Gap)
            self.assertEqual(gap.start.view, gap.end.view)
            self.assertGreater(gap.end.position, gap.start.position)
            first = int.from_bytes(next_of(reader, Message).payload[:4], "big")
            self.assertGreater(first, 11)

    def test_a_second_thread_is_turned_away(self) -> None:
        turned_away: List[consort.Busy] = []

        def waits(session: Session) -> None:
            while not turned_away:
                try:
                    session.receive(0.02)
                except consort.Busy as busy:
                    turned_away.append(busy)

        with self.session(0) as session:
            threads = [threading.Thread(target=waits, args=(session,)) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(LONG)
        self.assertIn("another thread uses this session", str(turned_away[0]))

    def test_the_example_sends_and_reads_each_line_once(self) -> None:
        feed = os.path.join(os.path.dirname(__file__), "..", "examples", "feed.py")
        place = os.path.join(self.cluster.folder.name, "place")

        def run(what: str, text: str, first: int) -> Tuple[str, str]:
            words = [sys.executable, feed, what, "orders", place, *self.cluster.from_(first)]
            ran = subprocess.run(words, input=text, capture_output=True, text=True, timeout=LONG)
            return ran.stdout, ran.stderr

        # The daemons keep what is sent to a group from the first reading on.
        self.assertEqual(run("read", "", 0), ("", ""))
        self.assertEqual(run("send", "one\ntwo\n", 0), ("2 ordered\n", ""))
        self.assertEqual(run("read", "", 1), ("one\ntwo\n", ""))
        self.cluster.kill(0)
        self.assertEqual(run("send", "three\n", 0), ("1 ordered\n", ""))
        self.assertEqual(run("read", "", 0), ("three\n", ""))


class BadInput(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = Daemon()
        self.addCleanup(self.daemon.__exit__, None, None, None)

    def test_what_names_no_daemon_is_refused(self) -> None:
        with self.assertRaisesRegex(consort.InvalidArgument, "no daemon is named"):
            Session.connect([])
        with self.assertRaisesRegex(ValueError, "`nowhere` is no address: there is no port"):
            Session.connect([self.daemon.unix, "nowhere"])
        with self.assertRaisesRegex(ValueError, "no name for a client"):
            Session.connect([self.daemon.unix], name="two words")
        for producer in ("", "0" * 31, "g" * 32, "\u00e9" * 16):
            with self.assertRaisesRegex(consort.InvalidArgument, "is no producer"):
                Session.connect([self.daemon.unix], producer=producer)
        with self.assertRaisesRegex(consort.Unreachable, "no daemon could be reached within 300ms"):
            Session.connect(["/nowhere/a", "/nowhere/b"], reconnect_within=0.3)
        with self.assertRaisesRegex(consort.InvalidArgument, "host_timeout is 1ms"):
            Session.connect([self.daemon.tcp], host_timeout=0.001)

    def test_daemons_without_a_policy_keep_no_account(self) -> None:
        session = Session.connect([self.daemon.tcp])
        session.send(Service.AGREED, "orders", b"x")
        with self.assertRaises(consort.NotOpened) as caught:
            session.settle(LONG)
        self.assertEqual(caught.exception.reason, "no_policy")
        with self.assertRaises(consort.Error):
            session.close(0)
        with self.assertRaisesRegex(consort.Closed, "was closed and does not send"):
            session.send(Service.AGREED, "orders", b"x")

    def test_slow_policies_are_asked_for_and_may_be_refused(self) -> None:
        for policy in (SlowPolicy.DISCONNECT, SlowPolicy.SPOOL, SlowPolicy.DEMOTE):
            Client.connect(self.daemon.unix, slow=policy, slow_bytes=100_000, slow_time=5.0).close()
        with self.assertRaises(consort.NotWelcome) as caught:
            Client.connect(self.daemon.unix, slow=SlowPolicy.BLOCK)
        self.assertEqual(caught.exception.reason, "not_allowed")
        with self.assertRaisesRegex(consort.InvalidArgument, "9 is no policy"):
            Client.connect(self.daemon.unix, slow=9)  # type: ignore[arg-type]
        with self.assertRaisesRegex(consort.InvalidArgument, "give slow, too"):
            Session.connect([self.daemon.unix], slow_bytes=5)


class Reading(unittest.TestCase):
    """Where positions last, and little is retained."""

    def setUp(self) -> None:
        more = '[paxos]\nacceptors = [1]\nstorage = "memory"\nretain = 1_048_576\n'
        self.cluster = Cluster("paxos", 1, more)
        self.addCleanup(self.cluster.end)
        self.client = Client.connect(self.cluster.addresses[0])
        self.addCleanup(self.client.close)
        for n in range(1, 301):
            self.client.multicast(Service.AGREED, "orders", n.to_bytes(4, "big") * 2_500)
        self.client.wait_ordered(LONG)

    def ends(self, from_: "consort.ReadFrom") -> ReadingEnded:
        self.client.read("orders", from_)
        return next_of(self.client, ReadingEnded)

    def test_positions_are_read_again_as_far_as_they_are_retained(self) -> None:
        trimmed = self.ends(1)
        self.assertEqual(trimmed.cause, ReadingEnd.TRIMMED)
        self.assertTrue(1 < trimmed.oldest <= trimmed.newest)
        self.assertIn(str(trimmed.oldest), trimmed.text)
        self.assertEqual(self.ends(trimmed.newest + 1_000_000).cause, ReadingEnd.BEYOND_END)
        self.client.read("orders", trimmed.oldest)
        began = next_of(self.client, ReadingBegan)
        self.assertEqual((began.start.position, began.start.view), (trimmed.oldest, None))
        first = next_of(self.client, Message)
        assert first.position is not None
        self.assertTrue(first.was_read and first.position >= trimmed.oldest)
        next_of(self.client, CaughtUp)
        bookmark = self.client.bookmark
        self.client.stop_reading()
        self.assertEqual(next_of(self.client, ReadingEnded).cause, ReadingEnd.ENDED)
        self.client.multicast(Service.AGREED, "orders", b"more")
        self.client.wait_ordered(LONG)
        assert bookmark is not None
        with Session.connect(self.cluster.addresses) as session:
            session.read("orders", bookmark)
            self.assertEqual(next_of(session, Message).payload, b"more")
            session.read("orders", 1)
            self.assertEqual(next_of(session, ReadingEnded).cause, ReadingEnd.ENDED)
            event = next_of(session, ReadingEnded)
            self.assertEqual((event.cause, event.common), (ReadingEnd.TRIMMED, None))

    def test_halves_read_too(self) -> None:
        sender, receiver = Client.connect(self.cluster.addresses[0]).split()
        sender.read(["orders"], "start")
        events: List[Optional[SessionEvent]] = []
        while not events or not isinstance(events[-1], CaughtUp):
            events.append(receiver.receive(LONG))
        messages = [event for event in events if isinstance(event, Message)]
        self.assertEqual([number(m) & 0xFFFF for m in messages][-1], 300)
        self.assertIsNotNone(receiver.bookmark)
        sender.close()
        receiver.close()

    def test_what_cannot_be_read_is_refused(self) -> None:
        for place in ("yesterday", "1.2.3", "-1", "0123:4", "", -5):
            with self.assertRaisesRegex(ValueError, "is no place to read from"):
                self.client.read("orders", place)
        with self.assertRaisesRegex(ValueError, "printable ASCII"):
            self.client.read(["orders", "two words"])
        for groups in ([], ["g"] * 101):
            with self.assertRaisesRegex(consort.BadTargets, f"a reading of {len(groups)} groups"):
                self.client.read(groups)
        self.assertEqual(self.ends("00000000deadbeef:1").cause, ReadingEnd.OTHER_ORDER)


if __name__ == "__main__":
    unittest.main()
