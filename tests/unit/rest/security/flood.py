"""Sends wrong passwords to a server at a steady rate, and prints how often it was answered with which status.

python flood.py PORT RATE SECONDS
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from collections import Counter

CONNECTIONS = 50


async def flood(port: int, rate: float, seconds: float) -> Counter[str]:
    found: Counter[str] = Counter()
    begins = time.monotonic()

    async def one(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        sent = number
        while time.monotonic() < begins + seconds:
            # One that had to wait for its answer leaves out what it should have sent meanwhile.
            sent += CONNECTIONS * max(1, int((time.monotonic() - begins - sent / rate) * rate / CONNECTIONS))
            await asyncio.sleep(begins + sent / rate - time.monotonic())
            credentials = base64.b64encode(f"ann:wrong-{sent}".encode()).decode()
            writer.write(
                f"GET /connectors HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {credentials}\r\n\r\n".encode()
            )
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            await reader.readexactly(int(head.partition("content-length:")[2].split()[0]))
            found[head.split()[1]] += 1
        writer.close()

    await asyncio.gather(*map(one, range(CONNECTIONS)))
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(flood(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))))
