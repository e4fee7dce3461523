"""A chat: what is typed goes to the group, what anybody types is printed.

    python chat.py 127.0.0.1:4840 lobby ann
"""

import sys
import threading

from consort import Client, GroupView, Message, Receiver, Service


def show(receiver: Receiver) -> None:
    for event in receiver:
        if isinstance(event, Message):
            print(f"{event.sender}: {event.payload.decode(errors='replace')}", flush=True)
        elif isinstance(event, GroupView):
            print("here:", *(member.private_name for member in event.members), flush=True)


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit("usage: chat.py ADDRESS GROUP NAME")
    address, group, name = sys.argv[1:]
    sender, receiver = Client.connect(address, name=name).split()
    shows = threading.Thread(target=show, args=(receiver,))
    shows.start()
    sender.join(group)
    for line in sys.stdin:
        sender.multicast(Service.AGREED, group, line.rstrip("\n").encode())
        sender.flush()
    # What is not ordered yet when one says good-bye is not told any more.
    sender.wait_ordered()
    sender.close()
    shows.join()


if __name__ == "__main__":
    main()
