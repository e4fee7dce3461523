"""The blocking client, against a real daemon. What all clients do is tried by the scenarios of `consort-conformance`."""

import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import consort
from consort import Client, GroupView, Message, Service
from daemon import Daemon

#: Nothing that is to happen takes longer, in seconds.
LONG = 30.0


class Blocking(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = Daemon()
        self.addCleanup(self.daemon.__exit__, None, None, None)

    def connect(self, name: str) -> Client:
        client = Client.connect(self.daemon.unix, name=name)
        self.addCleanup(client.close)
        return client

    def test_events_have_types_and_show_what_they_are(self) -> None:
        ann = self.connect("ann")
        ann.join("tea")
        view = ann.receive(LONG)
        assert isinstance(view, GroupView)
        self.assertEqual([member.private_name for member in view.members], ["#ann#n1"])
        self.assertEqual(view.members, view.changed)
        self.assertEqual(repr(view), 'GroupView(group="tea", 1 members)')
        self.assertIs(consort.Cause(view.cause), consort.Cause.JOIN)
        for payload in (b"leaf", bytearray(b"leaf"), memoryview(b"leaf")):
            ann.multicast(Service.SAFE, ["tea"], payload)
            message = ann.receive(LONG)
            assert isinstance(message, Message)
            self.assertEqual((message.payload, message.to, message.service), (b"leaf", ["tea"], Service.SAFE))
        with self.assertRaises(AttributeError):
            view.group = "other"  # type: ignore[misc]

    def test_wrong_arguments_raise_what_python_expects(self) -> None:
        ann = self.connect("ann")
        with self.assertRaisesRegex(ValueError, "printable ASCII"):
            ann.join("two words")
        with self.assertRaisesRegex(consort.InvalidArgument, "no service"):
            ann.multicast(9, "tea", b"")  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            ann.multicast(Service.SAFE, "tea", 7)  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            ann.join(7)  # type: ignore[arg-type]
        for timeout in (-1.0, float("nan"), float("-inf")):
            with self.assertRaisesRegex(ValueError, "no time to wait"):
                ann.receive(timeout)
        with self.assertRaisesRegex(ConnectionError, "is a daemon running there"):
            Client.connect("/nowhere/at/all")
        with self.assertRaises(consort.NotWelcome) as caught:
            Client.connect(self.daemon.tcp, name="ann")
        self.assertEqual(caught.exception.reason, "name_taken")

    def test_other_threads_run_while_one_waits(self) -> None:
        ann = self.connect("ann")
        began, done = time.monotonic(), []
        waits = threading.Thread(target=lambda: done.append(ann.receive(1.0)))
        waits.start()
        steps = 0
        while waits.is_alive():
            steps += 1
            time.sleep(0.001)
        self.assertEqual(done, [None])
        self.assertGreater(steps, 50, "the interpreter was held")
        self.assertGreaterEqual(time.monotonic() - began, 0.9)

    def test_a_second_thread_is_turned_away_and_halves_are_not(self) -> None:
        ann = self.connect("ann")
        events: "list[object]" = []
        waits = threading.Thread(target=lambda: events.append(ann.receive(1.0)))
        waits.start()
        with self.assertRaisesRegex(consort.Busy, "split"):
            # Before the wait begins, and between two slices of it, it may slip in.
            while waits.is_alive():
                ann.progress()
                time.sleep(0.001)
        waits.join()
        sender, receiver = ann.split()
        with self.assertRaisesRegex(ValueError, "does not receive"):
            ann.receive(0)
        hears = threading.Thread(target=lambda: events.extend(receiver))
        hears.start()
        sender.join("tea")
        sender.multicast(Service.AGREED, "tea", b"leaf")
        sender.wait_ordered(LONG)
        sender.close()
        hears.join(LONG)
        self.assertEqual([type(event) for event in events], [type(None), GroupView, Message])
        with self.assertRaises(consort.Closed):
            sender.join("tea")

    def test_ctrl_c_ends_a_wait(self) -> None:
        # Whoever is started in the background may ignore the signal.
        heeds = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        code = "import consort, sys\nc = consort.Client.connect(sys.argv[1])\nprint('waits', flush=True)\nc.receive()"
        words = [sys.executable, "-c", heeds + code, self.daemon.unix]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waits:
            assert waits.stdout is not None and waits.stderr is not None
            self.assertEqual(waits.stdout.readline(), "waits\n")
            waits.send_signal(signal.SIGINT)
            self.assertIn("KeyboardInterrupt", waits.communicate(timeout=LONG)[1])

    def test_iteration_ends_with_ones_own_goodbye_and_raises_any_other_end(self) -> None:
        with Client.connect(self.daemon.unix) as ann:
            ann.join("tea")
            for event in ann:
                self.assertIsInstance(event, GroupView)
                break
        self.assertEqual(list(ann), [])
        bob = Client.connect(self.daemon.unix)
        self.daemon.stop()
        with self.assertRaises(consort.Disconnected) as caught:
            list(bob)
        self.assertEqual((caught.exception.reason, caught.exception.unknown_fate), ("stopping", range(0)))

    def test_a_lost_connection_tells_which_sends_are_of_unknown_fate(self) -> None:
        ann = Client.connect(self.daemon.unix)
        self.daemon.process.send_signal(signal.SIGSTOP)
        ann.join("tea")
        ann.multicast(Service.AGREED, "tea", b"leaf")
        ann.flush()
        with self.assertRaises(TimeoutError):
            ann.wait_ordered(0.05)
        self.daemon.kill()
        with self.assertRaises(consort.ConnectionLost) as caught:
            ann.receive(LONG)
        self.assertEqual(caught.exception.unknown_fate, range(1, 3))

    def test_a_daemon_that_falls_silent_is_given_up(self) -> None:
        ann = Client.connect(self.daemon.tcp)
        bob = Client.connect(self.daemon.tcp, host_timeout=1.0)
        self.daemon.process.send_signal(signal.SIGSTOP)
        for client, bound in ((bob, "1s"), (ann, "2s")):
            client.join("tea")
            with self.assertRaisesRegex(consort.ConnectionLost, f"nothing was heard .* for {bound}") as caught:
                client.receive(LONG)
            self.assertEqual(caught.exception.unknown_fate, range(1, 2))

    def test_a_silence_out_of_range_is_refused(self) -> None:
        for silence, told in ((0.999, "999ms"), (0.0, "0ns"), (21_601.0, "21601s")):
            with self.assertRaisesRegex(consort.InvalidArgument, f"host_timeout is {told}; give a time from 1s to 21600s"):
                Client.connect(self.daemon.tcp, host_timeout=silence)
        for silence in (-1.0, float("nan")):
            with self.assertRaisesRegex(ValueError, "no time to wait"):
                Client.connect(self.daemon.tcp, host_timeout=silence)

    def test_examples_run(self) -> None:
        examples = os.path.join(os.path.dirname(__file__), "..", "examples")
        chat = subprocess.run(
            [sys.executable, os.path.join(examples, "chat.py"), self.daemon.tcp, "lobby", "ann"],
            input="hello\n",
            capture_output=True,
            text=True,
            timeout=LONG,
        )
        self.assertEqual((chat.stdout, chat.stderr), ("here: #ann#n1\n#ann#n1: hello\n", ""))
        words = [sys.executable, os.path.join(examples, "counter.py"), self.daemon.tcp, "10"]
        counted = subprocess.run(words, capture_output=True, text=True, timeout=LONG)
        self.assertEqual((counted.stdout, counted.stderr), ("10\n", ""))


if __name__ == "__main__":
    unittest.main()
