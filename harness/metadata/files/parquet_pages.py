"""Pages of Parquet files, as far as their checksums go.

Spec: Apache Parquet, `PageHeader` in Thrift's compact protocol, and its CRC-32 of the bytes of a page as stored.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from harness.metadata.files.parquet_footer import Contradiction, struct

_SIZE, _CHECKSUM = 3 << 4 | 5, 4 << 4 | 5
"""Fields of a header, as `struct` calls them: numbers 3 and 4, integers of 32 bits."""


def has_checksum(data: bytes) -> bool:
    """True if a page that begins with these bytes says its checksum. A header that is cut off says none."""
    try:
        header, _ = struct(data, 0, {})
    except (IndexError, Contradiction):
        return False
    return _CHECKSUM in header


def damaged_pages(chunk: bytes) -> Iterator[int]:
    """The places in a column chunk where pages begin that have other checksums than they say, or no header."""
    at = 0
    while at < len(chunk):
        try:
            header, start = struct(chunk, at, {})
            end = start + header[_SIZE]
        except (IndexError, KeyError, Contradiction):
            yield at
            return
        if end > len(chunk) or end < start:
            yield at
            return
        said = header.get(_CHECKSUM)
        if said is not None and zlib.crc32(memoryview(chunk)[start:end]) != said & 0xFFFFFFFF:
            yield at
        at = end
