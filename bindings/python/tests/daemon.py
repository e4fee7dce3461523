"""Daemons: one of one node, and several of one cluster; in clusters and in folders of their own."""

import itertools
import os
import random
import re
import socket
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Dict, List, Optional, Tuple, Type

#: The program `consort`.
PROGRAM = os.environ.get("CONSORT_PROGRAM", "consort")
SERVES = "serves clients at "
#: Counts the clusters of this process.
STARTED = itertools.count()
#: Nothing that is to happen takes longer, in seconds.
LONG = 60.0


def environment(folder: str) -> Dict[str, str]:
    return {**os.environ, "CONSORT_RUNTIME_DIR": os.path.join(folder, "run")}


def start(folder: str, words: List[str]) -> Tuple["subprocess.Popen[str]", str]:
    """Starts a daemon; returns it with the path of its socket."""
    words = [PROGRAM, "daemon", "--while-stdin-open", "--log", "warn", *words]
    process = subprocess.Popen(
        words, env=environment(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if SERVES not in line:
        end(process)
        raise RuntimeError(f"the daemon did not start; it said {line!r}")
    return process, line.rstrip("\n").split(SERVES)[1]


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.wait(30)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


class Daemon:
    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="consort-python-")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.tcp = "127.0.0.1:%d" % free.getsockname()[1]
        name = f"python-{os.getpid()}-{next(STARTED)}"
        words = ["--nodes", "1", "--cluster", name, "--listen", self.tcp]
        words += ["--state-dir", os.path.join(self.folder.name, "state")]
        self.process, self.unix = start(self.folder.name, words)

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
        end(self.process)
        self.folder.cleanup()


def free_ports(count: int) -> int:
    """The first of so many ports that are free for UDP and TCP, and that the kernel hands out to nobody."""

    def is_free(port: int) -> bool:
        try:
            for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                with socket.socket(socket.AF_INET, kind) as tried:
                    tried.bind(("0.0.0.0", port))
            return True
        except OSError:
            return False

    for _ in range(1_000):
        first = random.randrange(10_000, 30_000)
        if all(is_free(port) for port in range(first, first + count)):
            return first
    raise RuntimeError("no ports are free")


class Cluster:
    """Daemons out of files, each of which may be killed and started again. TLS_PORT in ``more`` is a port of its own."""

    def __init__(self, protocol: str = "ring", nodes: int = 3, more: str = "") -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="consort-python-")
        self.name = f"python-{os.getpid()}-{next(STARTED)}"
        ports = free_ports(5 * nodes + 1)
        lines = [f'cluster = "{self.name}"', f'protocol = "{protocol}"']
        lines += [f'multicast = "239.192.1.7:{ports + 4 * nodes}"', f'state = "{self.folder.name}/state"']
        for at in range(nodes):
            lines += ["[[node]]", f"id = {at + 1}", f'address = "127.0.0.1:{ports + 4 * at}"']
        #: Where each of them speaks TLS, if it does.
        self.sealed: List[str] = []
        for at in range(nodes):
            sealed = str(ports + 4 * nodes + 1 + at)
            self.sealed.append("127.0.0.1:" + sealed)
            with open(self.file(at), "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n" + more.replace("TLS_PORT", sealed))
        self.daemons: Dict[int, "subprocess.Popen[str]"] = {}
        self.addresses: List[str] = []
        try:
            for at in range(nodes):
                self.addresses.append(self.start(at))
            self.wait_for(0, nodes)
        except BaseException:
            self.end()
            raise

    def file(self, at: int) -> str:
        return os.path.join(self.folder.name, f"consort-{at + 1}.toml")

    def start(self, at: int) -> str:
        words = ["--config", self.file(at), "--node", str(at + 1)]
        self.daemons[at], unix = start(self.folder.name, words)
        return unix

    def kill(self, at: int) -> None:
        end(self.daemons.pop(at))

    def wait_for(self, at: int, members: int) -> None:
        """Waits until the view of this daemon has so many members, and what producers send counts there."""
        words = [PROGRAM, "status", "--cluster", self.name, "--node", str(at + 1), "--json"]
        late = time.monotonic() + LONG
        while True:
            said = subprocess.run(words, env=environment(self.folder.name), capture_output=True, text=True)
            found = re.search(r'"members":"([^"]*)"', said.stdout)
            if found and len(found[1].split()) == members and '"counts_for_producers":1' in said.stdout:
                return
            if time.monotonic() > late:
                raise RuntimeError(f"no view of {members}: {said.stdout}{said.stderr}")
            time.sleep(0.05)

    def from_(self, first: int) -> List[str]:
        """All daemons, this one first."""
        return self.addresses[first:] + self.addresses[:first]

    def end(self) -> None:
        for process in self.daemons.values():
            end(process)
        self.folder.cleanup()
