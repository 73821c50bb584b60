"""The lines that flow, and the check that what came out is what went in."""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from tests.bench.processes import Failed

LINE_BYTES = 105
# Apache's file source keeps up to a buffer of decoded lines back until the file grows again: the file ends with some
# lines more than are waited for, for every side.
SPARE_LINES = 100
ENVELOPE = b'{"schema":{"type":"string","optional":false},"payload":%s}'


def line(number: int) -> str:
    """Log line `number`, 105 bytes with its end; every sixteenth holds quotes, which JSON escapes."""
    at = f"2026-07-{1 + number // 86_400_000 % 28:02d}T{number // 3_600_000 % 24:02d}:{number // 60_000 % 60:02d}"
    what = 'served "GET /orders/list HTTP/1.1"' if number % 16 == 0 else "order accepted and put in the queue"
    text = f"{at} INFO  [worker-{number % 8}] shop.orders.Intake {number:010d} {what}"
    return text.ljust(LINE_BYTES - 1, ".")[: LINE_BYTES - 1] + "\n"


def write_lines(path: Path, count: int) -> Path:
    """The file holds lines 0 to `count`, and the spare ones."""
    with path.open("w") as file:
        file.writelines(map(line, range(count + SPARE_LINES)))
    return path


def envelope(text: str, with_schema: bool = True) -> bytes:
    """The bytes that JsonConverter makes of this string."""
    payload = json.dumps(text, ensure_ascii=False).encode()
    return ENVELOPE % payload if with_schema else payload


def expected_values(path: Path, count: int, with_schema: bool = True) -> Iterator[bytes]:
    """The records that the first lines of the file must become."""
    with path.open() as file:
        for text in islice(file, count):
            yield envelope(text[:-1], with_schema)


def check_values(found: Iterable[bytes], path: Path, count: int, with_schema: bool = True) -> None:
    """The topic holds these lines: all, in order, once.  Errors: Failed with the first difference."""
    seen = 0
    for have, want in zip(found, expected_values(path, count, with_schema), strict=True):
        if have != want:
            raise Failed(f"wrong output: record {seen} is {have!r}, not {want!r}")
        seen += 1
    if seen != count:
        raise Failed(f"wrong output: {seen} records instead of {count}")


def check_file(found: Path, want: Path, count: int) -> None:
    """The file holds the first `count` lines of the other: all, in order, once.  Errors: Failed."""
    size = count * LINE_BYTES
    if found.stat().st_size != size:
        raise Failed(f"wrong output: {found.name} has {found.stat().st_size} bytes instead of {size}")
    with found.open("rb") as have_file, want.open("rb") as want_file:
        for start in range(0, size, 1 << 20):
            length = min(1 << 20, size - start)
            if have_file.read(length) != want_file.read(length):
                raise Failed(f"wrong output: {found.name} differs within 1 MiB after byte {start}")
