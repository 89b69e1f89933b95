"""Read groups: files whose columns resolve in the same way, and the relation that reads each group.

Parquet files are read by DuckDB itself. Avro and ORC files, and the few Parquet files that DuckDB would not read right
(see `arrow_files.needs_arrow`), come in through Arrow with the same two columns beside the data: `file_index`, the
place of the file in its group, and `file_row_number`, the physical row from 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

from harness.engines.duckdb import sqltext
from harness.engines.duckdb.arrow_files import load, load_parquet, needs_arrow, stack
from harness.engines.duckdb.columns import Exposed, column, exposed
from harness.engines.duckdb.footers import FileName, Footer, open_storage, read_footers
from harness.engines.duckdb.legacy_calendar import guarded, legacy_files
from harness.errors import CorruptFileError, HarnessWarning, SchemaMismatchError
from harness.plan import ScanPlan
from harness.projection import PhysicalField, PhysicalSchema, Source, find_named, find_stored, is_positional, resolve
from harness.schema import Field

SCAN_OPTIONS = "hive_partitioning=false, can_have_nan=true"
"""No columns from paths (iceberg 7.1); row groups with NaN are not skipped by bounds that leave NaN out (delta F9)."""


Split: TypeAlias = tuple[Hashable, bool]
"""What decides the branch of a file beside its schema: its equality deletes, and whether positions are deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFile:
    """A file to read.

    constants: by source field id, the partition values (stored form) that stand in for columns that the file lacks.
    exact_rows: the row count that the file must have, because positions or row ids depend on it; None: any.
    split: files with different values never share a group.
    """

    name: FileName
    format: str
    constants: Mapping[int, Any] = field(default_factory=dict, hash=False)
    exact_rows: int | None = None
    split: Split = (None, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGroup:
    """Files read by one relation.

    members: indexes of the files, in the order of their `file_index`.
    rows: per member, the physical row count.
    relation: the FROM item, without alias.
    parquet: whether DuckDB reads the files itself.
    schema: the physical schema of all members.
    sources: per wanted field, where its values come from.
    shown: how DuckDB shows the columns of `schema`, by place.
    split: as in `ScanFile`.
    """

    members: tuple[int, ...]
    rows: tuple[int, ...]
    relation: str
    parquet: bool
    schema: PhysicalSchema
    sources: tuple[Source, ...]
    shown: Sequence[Exposed]
    split: Split

    def expressions(self, fields: Sequence[Field], constants: Mapping[int, str]) -> tuple[str, ...]:
        """The SQL expression of each wanted field, in order. `constants`: partition constants by source field id."""
        return tuple(column(f, source, self.shown, constants) for f, source in zip(fields, self.sources, strict=True))

    def stored(self, wanted: Field) -> str | None:
        """The expression of a metadata column that the files hold themselves (row lineage), or None."""
        source = find_stored(wanted.id, self.schema)
        return None if source is None else column(wanted, source, self.shown, {})

    def named(self, wanted: Field, name: str) -> str | None:
        """The expression of a metadata column that the files hold as a column called `name`, or None (delta W2, W3)."""
        source = find_named(name, self.schema)
        return None if source is None else column(wanted, source, self.shown, {})


@dataclass(frozen=True, slots=True)
class _Opened:
    schema: PhysicalSchema
    rows: int
    table: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class Scanner:
    """Opens the files of a plan on one connection.

    register: puts an Arrow table where SQL can read it, and returns its name there.
    """

    connection: duckdb.DuckDBPyConnection
    plan: ScanPlan
    register: Callable[[pa.Table], str]
    _footers: dict[str, Footer] = field(default_factory=dict)
    _legacy: dict[str, frozenset[str]] = field(default_factory=dict)
    _columns: dict[int, list[Exposed]] = field(default_factory=dict)

    def prefetch(self, files: Sequence[ScanFile]) -> None:
        """Reads the footers of all Parquet files among `files` in one go, for the calls of `groups` that follow."""
        storage = self.plan.storage
        open_storage(self.connection, storage, [file.name.physical for file in files])
        names = {file.name.physical: file.name for file in files if file.format == "parquet"}
        missing = [name for path, name in names.items() if path not in self._footers]
        footers = read_footers(self.connection, missing, storage, table=self.plan.table)
        self._footers.update(footers)
        if footers and self.plan.lookup.is_delta:  # no Iceberg writer ever wrote in the old calendar (iceberg 6.9)
            self._legacy.update(legacy_files(self.connection, footers))

    def groups(self, files: Sequence[ScanFile], fields: tuple[Field, ...]) -> list[ReadGroup]:
        """The read groups of `files`, in the order of their first files, with `fields` resolved.

        Raises:
            MissingFileError, CorruptFileError, EncryptedTableError, SchemaMismatchError, UnsupportedError: naming the
            file at fault.
        """
        opened = self._open(files)
        split: dict[Hashable, list[int]] = {}
        for index, (file, found) in enumerate(zip(files, opened, strict=True)):
            self._check_rows(file, found.rows)
            legacy = self._legacy.get(file.name.physical)
            alike = (file.format, id(found.schema), frozenset(file.constants), file.split, legacy)
            split.setdefault(alike, []).append(index)
        return [self._group(files, members, opened, fields) for members in split.values()]

    def _open(self, files: Sequence[ScanFile]) -> list[_Opened]:
        self.prefetch(files)
        interned: dict[PhysicalSchema, PhysicalSchema] = {}
        opened = []
        for file in files:
            if file.format == "parquet":
                footer = self._footers[file.name.physical]
                opened.append(_Opened(footer.schema, footer.rows))
            else:
                schema, rows = load(file.name, file.format, self.plan.storage, table=self.plan.table)
                opened.append(_Opened(interned.setdefault(schema, schema), rows.num_rows, rows))
        return opened

    def _group(
        self, files: Sequence[ScanFile], members: Sequence[int], opened: Sequence[_Opened], fields: tuple[Field, ...]
    ) -> ReadGroup:
        first, schema = files[members[0]], opened[members[0]].schema
        sources = resolve(
            fields,
            schema,
            name_mapping=self.plan.name_mapping,
            partition_ids=frozenset(first.constants),
            file_format=first.format,
            file_path=str(first.name),
            table=self.plan.table,
            lookup=self.plan.lookup,
        )
        self._warn_of_positions(first, schema)
        parquet = first.format == "parquet" and not needs_arrow(schema, fields, sources)
        if parquet:
            physical = tuple(files[i].name.physical for i in members)
            relation, sample = read_parquet(physical), read_parquet(physical[:1])
        else:
            relation = sample = self.register(
                stack([self._rows(files[i], opened[i], fields, sources) for i in members])
            )
        shown = self._cached(sample, schema, first) if parquet else self._shown(sample, schema, first)
        legacy = self._legacy.get(first.name.physical)
        return ReadGroup(
            members=tuple(members),
            rows=tuple(opened[i].rows for i in members),
            relation=relation,
            parquet=parquet,
            schema=schema,
            sources=sources,
            shown=shown if legacy is None else guarded(shown, schema, legacy),
            split=first.split,
        )

    def _warn_of_positions(self, file: ScanFile, schema: PhysicalSchema) -> None:
        mapping = self.plan.name_mapping
        if not self.plan.lookup.is_delta and is_positional(schema, name_mapping=mapping, file_format=file.format):
            warnings.warn(
                f"Columns of files without field ids, such as {file.name}, are taken by their positions, because table "
                f"{self.plan.table} has no name mapping [iceberg 5.6]",
                HarnessWarning,
                stacklevel=2,
            )

    def _rows(self, file: ScanFile, found: _Opened, fields: tuple[Field, ...], sources: tuple[Source, ...]) -> pa.Table:
        if found.table is not None:
            return found.table
        return load_parquet(file.name, found.schema, fields, sources, self.plan.storage, table=self.plan.table)

    def _cached(self, relation: str, schema: PhysicalSchema, file: ScanFile) -> list[Exposed]:
        if id(schema) not in self._columns:
            self._columns[id(schema)] = self._shown(relation, schema, file)
        return self._columns[id(schema)]

    def _shown(self, relation: str, schema: PhysicalSchema, file: ScanFile) -> list[Exposed]:
        """How DuckDB shows the columns: by position, because it renames the second of two names equal but for case."""
        try:
            bound = self.connection.sql(f"SELECT * FROM {relation}")
            columns = [exposed(label, type_) for label, type_ in zip(bound.columns, bound.types, strict=True)]
        except duckdb.Error as error:
            raise CorruptFileError(
                f"Cannot open file: {' '.join(str(error).split())}",
                cause="CorruptDataFile",
                table=self.plan.table,
                file=str(file.name),
            ) from error
        shown = columns[: len(schema)]  # after them come the virtual columns of files that came through Arrow
        for physical, seen in zip(schema, shown, strict=True):
            if not _same_shape(physical, seen):
                raise SchemaMismatchError(
                    f"Cannot read a column: DuckDB sees it as {seen.type}, its footer says otherwise",
                    cause="IncompatibleType",
                    table=self.plan.table,
                    file=str(file.name),
                    field=physical.name,
                    rule="iceberg 6.14",
                )
        return shown

    def _check_rows(self, file: ScanFile, rows: int) -> None:
        if file.exact_rows is not None and file.exact_rows != rows:
            raise CorruptFileError(
                f"Cannot read file: it has {rows} rows, the metadata says {file.exact_rows}; restore the file",
                cause="CorruptDataFile",
                table=self.plan.table,
                file=str(file.name),
                field="record_count",
                rule="iceberg 7.2",
            )


def read_parquet(physical: Sequence[str]) -> str:
    """The FROM item that reads these files, in this order of `file_index`."""
    return f"read_parquet({sqltext.paths(tuple(physical))}, {SCAN_OPTIONS})"


def _same_shape(physical: PhysicalField, shown: Exposed) -> bool:
    """Whether both have the same nested parts; a column that DuckDB shows flat (variant) has none to compare."""
    if not shown.parts:
        return True
    return len(physical.children) == len(shown.parts) and all(map(_same_shape, physical.children, shown.parts))
