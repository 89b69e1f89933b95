"""The relations that file groups are read by.

Parquet files are read by DuckDB itself. Avro and ORC files, and the few Parquet files that DuckDB would not read right
(see `_needs_arrow`), come in through Arrow with the same two columns beside the data: `file_index`, the
place of the file in its group, and `file_row_number`, the physical row from 0. Files without columns have but these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace

import duckdb
import pyarrow as pa

from harness.engines.arrow_files import geometries, load, load_parquet, variants, with_canonical_geometries
from harness.engines.direct_looks import DirectLooks
from harness.engines.duckdb.columns import Exposed, exposed, guarded
from harness.engines.duckdb.files import DuckDBFiles
from harness.engines.file_groups import FileGroup, Inspector, Opened, ScanFile
from harness.engines.footers import failing_on
from harness.errors import SchemaMismatchError
from harness.metadata.model.schema import BinaryType, Field, TimestampType
from harness.metadata.plan.projection import ColumnSource, PhysicalField, PhysicalSchema, Stored
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.records import dataclass

SCAN_OPTIONS = "hive_partitioning=false, can_have_nan=true"
"""No columns from paths (iceberg 7.1); row groups with NaN are not skipped by bounds that leave NaN out (delta F9)."""
_VIRTUAL_COLUMNS = frozenset({"file_index", "file_row_number", "filename"})
_LISTED_ROWS = 10_000
_OLD_DUCKDB = int(duckdb.__version__.split(".")[0]) < 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScan:
    """The relation that reads a file group, whose members are in the order of their `file_index`.

    rows: per member, the physical row count.
    relation: the FROM item, without alias.
    parquet: whether DuckDB reads the files itself.
    shown: how DuckDB shows the columns of the group's schema, by place.
    """

    rows: tuple[int, ...]
    relation: str
    parquet: bool
    shown: Sequence[Exposed]


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
        return Scanner(access, plan, register, Inspector(DirectLooks(access, plan, open_other), plan), tables)

    def of(self, plan: ScanPlan) -> Scanner:
        """The same for a plan of some of the files; what was looked at stays known."""
        return replace(self, plan=plan, inspector=replace(self.inspector, plan=plan))

    def scan(self, files: Sequence[ScanFile], group: FileGroup, fields: tuple[Field, ...]) -> GroupScan:
        """The relation that reads a group. `files`: its members. `fields`: what its sources are the sources of.

        Raises:
            MissingFileError, CorruptFileError, StorageError: DuckDB cannot open the files.
            SchemaMismatchError: it sees other columns than harness.
        """
        first, schema = files[0], group.schema
        rows = tuple(count for count in group.rows if count is not None)
        if not schema:
            relation = counted(rows, self.register)
            return GroupScan(rows=rows, relation=relation, parquet=False, shown=())
        # Of a stranger's delete file DuckDB would believe the footer's statistics, and miss keys (1.5, 2.0).
        doubted = self.plan.storage.untrusted and not files[0].is_data
        parquet = group.format == "parquet" and not doubted and not _needs_arrow(group, fields)
        if parquet:
            physical = tuple(file.name.physical for file in files)
            relation, sample = self.read_parquet(physical), self.read_parquet(physical[:1])
        else:
            tables = [self._rows(file, group, fields) for file in files]
            rows = tuple(table.num_rows for table in tables)
            relation = sample = _unfiltered(self.register(_stacked(tables)))
        if parquet and group.shown is not None:
            shown = [Exposed(column.name, type_) for column, type_ in zip(schema, group.shown, strict=True)]
        else:
            shown = self._cached(sample, schema, first) if parquet else self._shown(sample, schema, first)
        return GroupScan(
            rows=rows,
            relation=relation,
            parquet=parquet,
            shown=guarded(shown, schema, group.legacy) if group.legacy else shown,
        )

    def read_parquet(self, physical: Sequence[str]) -> str:
        """The FROM item that reads these files, in this order of `file_index`."""
        return read_parquet(self.access.listed(physical))

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
        with failing_on([file.name], self.plan.storage, table=self.plan.table, doing="Cannot open file"):
            bound = self.access.connection.sql(f"SELECT * FROM {relation}")
            columns = [exposed(label, type_) for label, type_ in zip(bound.columns, bound.types, strict=True)]
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


def counted(rows: Sequence[int], register: Callable[[pa.Table], str]) -> str:
    """The FROM item of files without columns, that have so many rows: `file_index` and `file_row_number`.

    Rows are made as they are read, since a small file may say that it has any number of them. A arm per file costs
    planning (a second for 1,000), a list per file memory: files with many rows are arms.
    """
    few = [(i, count) for i, count in enumerate(rows) if count <= _LISTED_ROWS]
    arms = [
        f"SELECT CAST({i} AS UBIGINT) AS file_index, range AS file_row_number FROM range({count})"
        for i, count in enumerate(rows)
        if count > _LISTED_ROWS
    ]
    if few:
        indexes, counts = zip(*few, strict=True)
        name = register(pa.table({"i": pa.array(indexes, pa.uint64()), "n": pa.array(counts, pa.int64())}))
        arms.append(f"SELECT i AS file_index, unnest(range(n)) AS file_row_number FROM {name}")
    return f"({' UNION ALL '.join(arms)})"


def _needs_arrow(group: FileGroup, fields: Sequence[Field]) -> bool:
    """Whether DuckDB's own Parquet reader would give something else than the file's rows.

    - A column named like one of the reader's virtual columns hides it, and with it positions (delta E2).
    - A variant column is read as its encoded parts, and decoded by harness (iceberg 6.15).
    - DuckDB before 2.0 reads instants in nanoseconds as micros, and lets bytes pass that are no WKB (frontier F1.7).
    - On a user's connection, binary columns may be converted to geometries and back (frontier F0.2).
    """
    if any(f.name.lower() in _VIRTUAL_COLUMNS for f in group.schema):
        return True
    if any(variants(fields, group.sources)):
        return True
    if group.converted and any(BinaryType() == f.type for f in _used(group.sources)):
        return True
    if _OLD_DUCKDB and any(geometries(fields, group.sources)):
        return True
    return _OLD_DUCKDB and any(TimestampType("ns", utc=True) == f.type for f in _used(group.sources))


def _unfiltered(arrow: str) -> str:
    """The FROM item of an Arrow table, into whose scan DuckDB pushes no filter.

    DuckDB 1.5 pushes Bloom filters of joins into scans of Arrow tables, where they fail. Kept rows are out of reach.
    """
    return f"(WITH kept AS MATERIALIZED (SELECT * FROM {arrow}) SELECT * FROM kept)" if _OLD_DUCKDB else arrow


def _stacked(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all tables one after another, columns renamed by place, with `file_index` and `file_row_number`."""
    stacked = []
    for index, rows in enumerate(tables):
        fields = [pa.field(f"p{i}", _without_zoned_nanos(f.type)) for i, f in enumerate(rows.schema)]
        renamed = rows.rename_columns([f.name for f in fields]).cast(pa.schema(fields))
        renamed = renamed.append_column("file_index", pa.array([index] * rows.num_rows, pa.uint64()))
        stacked.append(renamed.append_column("file_row_number", pa.array(range(rows.num_rows), pa.int64())))
    return pa.concat_tables(stacked)


def _without_zoned_nanos(type_: pa.DataType) -> pa.DataType:
    """The type with instants in nanoseconds as readings in UTC, which every DuckDB takes as they are."""
    if pa.types.is_timestamp(type_) and type_.unit == "ns":
        return pa.timestamp("ns")
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(_without_zoned_nanos(f.type)) for f in type_])
    if pa.types.is_map(type_):
        key, item = type_.key_field, type_.item_field
        return pa.map_(*(f.with_type(_without_zoned_nanos(f.type)) for f in (key, item)))
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_without_zoned_nanos(type_.value_type)))
    return type_


def _used(sources: Iterable[ColumnSource]) -> Iterable[PhysicalField]:
    for source in sources:
        if isinstance(source, Stored):
            yield source.physical
            yield from _used(source.parts)


def _same_shape(physical: PhysicalField, shown: Exposed) -> bool:
    """Whether both have the same nested parts; a column that DuckDB shows flat (variant) has none to compare."""
    if not shown.parts:
        return True
    return len(physical.children) == len(shown.parts) and all(map(_same_shape, physical.children, shown.parts))
