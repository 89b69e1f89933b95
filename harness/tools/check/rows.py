"""Rules about the rows of data files, of both formats: order, row ids, constraints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from harness.engines.registry import duckdb_engine
from harness.errors import EngineError
from harness.metadata.filters import sqltext
from harness.metadata.iceberg.model import Direction
from harness.metadata.iceberg.transforms import Identity
from harness.metadata.model import schema as dt
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.records import dataclass
from harness.tools.check.files import Statements
from harness.tools.check.rules import Found, Place, Reads, Severity, rule
from harness.tools.check.values import SINGLE, asked, rows_of


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of some files of a plan, with the words of the metadata on the files. paths: as recorded."""

    plan: ScanPlan
    statements: Statements
    paths: Sequence[str]

    def place(self, path: str, field: str, column: str | None = None) -> Place:
        """The place of a statement about a file."""
        return Place(file=self.statements.says.get(path, self.plan.table), entry=path, field=field, column=column)


@rule(
    "ICE-507",
    Severity.WARNING,
    Reads.ROWS,
    breaks="iceberg 1.18",
    hurts="Engines that merge sorted files without sorting: they give rows out of order, or miss matches.",
    mends="manifest: sort_order_id of the entry; or rewrite the file in order",
)
def sorted_rows(rows: FileRows) -> Iterator[Found]:
    """The rows of a file have the sort order that its entry names, as far as keys are columns."""
    claimed: dict[int, list[str]] = {}
    for path in rows.paths:
        entry = rows.statements.entries.get(path)
        if entry is not None and entry.sort_order_id:
            claimed.setdefault(entry.sort_order_id, []).append(path)
    for order_id, paths in claimed.items():
        keys = list(_keys(rows, order_id))
        if not keys:
            continue
        columns = [f for f in rows.plan.schema.fields if isinstance(f.type, SINGLE)]
        relation = duckdb_engine().relation(rows_of(rows.plan, paths, ["_file", "_pos"], columns))
        order = ", ".join([*keys, '"_pos"'])
        ranked = f'SELECT "_file", "_pos", row_number() OVER (PARTITION BY "_file" ORDER BY {order}) - 1 AS r FROM rows'
        text = f'SELECT "_file", min("_pos") FROM ({ranked}) WHERE r <> "_pos" GROUP BY ALL ORDER BY ALL'
        for path, at in asked(rows.plan, relation, text):
            yield Found(place=rows.place(path, "sort_order_id"), recorded=str(order_id), actual=f"not from row {at} on")


def _keys(rows: FileRows, order_id: int) -> Iterator[str]:
    """The leading keys of a sort order that are columns themselves, as SQL; their transforms keep no other order."""
    order, columns = rows.statements.orders.get(order_id), {f.id: f for f in rows.plan.schema.fields}
    for key in () if order is None else order.fields:
        column = columns.get(key.source_id or -1)
        if column is None or not isinstance(key.transform, Identity) or not isinstance(column.type, SINGLE):
            return
        direction = "ASC" if key.direction is Direction.ASCENDING else "DESC"
        yield f"{sqltext.name(column.name)} {direction} NULLS {key.null_order.value.rpartition('-')[2].upper()}"


_IDS = {
    "hurts": "Readers of row lineage: changes are taken for those of another row.",
    "mends": "the files: rewrite them without the stored ids; or first_row_id and baseRowId of their entries",
}


@rule("ICE-508", Severity.ERROR, Reads.ROWS, breaks=("iceberg 2.11", "iceberg 5.18"), **_IDS)
@rule("DEL-508", Severity.ERROR, Reads.ROWS, breaks=("delta W2", "delta W5"), **_IDS)
def unique_ids(rows: FileRows) -> Iterator[Found]:
    """A row id is that of one live row."""
    if rows.plan.files.column("first_row_id").null_count == len(rows.plan.files):
        return
    columns = (dt.METADATA["_file"], dt.METADATA["_row_id"])
    relation = duckdb_engine().relation(replace(rows.plan, columns=columns))
    ranges = 'SELECT "_file", min("_row_id"), max("_row_id"), count("_row_id") FROM rows GROUP BY ALL ORDER BY 2, 3'
    doubtful = sorted(_overlapping(rows.plan, asked(rows.plan, relation, ranges)))
    if not doubtful:
        return
    text = (
        'SELECT "_row_id", count(*), min("_file"), max("_file") FROM rows WHERE "_row_id" IS NOT NULL '
        f'AND "_file" IN ({", ".join(map(sqltext.text, doubtful))}) '
        'GROUP BY "_row_id" HAVING count(*) > 1 ORDER BY ALL LIMIT 20'
    )
    for id_, number, first, last in asked(rows.plan, relation, text):
        place = rows.place(first, "first_row_id")
        yield Found(place=place, recorded=f"row id {id_}", actual=f"{number} rows have it, one in {last}")


def _overlapping(plan: ScanPlan, ranges: Sequence[tuple[Any, ...]]) -> set[str]:
    """The files whose row ids may repeat: ranges that meet another one, or have gaps, or fewer ids than rows.

    ranges: path, least and greatest id, and rows, by ascending ids. To count every id of a table takes its memory.
    """
    recorded = dict(
        zip(plan.files.column("path").to_pylist(), plan.files.column("record_count").to_pylist(), strict=True)
    )
    found: set[str] = set()
    end, owner = -1, ""
    for path, least, greatest, rows in ranges:
        if least is None:
            continue
        size = greatest - least + 1
        if rows > size or size > (recorded.get(path) or 0):
            found.add(path)
        if least <= end:
            found |= {path, owner}
        if greatest > end:
            end, owner = greatest, path
    return found


@rule(
    "DEL-507",
    Severity.ERROR,
    Reads.ROWS,
    breaks="delta T7",
    hurts="Queries that are planned by the constraint, and writers that trust it.",
    mends="log: the constraint; or a new version without the rows",
)
def constraints(rows: FileRows) -> Iterator[Found]:
    """No live row makes a CHECK constraint of the table false."""
    if not rows.statements.constraints:
        return
    import sqlglot

    relation = duckdb_engine().relation(replace(rows.plan, columns=rows.plan.schema.fields))
    for name, condition in rows.statements.constraints.items():
        place = Place(file=rows.plan.table, field=f"delta.constraints.{name}")
        try:
            text = sqlglot.transpile(condition, read="spark", write="duckdb")[0]
            ((number,),) = asked(rows.plan, relation, f"SELECT count(*) FROM rows WHERE ({text}) IS FALSE")
        except sqlglot.errors.SqlglotError as error:
            raise EngineError(f"Cannot ask the constraint {name}, {condition!r:.80}: {error}") from error
        if number:
            yield Found(place=place, recorded=condition, actual=f"{number:,} rows make it false")
