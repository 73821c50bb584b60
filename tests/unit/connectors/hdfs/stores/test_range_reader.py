"""Files that are read by ranges."""

from __future__ import annotations

from headrace.connectors.hdfs.stores.range_reader import by_ranges


def test_what_gives_the_ranges_is_closed_once_with_the_file() -> None:
    data, closed = b"0123456789", list[bool]()
    with by_ranges(
        len(data), lambda offset, length: data[offset : offset + length], lambda: closed.append(True)
    ) as file:
        file.seek(4)
        assert (file.read(3), closed) == (b"456", [])
    file.close()
    del file
    assert closed == [True]
