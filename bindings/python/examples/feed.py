"""A feed that outlives its daemons: each line is sent once, and read once.

    python feed.py send orders - 10.0.0.1:4840 10.0.0.2:4840 < lines
    python feed.py read orders place 10.0.0.1:4840 10.0.0.2:4840      what is new since the place in this file
"""

import os
import sys
from typing import List

from consort import CaughtUp, Fate, Gap, Message, Parted, ReadingEnded, Sent, Service, Session


def send(group: str, daemons: List[str]) -> None:
    with Session.connect(daemons) as session:
        for line in sys.stdin:
            session.send(Service.AGREED, group, line.rstrip("\n").encode())
        session.settle()
    fates = [event for event in session if isinstance(event, Sent)]
    print(sum(sent.fate == Fate.ORDERED for sent in fates), "ordered")


def read(group: str, place: str, daemons: List[str]) -> None:
    from_ = "new"
    if os.path.exists(place):
        with open(place, encoding="utf-8") as file:
            from_ = file.read()
    with Session.connect(daemons) as session:
        session.read(group, from_)
        for event in session:
            if isinstance(event, Message):
                print(event.payload.decode(errors="replace"))
            elif isinstance(event, (Gap, Parted, ReadingEnded)):
                print(event, file=sys.stderr)
            if isinstance(event, (CaughtUp, ReadingEnded)):
                break
        if session.bookmark is not None:
            with open(place, "w", encoding="utf-8") as file:
                file.write(session.bookmark)


def main() -> None:
    if len(sys.argv) < 5 or sys.argv[1] not in ("send", "read"):
        sys.exit("usage: feed.py send|read GROUP PLACE DAEMON...")
    what, group, place, *daemons = sys.argv[1:]
    if what == "send":
        send(group, daemons)
    else:
        read(group, place, daemons)


if __name__ == "__main__":
    main()
