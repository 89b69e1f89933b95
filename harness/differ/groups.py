"""How many rows differ in each group: of a partition, a day, whatever columns are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import duckdb
import pyarrow as pa

from harness.differ.printing import show
from harness.differ.result import GroupDifference, RowKind
from harness.differ.storage_types import plain
from harness.plan.scan_plan import ScanPlan

MOST_GROUPS = 20
"""Groups that a report shows."""
_MOST_COUNTED = 100_000
"""Groups that are told apart; more are no answer for a person, and could be as many as rows."""
_KINDS = {"both": RowKind.CHANGED, "left": RowKind.ONLY_LEFT, "right": RowKind.ONLY_RIGHT}

Load: TypeAlias = Callable[[duckdb.DuckDBPyConnection, str, int, pa.Table, Sequence[str]], None]


def partition_columns(plan: ScanPlan) -> tuple[str, ...]:
    """The columns of a planned table that are partition values themselves, not those of a bucket or a day."""
    sources = {source for partition in plan.partitions for source in partition.constants}
    return tuple(field.name for field in plan.columns if field.id in sources)


@dataclass(slots=True)
class Groups:
    """Differing rows so far, by the printed values of some columns.

    columns: what to group by. schemas: of both sides.
    """

    columns: tuple[str, ...]
    schemas: tuple[pa.Schema, pa.Schema]
    counts: dict[tuple[str, ...], dict[RowKind, int]] = field(default_factory=dict)

    def count(self, connection: duckdb.DuckDBPyConnection, load: Load) -> None:
        """Adds the rows of the table `d` of differing hashes. load: makes a table of rows that have wanted hashes."""
        for number, label, kinds in ((0, "l", "'left', 'both'"), (1, "r", "'right'")):
            wanted = pa.table(connection.sql(f"SELECT a, b FROM d WHERE kind IN ({kinds})"))
            if not wanted.num_rows:
                continue
            load(connection, label, number, wanted, self.columns)
            names = [f"c{i}" for i in range(len(self.columns))]
            listed = ", ".join(names)
            once = f"SELECT DISTINCT ON (k1, k2) * FROM {label}"
            grouped = (
                f"SELECT {listed}, d.kind, sum(d.n)::BIGINT AS n FROM ({once}) x JOIN d ON d.a = x.k1 AND d.b = x.k2 "
                f"WHERE d.kind IN ({kinds}) GROUP BY {listed}, d.kind ORDER BY n DESC LIMIT {_MOST_COUNTED}"
            )
            self._add(pa.table(connection.sql(grouped)), self.schemas[number])

    def found(self) -> tuple[GroupDifference, ...]:
        """The groups with most differing rows, those first."""
        ranked = sorted(self.counts.items(), key=lambda item: (-sum(item[1].values()), item[0]))
        return tuple(
            GroupDifference(
                values=values,
                changed=counts.get(RowKind.CHANGED, 0),
                only_left=counts.get(RowKind.ONLY_LEFT, 0),
                only_right=counts.get(RowKind.ONLY_RIGHT, 0),
            )
            for values, counts in ranked[:MOST_GROUPS]
        )

    def _add(self, grouped: pa.Table, schema: pa.Schema) -> None:
        shown = [grouped.column(i).cast(plain(schema.field(name).type)) for i, name in enumerate(self.columns)]
        kinds, numbers = grouped.column("kind").to_pylist(), grouped.column("n").to_pylist()
        for place, (kind, number) in enumerate(zip(kinds, numbers, strict=True)):
            self._count(tuple(show(column, place) for column in shown), _KINDS[kind], number)

    def _count(self, values: tuple[str, ...], kind: RowKind, number: int) -> None:
        counts = self.counts.setdefault(values, {})
        counts[kind] = counts.get(kind, 0) + number
