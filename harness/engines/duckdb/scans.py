"""The relations that file groups are read by.

Parquet files are read by DuckDB itself. Avro and ORC files, and the few Parquet files that DuckDB would not read right
(see `arrow_files.needs_arrow`), come in through Arrow with the same two columns beside the data: `file_index`, the
place of the file in its group, and `file_row_number`, the physical row from 0. Files without columns have but these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from harness.engines.duckdb.arrow_relations import counted, needs_arrow, stack
from harness.engines.duckdb.columns import Exposed, column, exposed
from harness.engines.duckdb.legacy_calendar import guarded
from harness.engines.shared.arrow_files import load, load_parquet, with_canonical_geometries
from harness.engines.shared.duckdb_files import DuckDBFiles, said
from harness.engines.shared.file_groups import FileGroup, Inspector, Opened, ScanFile
from harness.errors import CorruptFileError, SchemaMismatchError
from harness.model.schema import Field
from harness.plan.projection import PhysicalField, PhysicalSchema, find_named, find_stored
from harness.plan.scan_plan import ScanPlan

SCAN_OPTIONS = "hive_partitioning=false, can_have_nan=true"
"""No columns from paths (iceberg 7.1); row groups with NaN are not skipped by bounds that leave NaN out (delta F9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScan:
    """A file group and the relation that reads it.

    group: its members, in the order of their `file_index`.
    rows: per member, the physical row count.
    relation: the FROM item, without alias.
    parquet: whether DuckDB reads the files itself.
    shown: how DuckDB shows the columns of the group's schema, by place.
    """

    group: FileGroup
    rows: tuple[int, ...]
    relation: str
    parquet: bool
    shown: Sequence[Exposed]

    def expressions(self, fields: Sequence[Field], constants: Mapping[int, str]) -> tuple[str, ...]:
        """The SQL expression of each wanted field, in order. `constants`: partition constants by source field id."""
        sources = zip(fields, self.group.sources, strict=True)
        return tuple(column(f, source, self.shown, constants) for f, source in sources)

    def stored(self, wanted: Field) -> str | None:
        """The expression of a metadata column that the files hold themselves (row lineage), or None."""
        source = find_stored(wanted.id, self.group.schema)
        return None if source is None else column(wanted, source, self.shown, {})

    def named(self, wanted: Field, name: str) -> str | None:
        """The expression of a metadata column that the files hold as a column called `name`, or None (delta W2, W3)."""
        source = find_named(name, self.group.schema)
        return None if source is None else column(wanted, source, self.shown, {})


@dataclass(frozen=True, slots=True)
class Scanner:
    """Opens the files of a plan on one connection.

    access: how SQL there calls them.
    register: puts an Arrow table where SQL can read it, and returns its name there.
    """

    access: DuckDBFiles
    plan: ScanPlan
    register: Callable[[pa.Table], str]
    inspector: Inspector
    _tables: dict[str, pa.Table]
    _columns: dict[int, list[Exposed]] = field(default_factory=dict)

    @staticmethod
    def over(plan: ScanPlan, connection: duckdb.DuckDBPyConnection, register: Callable[[pa.Table], str]) -> Scanner:
        """A scanner of the plan's files; opens none yet."""
        tables: dict[str, pa.Table] = {}

        def open_other(file: ScanFile) -> Opened:
            schema, rows = load(file.name, file.format, plan.storage, table=plan.table)
            tables[file.name.physical] = rows
            return Opened(schema, rows.num_rows)

        access = DuckDBFiles(connection, plan.storage)
        return Scanner(access, plan, register, Inspector(access, plan, open_other), tables)

    def scans(self, files: Sequence[ScanFile], fields: tuple[Field, ...]) -> list[GroupScan]:
        """The file groups of `files` with their relations.

        Raises:
            HarnessError: as for `Inspector.groups`.
        """
        return [self._scan(files, group, fields) for group in self.inspector.groups(files, fields)]

    def read_parquet(self, physical: Sequence[str]) -> str:
        """The FROM item that reads these files, in this order of `file_index`."""
        return read_parquet(self.access.listed(physical))

    def _scan(self, files: Sequence[ScanFile], group: FileGroup, fields: tuple[Field, ...]) -> GroupScan:
        first, schema = files[group.members[0]], group.schema
        rows = tuple(count for count in group.rows if count is not None)
        if not schema:
            relation = counted(rows, self.register)
            return GroupScan(group=group, rows=rows, relation=relation, parquet=False, shown=())
        parquet = group.format == "parquet" and not needs_arrow(group, fields)
        if parquet:
            physical = tuple(files[i].name.physical for i in group.members)
            relation, sample = self.read_parquet(physical), self.read_parquet(physical[:1])
        else:
            tables = [self._rows(files[i], group, fields) for i in group.members]
            rows = tuple(table.num_rows for table in tables)
            relation = sample = self.register(stack(tables))
        shown = self._cached(sample, schema, first) if parquet else self._shown(sample, schema, first)
        return GroupScan(
            group=group,
            rows=rows,
            relation=relation,
            parquet=parquet,
            shown=guarded(shown, schema, group.legacy) if group.legacy else shown,
        )

    def _rows(self, file: ScanFile, group: FileGroup, fields: tuple[Field, ...]) -> pa.Table:
        plan, sources = self.plan, group.sources
        if group.format != "parquet":
            rows = self._tables[file.name.physical]
        else:
            rows = load_parquet(file.name, group.schema, fields, sources, plan.storage, table=plan.table)
        return with_canonical_geometries(rows, fields, sources, file=file.name, table=plan.table)

    def _cached(self, relation: str, schema: PhysicalSchema, file: ScanFile) -> list[Exposed]:
        if id(schema) not in self._columns:
            self._columns[id(schema)] = self._shown(relation, schema, file)
        return self._columns[id(schema)]

    def _shown(self, relation: str, schema: PhysicalSchema, file: ScanFile) -> list[Exposed]:
        """How DuckDB shows the columns: by position, because it renames the second of two names equal but for case."""
        try:
            bound = self.access.connection.sql(f"SELECT * FROM {relation}")
            columns = [exposed(label, type_) for label, type_ in zip(bound.columns, bound.types, strict=True)]
        except duckdb.Error as error:
            raise CorruptFileError(
                f"Cannot open file: {said(error)}",
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


def read_parquet(listed: str) -> str:
    """The FROM item that reads files, listed by `DuckDBFiles`, in their order of `file_index`."""
    return f"read_parquet({listed}, {SCAN_OPTIONS})"


def _same_shape(physical: PhysicalField, shown: Exposed) -> bool:
    """Whether both have the same nested parts; a column that DuckDB shows flat (variant) has none to compare."""
    if not shown.parts:
        return True
    return len(physical.children) == len(shown.parts) and all(map(_same_shape, physical.children, shown.parts))
