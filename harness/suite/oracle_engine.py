"""The oracle as an engine of harness: requests become plain values, and the oracle returns the rows.

The oracle (`harness.suite.oracle`) imports only the error classes of harness. `read_with_oracle` passes a location and
a request, and the oracle reads both metadata and data. `to_arrow` passes a plan that harness made, for slices,
comparisons, and tests of plans. Files, positions, and the scope of deletes then come from the plan.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from harness.engines.registry import Engine
from harness.errors import EngineError, HarnessError, RequestError, UnsupportedError, warn
from harness.metadata.filters.parse import text_and_names
from harness.metadata.model.arrow_values import from_numpy
from harness.metadata.plan.deletes import EqualityDelete, key_fields
from harness.metadata.plan.read_options import Ratified, catalog_answer
from harness.metadata.planned_scan import PlannedScan
from harness.storage.gate import Outside, Roots
from harness.storage.paths import PhysicalPath, is_local, redact
from harness.storage.stores import Storage
from harness.suite.oracle import scan as oracle
from harness.suite.oracle import types
from harness.suite.oracle.entry import read, scan_of
from harness.suite.oracle.paths import Entry, Files
from harness.suite.oracle.reading import rows_of


def read_with_oracle(
    location: str,
    *,
    snapshot_id: int | None = None,
    version: int | None = None,
    timestamp_ms: int | None = None,
    ref: str | None = None,
    changes: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    path_map: Mapping[str, str] | None = None,
    max_version: int | None = None,
    ratified: Iterable[Ratified] | None = None,
    published_only: bool = False,
    allowed_roots: Sequence[str] = (),
    outside: Outside | None = None,
) -> pa.Table:
    """Read a table with the oracle, which makes its own plan and skips no file.

    Args:
        location: The table's directory or, for Iceberg, a metadata file.
        snapshot_id: A snapshot id of an Iceberg table, or a version of a Delta table.
        version: A version of a Delta table.
        timestamp_ms: A time in milliseconds since 1970-01-01 UTC, inclusive.
        ref: A branch or tag of an Iceberg table.
        changes: The range whose changes are read instead of rows, as arguments of the oracle's `ChangeRange`.
        columns: Column names in output order. None means all columns of the schema.
        where: A boolean SQL expression.
        path_map: Prefixes of recorded paths, with the prefixes of the current locations.
        max_version: As for `harness.open_table`.
        ratified: As for `harness.open_table`.
        published_only: As for `harness.open_table`.
        allowed_roots: As for `harness.open_table`.
        outside: As for `harness.open_table`. None opens local files everywhere.

    Raises:
        HarnessError: The same classes as opening, planning, and reading raise, with the oracle's own messages.
    """
    answer = catalog_answer(max_version, ratified, published_only=published_only)
    commits = () if answer is None else answer.ratified
    request = oracle.Request(
        location=location,
        snapshot_id=snapshot_id,
        version=version,
        timestamp_ms=timestamp_ms,
        ref=ref,
        changes=None if changes is None else oracle.ChangeRange(**changes),
        columns=columns,
        where=None if where is None else _condition(where),
        path_map=path_map or {},
        max_version=max_version,
        ratified=[(c.version, c.name or "" if c.content is None else c.content) for c in commits],
        published_only=published_only,
    )
    places = (location, *request.path_map.values(), *allowed_roots)
    if outside is None and not allowed_roots and all(map(is_local, places)):
        return read(request)
    roots = Roots.for_table(location, places[1:], outside=outside or Outside.WARN)
    storage = Storage(roots=roots)
    if storage.exists(PhysicalPath(location)):
        storage = storage.including_table(location, location)
    gate = storage.roots or roots
    try:
        scan = scan_of(request, _StorageFiles(storage))
        for file in scan.data:
            gate.check(PhysicalPath(file.physical), file.path)
            for delete in file.equality:
                gate.check(PhysicalPath(delete.file.physical), delete.file.path)
        rows = rows_of(scan)
    except HarnessError as error:
        raise error.within(table=location) from error.__cause__
    if (sentence := gate.outside_notice()) is not None:
        warn(f"Table {redact(location)}: {sentence}")
    return rows


def to_arrow(plan: PlannedScan) -> pa.Table:
    """Return all rows of a plan that harness made. The oracle reads the files and applies the deletes of the plan.

    Raises:
        HarnessError: A file cannot be read.
        EngineError: A value fits no Arrow type, or the filter fails on a row.
    """
    try:
        return rows_of(_scan(plan))
    except HarnessError as error:
        raise error.within(table=plan.table, snapshot=plan.snapshot, format=plan.format) from error.__cause__


ENGINE = Engine(name="oracle", version=lambda: f"Python {platform.python_version()}", to_arrow=to_arrow)


@dataclasses.dataclass(frozen=True)
class _StorageFiles(Files):
    """The oracle's access to a storage, which checks every path against the roots of the table."""

    storage: Storage

    def read(self, path: str) -> bytes:
        return self.storage.read(PhysicalPath(path))

    def has_file(self, path: str) -> bool:
        return self.storage.has_file(PhysicalPath(path))

    def is_directory(self, path: str) -> bool:
        return self.storage.is_directory(PhysicalPath(path))

    def entries(self, directory: str) -> list[Entry]:
        return [
            Entry(entry.name, entry.size, entry.modified_ms) for entry in self.storage.entries(PhysicalPath(directory))
        ]

    def opens(self, path: str) -> bool:
        if path.startswith("/"):
            return True
        try:
            self.storage.client(PhysicalPath(path))
        except (RequestError, OSError):
            return False
        return "://" in path


def _scan(plan: PlannedScan) -> oracle.Scan:
    """Return a plan as a scan of the oracle.

    Raises:
        UnsupportedError: The plan reads changes of an Iceberg table, which the oracle only reads without a plan.
    """
    if plan.lifetimes is not None:
        message = "Cannot execute a plan of changes with the oracle: use duckdb or spark, or read_with_oracle"
        raise UnsupportedError(message, table=plan.table)
    rows = plan.files.to_pylist()
    loaded = plan.load_positions(range(len(rows)))
    equality = [_equality_delete(delete, plan) for delete in plan.equality_deletes]
    data = []
    for ordinal, row in enumerate(rows):
        partition, positions = plan.partitions[row["partition"]], loaded.get(ordinal)
        data.append(
            oracle.DataFile(
                **{key: row[key] for key in ("path", "physical", "format", "record_count", "spec_id")},
                partition=partition.values,
                constants=partition.constants,
                sequence_number=row["sequence_number"],
                first_row_id=row["first_row_id"],
                commit_version=row["commit_version"],
                equality=tuple(
                    equality[index] for index in plan.delete_sets[row["delete_set"]] if _applies_to(plan, index, row)
                ),
                positions=None if positions is None else positions.__iter__,
            )
        )
    return oracle.Scan(
        table=plan.table,
        format=plan.format,
        snapshot=plan.snapshot,
        columns=_oracle_value(plan.columns),
        filter=_filter(plan),
        data=tuple(data),
        files=_StorageFiles(plan.storage),
        lookup=plan.lookup.value,
        name_mapping=None if plan.name_mapping is None else _oracle_value(plan.name_mapping.fields),
        materialized=plan.materialized,
    )


def _applies_to(plan: PlannedScan, index: int, row: Mapping[str, Any]) -> bool:
    """Return whether an equality delete of a file's delete set applies to the file (iceberg 4.6).

    In a plan of a server, which has no sequence numbers, all deletes of the set do.
    """
    delete, sequence_number = plan.equality_deletes[index], row["sequence_number"]
    if delete.sequence_number is None:
        return True
    is_later = sequence_number is not None and sequence_number < delete.sequence_number
    return is_later and delete.partition in (None, row["partition"])


def _equality_delete(delete: EqualityDelete, plan: PlannedScan) -> oracle.EqualityDelete:
    partition = None if delete.partition is None else plan.partitions[delete.partition]
    file = oracle.DataFile(
        path=delete.path,
        physical=delete.physical,
        format=delete.format,
        record_count=delete.record_count,
        spec_id=0,
        partition={},
        constants={} if partition is None else partition.constants,
        sequence_number=delete.sequence_number,
        first_row_id=None,
    )
    return oracle.EqualityDelete(
        file, _oracle_value(delete.keys), tuple(tuple(f.id for f in key_fields(key)) for key in delete.keys)
    )


def _filter(plan: PlannedScan) -> oracle.Filter | None:
    if plan.filter is None:
        return None
    return oracle.Filter(_oracle_value(plan.filter.columns), partial(_matches, plan.filter.sql))


def _condition(where: str) -> oracle.Condition:
    """Return the function that makes a table's filter from an expression in DuckDB's SQL.

    Raises:
        RequestError: The text is not a condition on one row.
    """
    text, names = text_and_names(where)

    def make(find: Callable[[str], types.Field]) -> oracle.Filter:
        columns = {f.id: f for f in map(find, names)}
        return oracle.Filter(tuple(columns.values()), partial(_matches, text))

    return make


def _matches(where: str, rows: pa.Table) -> list[int]:
    """Return the numbers of the rows that match a filter, in ascending order. DuckDB defines the meaning of filters.

    Raises:
        EngineError: DuckDB cannot evaluate the filter on these rows.
    """
    import duckdb

    from harness.engines.duckdb import instance
    from harness.metadata.filters import sqltext

    number = "#" + max(rows.column_names, key=len, default="")  # longer than the name of any column
    numbered = rows.append_column(number, from_numpy(np.arange(rows.num_rows)))
    try:
        with instance.cursor() as connection:
            # A projection, because DuckDB pushes a filter on an Arrow table into the scan, where pyarrow evaluates it.
            evaluated = connection.from_arrow(numbered).select(f"{sqltext.name(number)}, CAST(({where}) AS BOOLEAN)")
            return sorted(place for place, matches in evaluated.fetchall() if matches)
    except (duckdb.Error, pa.ArrowException, OverflowError) as error:
        raise EngineError(f"Cannot evaluate the filter: {instance.error_text(error)}") from error


def _oracle_value(value: Any) -> Any:
    """Convert a type, field, or name mapping of harness to the oracle's class with the same name and parts."""
    if isinstance(value, tuple):
        return tuple(map(_oracle_value, value))
    if not dataclasses.is_dataclass(value):
        return value
    kind = getattr(types, type(value).__name__, None)
    if kind is None:  # a type without parameters, or a geometry
        return (types.GeoType if "(" in str(value) else types.SimpleType)(str(value))
    return kind(**{part.name: _oracle_value(getattr(value, part.name)) for part in dataclasses.fields(kind)})
