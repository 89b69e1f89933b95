"""Finds the differing rows of two large sides by their hashes.

Both sides sum their rows' hashes per bucket. Buckets whose sums agree hold the same rows. Hashes of the other buckets
are fetched, some millions at a time, and counted: a hash that is left over on a side differs. So counts are exact, and
memory does not depend on the number of rows.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeAlias

import duckdb
import pyarrow as pa

from harness.diff.printing import show
from harness.diff.result import GroupDifference, RowKind
from harness.diff.schemas import plain
from harness.diff.sides import Buckets
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.threads import tracked

MOST_AT_ONCE = 8_000_000
"""Hashes of both sides that are looked at in one go."""
MOST_KEYS = 4_000_000
"""Keys that an engine groups in one go, and holds all of."""
_MEMORY = "800MB"

Hash: TypeAlias = tuple[int, int]
"""Both lanes: of a row or, with keys, of its key."""


def _shown() -> dict[str, dict[Hash, int]]:
    return {"left": {}, "right": {}, "both": {}}


@dataclass(slots=True)
class HashTally:
    """The differing rows so far by kind: `left` or `right`, only on this side, or `both`, of a key whose rows differ.

    most: hashes of each kind to remember. kinds: the number of different rows. rows: the number of rows by kind, each
    counted as often as it occurs. shown: by kind some hashes, with how many more such rows a side has.
    """

    most: int
    kinds: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    shown: dict[str, dict[Hash, int]] = field(default_factory=_shown)

    def count(
        self, left: pa.Table, right: pa.Table, review: Callable[[duckdb.DuckDBPyConnection], None] | None = None
    ) -> None:
        """Adds the differences of the hashes of some buckets, in which no other hashes lie.

        review: looks at the table `d` of differing hashes (`kind`, the hash `a`, `b`, the count `n`), and may delete
            from it.
        """
        with ExitStack() as resources:
            folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="harness-compare-"))
            connection = tracked(duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": folder}))
            resources.callback(connection.close)
            connection.execute("SET preserve_insertion_order = false")
            connection.register("l", left)
            connection.register("r", right)
            query = _KEYED if "k1" in left.column_names else _UNKEYED
            connection.execute(f"CREATE TEMPORARY TABLE d AS {query}")
            connection.unregister("l")
            connection.unregister("r")
            if review is not None:
                review(connection)
            totals = connection.sql("SELECT kind, count(*), sum(n)::BIGINT FROM d GROUP BY kind").fetchall()
            for kind, different, rows in totals:
                self.kinds += different
                self.rows[kind] += rows
                if (wanted := self.most - len(self.shown[kind])) > 0:
                    query = f"SELECT a, b, n FROM d WHERE kind = '{kind}' ORDER BY a, b LIMIT {wanted}"
                    self.shown[kind].update({(a, b): n for a, b, n in connection.sql(query).fetchall()})


_UNKEYED = """
    SELECT h1 AS a, h2 AS b, abs(sum(n))::BIGINT AS n, CASE WHEN sum(n) > 0 THEN 'left' ELSE 'right' END AS kind
    FROM (SELECT h1, h2, 1 AS n FROM l UNION ALL SELECT h1, h2, -1 AS n FROM r)
    GROUP BY h1, h2 HAVING sum(n) <> 0
"""
# A key occurs once on a side: that was asked before.
_KEYED = """
    SELECT coalesce(l.k1, r.k1) AS a, coalesce(l.k2, r.k2) AS b, 1::BIGINT AS n,
        CASE WHEN r.k1 IS NULL THEN 'left' WHEN l.k1 IS NULL THEN 'right' ELSE 'both' END AS kind
    FROM l FULL JOIN r ON l.k1 = r.k1 AND l.k2 = r.k2
    WHERE l.k1 IS NULL OR r.k1 IS NULL OR l.h1 <> r.h1 OR l.h2 <> r.h2
"""


def passes(left: Buckets, right: Buckets, most: int = MOST_AT_ONCE) -> Iterator[tuple[int, ...]]:
    """The buckets whose sums differ, in turns that hold at most `most` rows of both sides, or one bucket."""
    differing = sorted(b for b in left.keys() | right.keys() if left.get(b) != right.get(b))
    sizes = {b: sum(side[b].rows for side in (left, right) if b in side) for b in differing}
    return turns(sizes.items(), most)


def turns(sizes: Iterable[tuple[int, int]], most: int = MOST_KEYS) -> Iterator[tuple[int, ...]]:
    """Buckets in turns that hold at most `most` rows, or one bucket. sizes: of each bucket, ascending."""
    turn: list[int] = []
    rows = 0
    for bucket, size in sizes:
        if turn and rows + size > most:
            yield tuple(turn)
            turn, rows = [], 0
        turn.append(bucket)
        rows += size
    if turn:
        yield tuple(turn)


def total(buckets: Buckets) -> int:
    """The number of a side's rows."""
    return sum(sums.rows for sums in buckets.values())


MOST_GROUPS = 20
"""Groups that a report shows."""
_MOST_COUNTED = 100_000
"""Groups that are told apart; they could be as many as rows."""
_KINDS = {"both": RowKind.CHANGED, "left": RowKind.ONLY_LEFT, "right": RowKind.ONLY_RIGHT}

Load: TypeAlias = Callable[[str, int, pa.Table, Sequence[str]], None]


def partition_columns(plan: ScanPlan) -> tuple[str, ...]:
    """The columns of a planned table that are partition values themselves, not those of a bucket or a day."""
    sources = {source for partition in plan.partitions for source in partition.constants}
    return tuple(field.name for field in plan.columns if field.id in sources)


@dataclass(slots=True)
class Groups:
    """Differing rows so far, by the printed values of some columns. schemas: of both sides."""

    columns: tuple[str, ...]
    schemas: tuple[pa.Schema, pa.Schema]
    counts: defaultdict[tuple[str, ...], Counter[RowKind]] = field(default_factory=lambda: defaultdict(Counter))

    def count(self, connection: duckdb.DuckDBPyConnection, load: Load) -> None:
        """Adds the rows of the table `d` of differing hashes. load: makes a table of rows that have wanted hashes."""
        for number, label, kinds in ((0, "l", "'left', 'both'"), (1, "r", "'right'")):
            wanted = pa.table(connection.sql(f"SELECT a, b FROM d WHERE kind IN ({kinds})"))
            if not wanted.num_rows:
                continue
            load(label, number, wanted, self.columns)
            names = [f"c{i}" for i in range(len(self.columns))]
            listed = ", ".join(names)
            once = f"SELECT DISTINCT ON (k1, k2) * FROM {label}"
            grouped = (
                f"SELECT {listed}, d.kind, sum(d.n)::BIGINT AS n FROM ({once}) x JOIN d ON d.a = x.k1 AND d.b = x.k2 "
                f"WHERE d.kind IN ({kinds}) GROUP BY {listed}, d.kind ORDER BY n DESC LIMIT {_MOST_COUNTED}"
            )
            found = pa.table(connection.sql(grouped))
            types = [plain(self.schemas[number].field(name).type) for name in self.columns]
            shown = [found.column(i).cast(type_) for i, type_ in enumerate(types)]
            counted = zip(found.column("kind").to_pylist(), found.column("n").to_pylist(), strict=True)
            for place, (kind, rows) in enumerate(counted):
                self.counts[tuple(show(column, place) for column in shown)][_KINDS[kind]] += rows

    def found(self) -> tuple[tuple[GroupDifference, ...], int]:
        """The groups with most differing rows, those first, and how many there are."""
        return ranked(self.counts)


def ranked(counts: Mapping[tuple[str, ...], Counter[RowKind]]) -> tuple[tuple[GroupDifference, ...], int]:
    """The groups with most differing rows, those first, and how many there are. counts: by printed values."""
    first = sorted(counts.items(), key=lambda item: (-item[1].total(), item[0]))[:MOST_GROUPS]
    groups = [
        GroupDifference(values=values, **{kind.name.lower(): number for kind, number in kinds.items()})
        for values, kinds in first
    ]
    return tuple(groups), len(counts)
