"""A replicated counter, with asyncio: each member counts the same, because all receive the same in the same order.

    python counter.py 127.0.0.1:4840 10        adds ten times one, and prints the count when all have come
"""

import asyncio
import sys

from consort import AsyncClient, GroupView, Message, Service


async def count(address: str, times: int) -> int:
    total = 0
    async with await AsyncClient.connect(address) as client:
        await client.join("counter")
        for _ in range(times):
            await client.multicast(Service.AGREED, "counter", b"1")
        own = 0
        async for event in client:
            if isinstance(event, GroupView) and len(event.members) > 1:
                print(f"{len(event.members)} count", flush=True)
            elif isinstance(event, Message):
                total += int(event.payload)
                own += event.sender == client.private_name
                if own == times:
                    break
    return total


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: counter.py ADDRESS TIMES")
    print(asyncio.run(count(sys.argv[1], int(sys.argv[2]))))


if __name__ == "__main__":
    main()
