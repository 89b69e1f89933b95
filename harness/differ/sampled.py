"""Both sides' rows of some keys, chosen by the keys' hashes: the same keys on both sides, and in every run."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa

from harness.differ.arrow_side import ArrowSide
from harness.differ.buckets import total
from harness.differ.by_hashes import cheaper_first, hashing_of
from harness.differ.failing import failing
from harness.differ.rules import Rules
from harness.differ.sides import HASH_PREFIX, Hashing, Side, Some

_BITS = 20
_MARGIN = 1.3


def sampled(
    sides: tuple[Side, Side], columns: tuple[str, ...], rules: Rules, number: int, resources: ExitStack
) -> tuple[Side, Side]:
    """The rows of at most `number` keys that either side has, in memory.

    Raises:
        SideFailedError: a side fails.
    """
    hashing = hashing_of(sides, columns, rules)
    share = min(1.0, (_MARGIN * number + 100) / max(1, _rows(sides, hashing)))
    buckets = range(int(share * (1 << _BITS)))
    drawn = []
    for place, side in enumerate(sides):
        with failing(place):
            wanted = Some(None, buckets, 0)
            parts = list(side.matching(replace(hashing, bits=_BITS), wanted, hashing.columns))
            drawn.append(pa.concat_tables(parts) if parts else _empty(side, hashing))
    hashes = [_keys(rows) for rows in drawn]
    chosen = set(sorted({*hashes[0], *hashes[1]})[:number])
    left, right = (
        _in_memory(side, rows, hashing, [i for i, each in enumerate(own) if each in chosen], resources)
        for side, rows, own in zip(sides, drawn, hashes, strict=True)
    )
    return left, right


def _rows(sides: tuple[Side, Side], hashing: Hashing) -> int:
    place = cheaper_first(sides)[0]
    with failing(place):
        keys = replace(hashing, columns=hashing.keys, forms=tuple(map(hashing.form_of, hashing.keys)))
        return total(sides[place].buckets(keys))


def _keys(rows: pa.Table) -> list[tuple[int, int]]:
    first, second = (rows.column(f"{HASH_PREFIX}{name}").to_pylist() for name in ("k1", "k2"))
    return list(zip(first, second, strict=True))


def _empty(side: Side, hashing: Hashing) -> pa.Table:
    hashes = [pa.field(f"{HASH_PREFIX}{name}", pa.uint64()) for name in ("k1", "k2")]
    return pa.schema([*(side.schema.field(name) for name in hashing.columns), *hashes]).empty_table()


def _in_memory(side: Side, rows: pa.Table, hashing: Hashing, places: list[int], resources: ExitStack) -> ArrowSide:
    whole = rows.select(list(hashing.columns)).take(pa.array(places, pa.int64()))
    return ArrowSide(info=side.info, schema=whole.schema, whole=whole, resources=resources)
