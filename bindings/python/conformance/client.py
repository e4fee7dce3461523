"""The Python clients, told what to do line by line: docs/clients.md.

    python client.py            the blocking client
    python client.py async      the one for asyncio

Likewise the sessions.
"""

import asyncio
import re
import sys
import zlib
from typing import Any, Awaitable, Callable, Dict, List, Optional

import consort
from consort import AsyncClient, AsyncSession, Cause, Client, Error, Fate, Primary, Refusal, Service, Session, SessionEvent


def kind(error: Error) -> str:
    """`CannotConnect` is `cannot_connect`."""
    known = {"InvalidArgument": "invalid", "BadTargets": "targets"}
    name = type(error).__name__
    return known.get(name, re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower())


def failure(error: Error) -> str:
    words = [f"error kind={kind(error)}"]
    if error.reason:
        words.append(f"reason={error.reason}")
    if isinstance(error, (consort.ConnectionLost, consort.Disconnected)):
        words.append(f"unknown={len(error.unknown_fate)}")
    return f"{' '.join(words)} : {error}"


def private(members: List[consort.Member]) -> str:
    return ",".join(member.private_name for member in members)


def told(event: Optional[SessionEvent]) -> str:
    if event is None:
        return "none"
    if isinstance(event, consort.Message):
        line = "read" if event.was_read else "message"
        line += f" service={Service(event.service).name.lower()} sender={event.sender} "
        line += f"length={len(event.payload)} crc={zlib.crc32(event.payload):08x} to={','.join(event.to)}"
        if event.position is not None and event.incarnation is not None:
            line += f" position={event.position} incarnation={event.incarnation}"
        return line
    if isinstance(event, consort.GroupView):
        line = f"group_view group={event.group} cause={Cause(event.cause).name.lower()} "
        line += f"closed={'yes' if event.closed else 'no'} primary={Primary(event.primary).name.lower()} "
        return line + f"changed={private(event.changed)} members={private(event.members)}"
    if isinstance(event, consort.GroupSignal):
        return f"group_signal group={event.group}"
    if isinstance(event, consort.View):
        members = ",".join(f"n{member.node}" for member in event.members)
        which = "transitional" if event.transitional else "regular"
        return f"view kind={which} primary={Primary(event.primary).name.lower()} members={members} : {event.text}"
    if isinstance(event, consort.Refused):
        return f"refused send={event.send} cause={Refusal(event.cause).name.lower()} : {event.text}"
    if isinstance(event, consort.Sent):
        cause = "" if event.cause is None else f" cause={Refusal(event.cause).name.lower()} : {event.text}"
        return f"sent send={event.send} fate={Fate(event.fate).name.lower()}{cause}"
    if isinstance(event, consort.Connected):
        return f"connected : {event.address}"
    if isinstance(event, consort.Lost):
        return f"lost : {event.text}"
    return re.sub(r"(?<!^)([A-Z])", r"_\1", type(event).__name__).lower()


def payload(written: str) -> bytes:
    """Hexadecimal, `-` for none, `5a*9` for nine times the same."""
    if "*" in written:
        one, count = written.split("*")
        return bytes.fromhex(one) * int(count)
    return b"" if written == "-" else bytes.fromhex(written)


def service(word: str) -> Any:
    known: Dict[str, int] = {level.name.lower(): level for level in Service}
    # What is none is for the library to refuse.
    return known.get(word, 0)


def options(words: List[str]) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for word in words:
        name = word[len("name=") :] if word.startswith("name=") else None
        found.update({word: True} if name is None else {"name": name})
    return found


async def ready(value: Any) -> Any:
    """What a blocking call returned, or what an awaited one does."""
    return await value if isinstance(value, Awaitable) else value


async def receive(client: Any, seconds: float) -> Optional[SessionEvent]:
    if isinstance(client, (Client, Session)):
        return client.receive(seconds)
    try:
        # With no time at all it would not even look.
        return await asyncio.wait_for(client.receive(), max(seconds, 0.05))
    except asyncio.TimeoutError:
        return None


class Told:
    def __init__(self, connect: Callable[..., Any], connect_session: Callable[..., Any]) -> None:
        self.connect = connect
        self.connect_session = connect_session
        self.client: Any = None

    async def end(self) -> None:
        """Ends the session, if there is one and it has not ended already."""
        try:
            if self.client is not None:
                await ready(self.client.close())
        except Error:
            pass

    async def answer(self, request: str, words: List[str]) -> str:
        if request == "connect":
            client = await ready(self.connect(words[0], **options(words[1:])))
            await self.end()
            self.client = client
            return f"ok name={client.name} node={client.node} message_max={client.message_max}"
        if (request, words) == ("has", ["session"]):
            return "ok"
        if request == "session":
            session = await ready(self.connect_session(words))
            await self.end()
            self.client = session
            return "ok"
        if self.client is None:
            return "error kind=closed : there is no session"
        is_session = isinstance(self.client, (Session, AsyncSession))
        if request in ("join", "join_closed"):
            sent = await ready(self.client.join(words[0], closed=request == "join_closed"))
            return "ok" if is_session else f"ok send={sent}"
        if request == "leave":
            sent = await ready(self.client.leave(words[0]))
            return "ok" if is_session else f"ok send={sent}"
        if request == "read":
            await ready(self.client.read(words[1:], words[0]))
            return "ok"
        if request == "send" and is_session:
            return f"ok send={await ready(self.client.send(service(words[0]), words[2:], payload(words[1])))}"
        if request == "send":
            sent = await ready(self.client.multicast(service(words[0]), words[2:], payload(words[1])))
            if isinstance(self.client, Client):
                self.client.flush()
            return f"ok send={sent}"
        if request == "receive":
            return told(await receive(self.client, int(words[0]) / 1000))
        if request == "wait":
            await ready((self.client.settle if is_session else self.client.wait_ordered)(int(words[0]) / 1000))
            return "ok"
        if request == "close":
            client, self.client = self.client, None
            await ready(client.close(10.0))
            return "ok"
        return f"error kind=invalid : {request!r} is no request"


async def main() -> None:
    if sys.argv[1:] == ["async"]:
        told_what = Told(AsyncClient.connect, AsyncSession.connect)
    else:
        told_what = Told(Client.connect, Session.connect)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        request, *words = line.split()
        try:
            reply = await told_what.answer(request, words)
        except Error as error:
            reply = failure(error)
        print(reply, flush=True)
    await told_what.end()


asyncio.run(main())
