"""Judges the rows that differ by hash, in a database of their own: by column, by group, within tolerances.

The rows of some buckets are fetched from both sides, joined by their keys' hashes, and summed up; only totals and a few
keys stay in memory. So the numbers are exact, however many rows there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

from harness.differ.buckets import Groups, Hash, Load
from harness.differ.canonical import canonical_values
from harness.differ.closeness import Line, line_of
from harness.differ.exact import MOST_EXAMPLES, distance, distance_text, examples
from harness.differ.forms import carried, plain, storage_type
from harness.differ.hashing import DuckDBValue, column_hash
from harness.differ.relaxations import Tolerance
from harness.differ.result import ColumnDifference
from harness.differ.sides import HASH_PREFIX, Hashing

Fetch: TypeAlias = Callable[[int, pa.Table, Sequence[str]], Iterator[pa.Table]]
"""The rows of a side (0 or 1) that have wanted hashes, as `Side.matching` gives them."""


@dataclass(slots=True)
class ColumnTotals:
    """The differences in a column so far. counts: by field of `ColumnDifference`. keys: of some rows, by hashes."""

    counts: Counter[str] = field(default_factory=Counter)
    furthest: float = -1.0
    furthest_key: Hash | None = None
    keys: list[Hash] = field(default_factory=list)

    def add(self, counts: Sequence[int], furthest: float | None, key: Any, keys: Any) -> None:
        """Adds the sums of some buckets, as `_SUMS` gives them."""
        self.counts.update(dict(zip(_COUNTS, counts, strict=True)))
        if furthest is not None and furthest > self.furthest:
            self.furthest, self.furthest_key = furthest, (key["a"], key["b"])
        self.keys = [*self.keys, *((each["a"], each["b"]) for each in keys or ())][:MOST_EXAMPLES]

    def examples(self) -> list[Hash]:
        """The keys of rows to show, first of the one whose values lie furthest apart."""
        first = [] if self.furthest_key is None else [self.furthest_key]
        return list(dict.fromkeys([*first, *self.keys]))[:MOST_EXAMPLES]


@dataclass(slots=True)
class Review:
    """Adds up differences by column and group, and lets pass values within tolerances.

    schemas: of both sides. groups: counts rows by group; None: nobody asked.
    """

    hashing: Hashing
    schemas: tuple[pa.Schema, pa.Schema]
    tolerances: Mapping[str, Tolerance]
    groups: Groups | None
    totals: dict[str, ColumnTotals] = field(default_factory=dict)
    allowed: int = 0

    def judge(self, connection: duckdb.DuckDBPyConnection, fetch: Fetch) -> None:
        """Looks at the table `d` of differing hashes, and deletes from it the rows that differ within tolerances."""
        load = partial(self._load, fetch)
        if self.hashing.keys:
            self._by_column(connection, load)
        if self.groups is not None:
            self.groups.count(connection, load)

    def example_keys(self) -> list[Hash]:
        """The keys whose rows `columns` wants."""
        return list(dict.fromkeys(key for totals in self.totals.values() for key in totals.examples()))

    def columns(
        self, left: pa.Table, right: pa.Table, places: tuple[dict[Hash, int], dict[Hash, int]]
    ) -> tuple[ColumnDifference, ...]:
        """The columns that differ, with examples from rows of both sides. places: where the rows of the keys are."""
        found = []
        for name, totals in self.totals.items():
            pairs = [(places[0][key], places[1][key]) for key in totals.examples()]
            largest = None
            if pairs and totals.furthest_key is not None:
                sides = zip((left.column(name), right.column(name)), pairs[0], strict=True)
                apart = distance(*(canonical_values(column.slice(place, 1))[0] for column, place in sides))
                line = Line.of(left.schema.field(name).type, right.schema.field(name).type)
                largest = None if line is None or apart is None else distance_text(line, apart)
            texts = examples(left, right, name, pairs)
            found.append(ColumnDifference(column=name, largest=largest, examples=texts, **totals.counts))
        return tuple(sorted(found, key=lambda each: self.hashing.columns.index(each.column)))

    def _by_column(self, connection: duckdb.DuckDBPyConnection, load: Load) -> None:
        names = [name for name in self.hashing.columns if name not in self.hashing.keys]
        wanted = pa.table(connection.sql("SELECT a, b FROM d WHERE kind = 'both'"))
        if not wanted.num_rows or not names:
            return
        for number, label in enumerate("lr"):
            load(connection, label, number, wanted, names)
        columns = [self._column(connection, i, name) for i, name in enumerate(names)]
        judged = f"SELECT l.k1 AS a, l.k2 AS b, {', '.join(columns)} FROM l JOIN r ON l.k1 = r.k1 AND l.k2 = r.k2"
        counted = " OR ".join(f"d{i}" for i in range(len(names)))
        if self.tolerances:
            connection.execute(
                f"CREATE TEMPORARY TABLE passed AS SELECT a, b FROM ({judged}) WHERE NOT ({counted}) AND "
                f"({' OR '.join(f'p{i}' for i in range(len(names)))})"
            )
            connection.execute("DELETE FROM d USING passed p WHERE d.kind = 'both' AND d.a = p.a AND d.b = p.b")
            self.allowed += connection.execute("SELECT count(*) FROM passed").fetchall()[0][0]
        sums = ", ".join(_SUMS.format(i=i, most=MOST_EXAMPLES) for i in range(len(names)))
        (found,) = connection.execute(f"SELECT {sums} FROM ({judged})").fetchall()
        width = len(found) // len(names)
        for i, name in enumerate(names):
            *counts, furthest, key, keys = found[i * width : (i + 1) * width]
            if counts[0] or counts[1]:
                self.totals.setdefault(name, ColumnTotals()).add(counts, furthest, key, keys)

    def _column(self, connection: duckdb.DuckDBPyConnection, i: int, name: str) -> str:
        """Tells whether the column differs (`d`), or would but for its tolerance (`p`); nulls; the distance."""
        types = [schema.field(name).type for schema in self.schemas]
        texts = [f"{label}.c{i}" for label in "lr"]
        hashes = [
            column_hash(
                DuckDBValue(text, connection.table(label).types[i + 2], plain(type_), self.hashing.form_of(name))
            )
            for label, text, type_ in zip("lr", texts, types, strict=True)
        ]
        unequal = f"({hashes[0]} <> {hashes[1]})"
        tolerance = self.tolerances.get(name)
        passed = "FALSE"
        if tolerance is not None:
            passed = f"({line_of(name, types[0], types[1], tolerance).within(tolerance, *texts)})"
        line = Line.of(types[0], types[1])
        apart = "NULL::DOUBLE" if line is None else line.distance(*texts)
        differs = f"{unequal} AND NOT {passed}"
        return (
            f"{differs} AS d{i}, {unequal} AND {passed} AS p{i}, {differs} AND {texts[0]} IS NULL AS m{i}, "
            f"{differs} AND {texts[1]} IS NULL AS n{i}, CASE WHEN {differs} THEN {apart} END AS x{i}"
        )

    def _load(
        self,
        fetch: Fetch,
        connection: duckdb.DuckDBPyConnection,
        label: str,
        number: int,
        wanted: pa.Table,
        names: Sequence[str],
    ) -> None:
        """A table `label` of the rows of a side that have wanted hashes: both hashes, then the columns as c0, c1, …"""
        by = self.hashing.grouped_by
        schema = self.schemas[number]
        types = [(f"c{i}", storage_type(schema.field(name).type)) for i, name in enumerate(names)]

        def batches() -> Iterator[pa.RecordBatch]:
            for rows in fetch(number, wanted, names):
                held = carried(rows.select(list(names)))
                hashes = [rows.column(f"{HASH_PREFIX}{name}") for name in by]
                yield from pa.table([*hashes, *held.columns], schema=whole).to_batches()

        whole = pa.schema([("k1", pa.uint64()), ("k2", pa.uint64()), *types])
        connection.register("stream", pa.RecordBatchReader.from_batches(whole, batches()))
        connection.register("wanted", wanted)
        # Behind an expression: DuckDB 1.5 gives a join's bounds to pyarrow, for which words of 64 bits are too large.
        connection.execute(
            f"CREATE OR REPLACE TEMPORARY TABLE {label} AS SELECT s.* FROM stream s SEMI JOIN wanted w "
            "ON xor(s.k1, 0) = w.a AND xor(s.k2, 0) = w.b"
        )
        connection.unregister("stream")
        connection.unregister("wanted")


_COUNTS = ("rows", "allowed", "left_nulls", "right_nulls")
_SUMS = (
    "count(*) FILTER (d{i}), count(*) FILTER (p{i}), count(*) FILTER (m{i}), count(*) FILTER (n{i}), max(x{i}), "
    "arg_max({{'a': a, 'b': b}}, x{i}), arg_min({{'a': a, 'b': b}}, a, {most}) FILTER (d{i})"
)
