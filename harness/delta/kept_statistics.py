"""Statistics of checkpoints as columns, once they were read: row counts, and the bounds that filters asked for.

A checkpoint is columns already, but its statistics are mostly JSON, a text a file: to parse them takes two thirds of
the time in which a filter on a million files is planned. What was parsed is held in memory, and kept on disk where the
user names a directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from harness.cache.entries import StrangeEntryError
from harness.cache.kept import Cache
from harness.cache.keys import Key
from harness.cache.memory import Memory
from harness.delta.checkpoint_columns import Rows
from harness.delta.statistics import Bounds, FileStats, Leaf, array_type
from harness.model.arrow_values import from_numpy, to_numpy
from harness.records import dataclass

MOST_BYTES: Final = 128 << 20
FEWEST: Final = 10_000
"""Of fewer files the texts are parsed in less time than it takes to keep what they say."""
_COUNTS = pa.schema([pa.field("count", pa.int64())])
_ROW = pa.field("row", pa.int64())


@dataclass(frozen=True, slots=True)
class _Held:
    """What is known of some rows of a checkpoint. rows: ascending."""

    rows: Rows
    table: pa.Table

    @property
    def size(self) -> int:
        return int(self.table.nbytes) + self.rows.nbytes


SHARED: Final[Memory[_Held]] = Memory(MOST_BYTES)


@dataclass(frozen=True, slots=True)
class KeptStatistics:
    """What was read of the statistics of one version of a checkpoint. checkpoint: which one."""

    cache: Cache
    checkpoint: Key

    def get(self, wanted: Sequence[Leaf], rows: Rows) -> FileStats | None:
        """The statistics of rows of the checkpoint, in their order; None: not all of them are known."""
        columns: dict[int, Bounds] = {}
        for leaf in wanted:
            schema = _bounds(leaf)
            found = None if schema is None else self._get(_name(leaf), schema, rows)
            if found is None:
                return None
            columns[leaf.field.id] = Bounds(*(column.combine_chunks() for column in found.columns))
        counts = self._get("counts", _COUNTS, rows)
        return None if counts is None else FileStats(counts.column(0).combine_chunks(), columns)

    def put(self, wanted: Sequence[Leaf], parts: Sequence[tuple[Rows, FileStats]]) -> None:
        """Keeps statistics of rows of the checkpoint, all in arrays, in place of those that were known; but not few."""
        if sum(len(rows) for rows, _ in parts) < FEWEST:
            return
        rows = np.concatenate([rows for rows, _ in parts])
        order = np.argsort(rows, kind="stable")
        tables = {"counts": [pa.table([found.rows], schema=_COUNTS) for _, found in parts]}
        for leaf in wanted:
            own = [found.columns[leaf.field.id] for _, found in parts]
            tables[_name(leaf)] = [pa.table([b.lower, b.upper, b.nulls], schema=_bounds(leaf)) for b in own]
        for what, pieces in tables.items():
            if self._get(what, pieces[0].schema, rows) is None:  # else more may be known
                table = pa.concat_tables(pieces).combine_chunks()
                self._put(what, rows[order], table if (order[1:] > order[:-1]).all() else table.take(from_numpy(order)))

    def _get(self, what: str, schema: pa.Schema, rows: Rows) -> pa.Table | None:
        key = self._key(what)
        found = SHARED.get(key.name) or self._stored(key, schema)
        if found is None or not len(found.rows):
            return None
        places = np.minimum(np.searchsorted(found.rows, rows), len(found.rows) - 1)
        if (found.rows[places] != rows).any():
            return None
        return found.table if len(rows) == len(found.rows) else found.table.take(from_numpy(places))

    def _put(self, what: str, rows: Rows, table: pa.Table) -> None:
        key = self._key(what)
        SHARED.put(key.name, _Held(rows, table))
        if self.cache.folder is not None:
            self.cache.put(key, table.append_column(_ROW, from_numpy(rows)))

    def _stored(self, key: Key, schema: pa.Schema) -> _Held | None:
        entry = None if self.cache.folder is None else self.cache.get(key)
        if entry is None:
            return None
        try:
            table = entry.columns(schema.append(_ROW))
        except StrangeEntryError:
            self.cache.drop(key)
            return None
        found = _Held(to_numpy(table.column(_ROW.name)), table.drop_columns([_ROW.name]))
        SHARED.put(key.name, found)
        return found

    def _key(self, what: str) -> Key:
        of = self.checkpoint
        return Key(f"statistics of a checkpoint: {what}", of.path, of.size, of.token)


def _name(leaf: Leaf) -> str:
    return f"bounds of {leaf.path} as {leaf.field.type}"


def _bounds(leaf: Leaf) -> pa.Schema | None:
    type_ = array_type(leaf.field.type)
    return None if type_ is None else pa.schema([("lower", type_), ("upper", type_), ("nulls", pa.int64())])
