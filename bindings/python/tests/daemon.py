"""A daemon of one node, in a cluster and in folders of its own."""

import itertools
import os
import socket
import subprocess
import tempfile
from types import TracebackType
from typing import Optional, Type

#: The program `consort`.
PROGRAM = os.environ.get("CONSORT_PROGRAM", "consort")
SERVES = "serves clients at "
#: Counts the daemons of this process.
STARTED = itertools.count()


class Daemon:
    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="consort-python-")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.tcp = "127.0.0.1:%d" % free.getsockname()[1]
        name = f"python-{os.getpid()}-{next(STARTED)}"
        words = ["daemon", "--while-stdin-open", "--log", "warn", "--nodes", "1", "--cluster", name]
        words += ["--listen", self.tcp, "--state-dir", os.path.join(self.folder.name, "state")]
        environment = {**os.environ, "CONSORT_RUNTIME_DIR": os.path.join(self.folder.name, "run")}
        self.process = subprocess.Popen(
            [PROGRAM, *words],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if SERVES not in line:
            self.kill()
            raise RuntimeError(f"the daemon did not start; it said {line!r}")
        self.unix = line.rstrip("\n").split(SERVES)[1]

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.folder.cleanup()
