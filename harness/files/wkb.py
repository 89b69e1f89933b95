"""Well-known binary, the bytes of a geometry, in one canonical form: little-endian, ISO codes, no SRID (frontier F1.6).

Writers use either byte order, and the flags of PostGIS for Z, M and SRID. DuckDB parses native geometries and writes
them anew in this form, so this is the form in which every engine gives them.
"""

from __future__ import annotations

import struct
from collections.abc import Container

_Z, _M, _SRID = 0x80000000, 0x40000000, 0x20000000
_POINT, _LINE, _POLYGON = 1, 2, 3
_PARTS = {4: (_POINT,), 5: (_LINE,), 6: (_POLYGON,), 7: range(1, 8)}
"""The kinds of geometry that each kind of collection is of."""
_KINDS = range(1, 8)
_MAX_DEPTH = 100


def canonical_wkb(data: bytes) -> bytes:
    """The same geometry in the canonical form. Raises `ValueError` for bytes that are no WKB (frontier F1.5, F1.7)."""
    out: list[bytes] = []
    try:
        position = _geometry(data, 0, out, kinds=_KINDS, dimensions=None, depth=0)
    except (IndexError, struct.error) as error:
        raise ValueError("it ends early") from error
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes follow the geometry")
    return b"".join(out)


def _geometry(
    data: bytes, position: int, out: list[bytes], *, kinds: Container[int], dimensions: int | None, depth: int
) -> int:
    """Appends the geometry to `out`. kinds, dimensions: those that it may have; a part has those of its whole."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"it nests deeper than {_MAX_DEPTH} levels")
    if data[position] > 1:
        raise ValueError(f"{data[position]} is no byte order")
    order = "<" if data[position] else ">"
    (code,) = struct.unpack_from(f"{order}I", data, position + 1)
    position += 9 if code & _SRID else 5
    kind, found = _type(code)
    if kind not in kinds or dimensions not in (None, found):
        raise ValueError(f"type {code} is not one of its whole's")
    out.append(struct.pack("<BI", 1, kind + 1000 * found))
    width = 2 + found.bit_count()
    if kind == _POINT:
        return _numbers(data, position, order, width, out)
    count, position = _count(data, position, order, out)
    if kind == _LINE:
        return _numbers(data, position, order, width * count, out)
    for _ in range(count):
        if kind == _POLYGON:
            points, position = _count(data, position, order, out)
            position = _numbers(data, position, order, width * points, out)
        else:
            position = _geometry(data, position, out, kinds=_PARTS[kind], dimensions=found, depth=depth + 1)
    return position


def _type(code: int) -> tuple[int, int]:
    """Kind of geometry, and its dimensions beyond the plane: 1 for Z plus 2 for M."""
    iso, kind = divmod(code & ~(_Z | _M | _SRID), 1000)
    if iso > 3 or kind not in _KINDS:
        raise ValueError(f"{code} is no type of geometry")
    return kind, iso | bool(code & _Z) | bool(code & _M) << 1


def _count(data: bytes, position: int, order: str, out: list[bytes]) -> tuple[int, int]:
    (count,) = struct.unpack_from(f"{order}I", data, position)
    out.append(struct.pack("<I", count))
    return count, position + 4


def _numbers(data: bytes, position: int, order: str, count: int, out: list[bytes]) -> int:
    """Doubles, as the 64 bits that they are."""
    end = position + 8 * count
    if end > len(data):
        raise IndexError(end)
    numbers = data[position:end]
    if order == ">":
        numbers = struct.pack(f"<{count}Q", *struct.unpack(f">{count}Q", numbers))
    out.append(numbers)
    return end
