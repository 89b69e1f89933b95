"""How a read of a table treats each live file, and the recorded facts that rows of skipped files contradict."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.filters.predicate import Filter
from harness.metadata.filters.skipping import ColumnBounds, bound_type
from harness.metadata.model.schema import DateType, Field, TimestampType, TimeType, UuidType, value_text
from harness.trace.model import SKIPPED, CandidateFile, FalseStatistic, FileDecision
from harness.trace.versions import row_texts

if TYPE_CHECKING:
    from harness.snapshot import FormatTable

_DECISIONS = {"partition": FileDecision.BY_PARTITION, "statistics": FileDecision.BY_STATISTICS}


def candidate_files(
    source: FormatTable, selection: Any, condition: Filter, rows: pa.Table, lost: Collection[str]
) -> list[CandidateFile]:
    """Return the live files of a snapshot, and how a read with a condition treats them.

    Args:
        source: The table.
        selection: The snapshot.
        condition: The condition.
        rows: Versions of all matching rows, also in skipped files, with `_file`, `_pos`, and the columns of the
            condition.
        lost: The recorded paths of data files that cannot be read.
    """
    everything = source.plan(selection, (), None)
    pruned = source.plan(selection, (), condition)
    is_read = set(pruned.files.column("path").to_pylist())
    reasons = {each["path"]: _DECISIONS[each["reason"]] for each in pruned.skipped.to_pylist()}
    columns = [each for each in condition.columns if each in everything.schema.fields]
    bounds = {} if everything.statistics is None else everything.statistics.bounds(columns)
    places = _places(rows)
    files = []
    listed = everything.files.select(["path", "partition"]).to_pylist()
    for number, file in enumerate(listed):
        path, partition = file["path"], everything.partitions[file["partition"]]
        decision = FileDecision.READ if path in is_read else reasons.get(path, FileDecision.BY_MANIFEST)
        decision = FileDecision.LOST if path in lost else decision
        false: list[FalseStatistic] = []
        if decision in SKIPPED and path in places:
            matching = rows.take(pa.array(places[path], pa.int64()))
            for column in columns:
                if column.id in bounds:
                    false += _contradictions(column, bounds[column.id], number, matching)
        files.append(
            CandidateFile(
                path=path,
                decision=decision,
                partition=str(partition) if partition.values else None,
                bounds={each.name: _range(each, bounds[each.id], number) for each in columns if each.id in bounds},
                false=tuple(false),
            )
        )
    return files


def _places(rows: pa.Table) -> Mapping[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, path in enumerate(rows.column("_file").to_pylist()):
        places.setdefault(path, []).append(place)
    return places


def _range(column: Field, bounds: ColumnBounds, number: int) -> str:
    """Return the recorded facts of a column in a file as text."""
    lower, upper = bounds.lower[number].as_py(), bounds.upper[number].as_py()
    if not bounds.has_values[number]:
        return "only nulls"
    texts = [None if value is None else value_text(value, column.type) for value in (lower, upper)]
    if texts[0] is None and texts[1] is None:
        return "without bounds"
    return f"from {texts[0] or 'an unknown bound'} to {texts[1] or 'an unknown bound'}"


def _contradictions(column: Field, bounds: ColumnBounds, number: int, rows: pa.Table) -> Iterable[FalseStatistic]:
    """Yield the recorded facts of a column in a file that one of its rows contradicts, each with one row."""
    stored = bound_type(column.type)
    if stored is None:
        return
    values = _ordered(rows.column(column.name), column)
    lower, upper = bounds.lower[number], bounds.upper[number]
    checks = [
        (f"its recorded lower bound is {value_text(lower.as_py(), column.type)}", pc.less(values, lower)),
        (f"its recorded upper bound is {value_text(upper.as_py(), column.type)}", pc.greater(values, upper)),
    ]
    if not bounds.has_values[number]:
        checks.append(("the file is recorded to have only nulls there", pc.is_valid(values)))
    if not bounds.has_nulls[number]:
        checks.append(("the file is recorded to have no nulls there", pc.is_null(values)))
    for fact, mask in checks:
        place = pc.index(pc.fill_null(mask, False), True).as_py()
        if place >= 0:
            text = row_texts(rows.select([column.name]).slice(place, 1))[0][0]
            yield FalseStatistic(
                column=column.name,
                recorded=fact,
                value="NULL" if text is None else text,
                position=rows.column("_pos")[place].as_py(),
            )


def _ordered(values: pa.ChunkedArray, column: Field) -> pa.ChunkedArray:
    """Return the values of a column in the type of its bounds."""
    stored = bound_type(column.type)
    match column.type:
        case DateType():
            return values.cast(pa.int32()).cast(stored)
        case TimestampType() | TimeType():
            return values.cast(pa.int64())
        case UuidType():
            return pa.chunked_array([chunk.storage.cast(stored) for chunk in values.chunks], stored)
        case _:
            return values.cast(stored)
