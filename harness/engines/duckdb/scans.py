"""FROM items for file groups.

DuckDB reads Parquet files directly. Avro and ORC files, and the few Parquet files that DuckDB would read wrong (see
`_needs_arrow`), come through Arrow, with the same two extra columns that DuckDB's reader adds: `file_index`, the index
of the file in its group, and `file_row_number`, the physical row number from 0. Files without columns have only these
two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import assert_never

import duckdb
import numpy as np
import pyarrow as pa

from harness.engines.data_files import FileName, geometries, variants
from harness.engines.duckdb.columns import DuckDBColumn, FileTable, SqlTranslation, duckdb_column, with_oldest_values
from harness.engines.duckdb.instance import IS_DUCKDB_1, DuckDBFiles, is_internal
from harness.engines.file_groups import FileGroup, Inspector, LocalFileOpener, ScanFiles
from harness.engines.footers import failing_on
from harness.engines.union_arms import DeletePool, KeySet, Scope, deleted_keys, key_sets
from harness.errors import SchemaMismatchError
from harness.metadata.filters import sqltext
from harness.metadata.filters.predicate import And, Comparison, In, IsNull, Predicate, StartsWith
from harness.metadata.model.arrow_values import Indices, array_of, from_numpy
from harness.metadata.model.file_schema import PhysicalField, PhysicalSchema, is_variant_group
from harness.metadata.model.schema import BinaryType, Field, StringType, TimestampType
from harness.metadata.plan.projection import ColumnSource, FileColumn
from harness.metadata.planned_scan import PlannedScan
from harness.storage.paths import PhysicalPath
from harness.storage.records import dataclass

SCAN_OPTIONS = "hive_partitioning=false, can_have_nan=true, binary_as_string=false"
"""Options of every `read_parquet`.

Paths yield no columns (iceberg 7.1). Row groups with NaN are not skipped by bounds that exclude NaN (delta F9). Binary
columns stay binary even if the connection's setting `binary_as_string` differs.
"""
_VIRTUAL_COLUMNS = frozenset({"file_index", "file_row_number", "filename"})
_LISTED_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationScan:
    """The relation that reads a file group. Its `file_index` counts the group's members in order.

    Attributes:
        rows: For each member, the physical row count.
        relation: The FROM item, without alias.
        parquet: True if DuckDB itself reads the files.
        columns: The columns of the group's schema as DuckDB presents them, in order.
    """

    rows: Indices
    relation: str
    parquet: bool
    columns: Sequence[DuckDBColumn]


@dataclass(slots=True)
class Scanner:
    """Creates relations for the files of a plan on one connection.

    Attributes:
        opener: Opens the files and knows their names in SQL.
        plan: The plan.
        register: Makes an Arrow table available in SQL and returns its name.
        inspector: Groups and checks the files.
        columns: By the Python id of a physical schema, the schema and its columns as DuckDB presents them.
    """

    opener: LocalFileOpener
    plan: PlannedScan
    register: Callable[[pa.Table], str]
    inspector: Inspector
    columns: dict[int, tuple[PhysicalSchema, Sequence[DuckDBColumn]]] = field(repr=False)

    @staticmethod
    def create(
        plan: PlannedScan, connection: duckdb.DuckDBPyConnection, register: Callable[[pa.Table], str]
    ) -> Scanner:
        """Create a scanner for the plan's files. No file is opened yet."""
        opener = LocalFileOpener(DuckDBFiles(connection, plan.storage), plan)
        return Scanner(opener, plan, register, Inspector(opener, plan), _columns if is_internal(connection) else {})

    def for_plan(self, plan: PlannedScan) -> Scanner:
        """Return a scanner for a plan with a subset of the files. It reuses the footers that were already read."""
        return replace(self, plan=plan, inspector=replace(self.inspector, plan=plan))

    def scan(self, files: ScanFiles, group: FileGroup, fields: tuple[Field, ...]) -> RelationScan:
        """Return the relation that reads a file group.

        Args:
            files: The files.
            group: The group.
            fields: The fields that the group's sources belong to, in their order.

        Raises:
            HarnessError: DuckDB cannot open the files, or sees columns that differ from the footer.
        """
        form, rows = group.form, group.rows
        schema, first = form.schema, files.name(int(group.members[0]))
        if not schema:
            relation = row_count_relation(rows.tolist(), self.register)
            return RelationScan(rows=rows, relation=relation, parquet=False, columns=())
        # DuckDB (1.5, 2.0) would trust the statistics in an untrusted delete file's footer, and skip keys.
        doubted = self.plan.storage.untrusted and not files.are_data
        parquet = form.format == "parquet" and not doubted and not _needs_arrow(group, fields)
        if parquet:
            columns = self._columns_of_files(first, group)
            parquet = _mismatched_column(schema, columns, group.sources) is None
        if parquet:
            relation = self.read_parquet(files.physical_of(group.members))
        else:
            tables = [self.opener.rows(name, group, fields) for name in files.names(group.members)]
            rows = np.array([table.num_rows for table in tables])
            relation = self.register(_stack(tables))
            if IS_DUCKDB_1:  # DuckDB 1.5 pushes Bloom filters of joins into scans of Arrow tables, which then fail
                relation = f"(WITH kept AS MATERIALIZED (SELECT * FROM {relation}) SELECT * FROM kept)"
            columns = self._duckdb_columns(relation, schema, first)
            mismatch = _mismatched_column(schema, columns, group.sources)
            if mismatch is not None:
                raise SchemaMismatchError(
                    f"Cannot read a column: Arrow reads it as {columns[mismatch].type}, which contradicts the footer",
                    cause="IncompatibleType",
                    table=self.plan.table,
                    file=str(first),
                    field=schema[mismatch].name,
                    rule="iceberg 6.14",
                )
        columns = with_oldest_values(columns, schema, form.legacy) if form.legacy else columns
        return RelationScan(rows=rows, relation=relation, parquet=parquet, columns=columns)

    def read_parquet(self, physical: Sequence[PhysicalPath]) -> str:
        """Return the FROM item that reads Parquet files. `file_index` follows the order of the files."""
        return read_parquet(self.opener.access.listed(physical))

    def _columns_of_files(self, first: FileName, group: FileGroup) -> Sequence[DuckDBColumn]:
        """Return the columns of a group's Parquet files as DuckDB presents them, in order.

        `first` is one of the files.
        """
        schema, columns = group.form.schema, group.form.duckdb_types
        if columns is not None:
            return [DuckDBColumn(column.name, type_) for column, type_ in zip(schema, columns, strict=True)]
        entry = self.columns.get(id(schema))
        if entry is None:
            if len(self.columns) >= _MOST_SCHEMAS:
                self.columns.clear()
            entry = schema, self._duckdb_columns(self.read_parquet([first.physical]), schema, first)
            self.columns[id(schema)] = entry
        return entry[1]

    def _duckdb_columns(self, relation: str, schema: PhysicalSchema, file: FileName) -> list[DuckDBColumn]:
        """Return the columns as DuckDB presents them, in order.

        DuckDB renames the second of two names that differ only in case.
        """
        with failing_on([file], self.plan.storage, table=self.plan.table, doing="Cannot open file"):
            bound = self.opener.access.connection.sql(f"SELECT * FROM {relation}")
            columns = [duckdb_column(label, type_) for label, type_ in zip(bound.columns, bound.types, strict=True)]
        return columns[: len(schema)]  # files that came through Arrow also have the virtual columns, at the end


_columns: dict[int, tuple[PhysicalSchema, Sequence[DuckDBColumn]]] = {}
"""The columns of files on internal connections, on which no setting changes them.

Files with the same schema bytes in their footers share one entry (`harness.engines.footers`), also across reads of this
process.
"""
_MOST_SCHEMAS = 1024


def read_parquet(listed: str) -> str:
    """Return the FROM item for a SQL list of files from `DuckDBFiles`. `file_index` follows the order of the list."""
    return f"read_parquet({listed}, {SCAN_OPTIONS})"


def row_count_relation(rows: Sequence[int], register: Callable[[pa.Table], str]) -> str:
    """Return the FROM item for files without columns. It yields `file_index` and `file_row_number` only.

    Rows are generated while they are read, because even a small file may claim any number of rows. One arm per file
    would cost planning time (1 s for 1,000 files) and one list per file would cost memory, so only files with many rows
    get an arm.
    """
    short_files = [(i, count) for i, count in enumerate(rows) if count <= _LISTED_ROWS]
    arms = [
        f"SELECT CAST({i} AS UBIGINT) AS file_index, range AS file_row_number FROM range({count})"
        for i, count in enumerate(rows)
        if count > _LISTED_ROWS
    ]
    if short_files:
        indexes, counts = zip(*short_files, strict=True)
        name = register(pa.table({"i": array_of(indexes, pa.uint64()), "n": array_of(counts, pa.int64())}))
        arms.append(f"SELECT i AS file_index, unnest(range(n)) AS file_row_number FROM {name}")
    return f"({' UNION ALL '.join(arms)})"


def _needs_arrow(group: FileGroup, fields: Sequence[Field]) -> bool:
    """Return whether DuckDB's Parquet reader would fail on a file or return wrong values.

    Any of these makes it do so:

    - DuckDB refuses the footer, although Parquet allows its annotations (`Footer.foreign`).
    - A column has the name of one of the reader's virtual columns and hides it, so that positions are lost (delta E2).
    - A variant column has to be read as its encoded parts, which harness decodes (iceberg 6.15).
    - DuckDB before 2.0 reads instants in nanoseconds as microseconds, and accepts bytes that are not WKB (frontier
      F1.7).
    - On a user's connection, binary columns may be converted to geometries and back (frontier F0.2).
    """
    if group.form.foreign or any(f.name.lower() in _VIRTUAL_COLUMNS for f in group.form.schema):
        return True
    if any(variants(fields, group.sources)):
        return True
    if group.form.converted and any(BinaryType() == f.type for f in _used_columns(group.sources)):
        return True
    if IS_DUCKDB_1 and any(geometries(fields, group.sources)):
        return True
    return IS_DUCKDB_1 and any(TimestampType("ns", utc=True) == f.type for f in _used_columns(group.sources))


def _stack(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables. Columns are renamed by position, and `file_index` and `file_row_number` are added."""
    stacked = []
    for index, rows in enumerate(tables):
        fields = [pa.field(f"p{i}", _without_zoned_nanos(f.type)) for i, f in enumerate(rows.schema)]
        renamed = rows.rename_columns([f.name for f in fields]).cast(pa.schema(fields))
        renamed = renamed.append_column("file_index", from_numpy(np.full(rows.num_rows, index, np.uint64)))
        stacked.append(renamed.append_column("file_row_number", from_numpy(np.arange(rows.num_rows, dtype=np.int64))))
    return pa.concat_tables(stacked)


def _without_zoned_nanos(type_: pa.DataType) -> pa.DataType:
    """Replace instants in nanoseconds by timestamps without a zone, which all DuckDB versions read correctly."""
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


def _used_columns(sources: Iterable[ColumnSource]) -> Iterable[PhysicalField]:
    for source in sources:
        if isinstance(source, FileColumn):
            yield source.physical
            yield from _used_columns(source.parts)


def _mismatched_column(
    schema: PhysicalSchema, columns: Sequence[DuckDBColumn], sources: Sequence[ColumnSource]
) -> int | None:
    """Return the first column index in `sources` whose shape differs between footer and DuckDB, or None.

    DuckDB (1.5, 2.0) replaces a list element that is a struct with one field by that field, in two-level lists and in
    repeated groups (iceberg 6.14).
    """
    places = [source.place for source in sources if isinstance(source, FileColumn)]
    return next((place for place in places if not _same_shape(schema[place], columns[place])), None)


def _same_shape(physical: PhysicalField, column: DuckDBColumn) -> bool:
    """Return whether both columns have the same nested parts.

    Variants always match, because DuckDB shows them without parts.
    """
    if not column.parts:
        return not physical.children or is_variant_group(physical)
    return len(physical.children) == len(column.parts) and all(map(_same_shape, physical.children, column.parts))


# Equality deletes: null-safe anti joins, one per set of key ids.
#
# With few delete sets, each set is an arm whose anti join sees exactly its own delete files. With many sets, all data
# files share one anti join, which compares a delete's greatest sequence number and its partition as columns (iceberg
# 4.6, 4.29).
#
# The probes dominate the cost of a join, in whatever form it is written. A join per data file, with only the keys
# within its bounds, costs 1.75 times the plain scan. A semi join by `=` costs a fifth, but its rows would need a second
# scan.


def implied_conditions(predicate: Predicate, columns: Mapping[int, str]) -> list[str]:
    """Return SQL conditions that hold wherever `predicate` is true, each on a single column.

    Args:
        predicate: The predicate.
        columns: Expressions by field id. The conditions use these instead of the predicate's columns.
    """
    return [sql for part in _conjuncts(predicate) if (sql := _condition(part, columns)) is not None]


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    if isinstance(predicate, And):
        for part in predicate.parts:
            yield from _conjuncts(part)
    else:
        yield predicate


def _condition(part: Predicate, columns: Mapping[int, str]) -> str | None:
    match part:
        case Comparison(field=f, op=op, value=value) if f.id in columns:
            return f"{columns[f.id]} {op.value} {sqltext.literal(value, f.type)}"
        case In(field=f, values=values, negated=negated) if f.id in columns:
            items = ", ".join(sqltext.literal(value, f.type) for value in values)
            return f"{columns[f.id]} {'NOT ' if negated else ''}IN ({items})"
        case IsNull(field=f, negated=negated) if f.id in columns:
            return f"{columns[f.id]} IS {'NOT ' if negated else ''}NULL"
        case StartsWith(field=f, prefix=prefix, negated=negated) if f.id in columns:
            return f"{'NOT ' if negated else ''}starts_with({columns[f.id]}, {sqltext.text(prefix)})"
        case _:
            return None


# Padding: keys of an anti join are padded so that DuckDB's hash table stays sparse.
#
# A probe that finds an empty slot is done. A probe that finds another key costs a mispredicted branch, and most probes
# match no key. DuckDB's table has the least power of two of slots, from 2^14 on, of which its rows fill up to half.
# Copies of one row share a slot, and so enlarge the table without filling it. 20 million probes (plain scan: 1), DuckDB
# 2.0:
#
#     keys             2,000  8,000  20,000  50,000  100,000  200,000
#     unpadded          1.28   1.96    1.59    1.83     1.91     2.05
#     padded            1.28   1.30    1.33    1.39     1.55     1.69


_FEW_KEYS = 50_000
"""Up to this number of keys, an eighth of the slots may be used.

Above, a quarter may be used, because a larger table exceeds the CPU caches.
"""
_MOST_KEYS = 400_000
"""Above this number of keys, a larger table costs as much as its sparseness saves."""
_SMALLEST_TABLE = 2**14
_PROBES = 16
"""The fewest probes per row of the padded keys for which padding pays: a copy costs as much as a few probes save."""


def padding_rows(keys: int, probes: int) -> int:
    """Return how many copies of one row to add.

    `keys` is the number of rows with keys, `probes` the number of lookups.
    """
    if not 0 < keys <= _MOST_KEYS:
        return 0
    slots = 1 << (keys * (8 if keys <= _FEW_KEYS else 4) - 1).bit_length()
    rows = slots // 3 + 1  # fills more than half of the slots, given DuckDB's load factors of 1.5 and 2
    if slots <= _SMALLEST_TABLE or rows <= keys or rows * _PROBES > probes:
        return 0
    return rows - keys


def padded_relation(relation: str, keys: int, probes: int) -> str:
    """Return the FROM item with copies of one of its rows added, for anti and semi joins by equality of all keys.

    Do not use it for a join with any other condition, which would visit all copies.
    """
    copies = padding_rows(keys, probes)
    if not copies:
        return relation
    single_row = f"(SELECT * FROM {relation} LIMIT 1) AS one"
    return f"(SELECT * FROM {relation} UNION ALL SELECT one.* FROM {single_row}, range({copies}))"


@dataclass(frozen=True, slots=True)
class AntiJoins:
    """The equality deletes of one plan on one connection.

    Attributes:
        plan: The plan.
        scanner: Creates relations for the delete files.
        files: All equality delete files of the plan.
    """

    plan: PlannedScan
    scanner: Scanner
    files: ScanFiles

    def matches(self, scope: Scope, roots: Mapping[Field, str], rows: int) -> list[Match]:
        """Return the anti joins that remove the deleted rows of an arm.

        Args:
            scope: The arm's scope. If deletes are pooled, the arm's rows `s` have the columns `sq` and `sp` of
                `UnionArm.values`.
            roots: The expression of each root column on the data side.
            rows: The number of rows in the arm.
        """
        match scope:
            case None:
                return []
            case DeletePool.ALL:
                return self._by_sequence(roots)
            case int():
                return self._by_scope(self.plan.delete_sets[scope], roots, rows)
            case _:
                assert_never(scope)

    def first_deletes(self, scope: Scope, roots: Mapping[Field, str]) -> list[FirstDelete]:
        """Return the joins that find the first equality delete of each row of an arm, in a plan with lifetimes.

        See `matches` for the arguments. The arm's rows also have the columns `fa` and `fr` of `UnionArm.values`.
        """
        if scope is None:
            return []
        from harness.engines.changes import DELETE_FACTS, first_delete
        from harness.engines.duckdb.dialect import DIALECT

        deletes = []
        facts = ", ".join(f"{sqltext.text(fact)}: {fact}" for fact in DELETE_FACTS)
        for place, (relation, columns, scoped) in enumerate(self._pools(roots, DELETE_FACTS)):
            keys = ", ".join([*(f"k{i}" for i in range(len(columns))), *scoped])
            lists = f"(SELECT {keys}, list({{{facts}}}) AS l FROM {relation} GROUP BY {keys})"
            on = [_same(column, f"k{i}", f"d{place}") for i, column in enumerate(columns)]
            on += [f"s.sp = d{place}.kp" for _ in scoped]
            join = f" LEFT JOIN {lists} AS d{place} ON {' AND '.join(on)}"
            deletes.append(FirstDelete(join, first_delete(f"d{place}.l", DIALECT)))
        return deletes

    def _by_scope(self, scope: Sequence[int], roots: Mapping[Field, str], rows: int) -> list[Match]:
        matches = []
        for key_set, members in key_sets(self.plan, scope).items():
            keys = [f"k{i}" for i in range(len(key_set.keys))]
            relation, count = self._relation(key_set, members, [])
            data = _keys(key_set, [roots[root] for root in key_set.keys])
            on = [_same(d, k) for d, k in zip(data, keys, strict=True)]
            matches.append(Match(padded_relation(relation, count, rows), on))
        return matches

    def _by_sequence(self, roots: Mapping[Field, str]) -> list[Match]:
        matches = []
        for pooled, columns, scoped in self._pools(roots, ["ks"]):
            keys = ", ".join([*(f"k{i}" for i in range(len(columns))), *scoped])
            relation = f"(SELECT {keys}, max(ks) AS ks FROM {pooled} GROUP BY {keys})"
            on = [_same(column, f"k{i}") for i, column in enumerate(columns)]
            on += ["s.sq < d.ks", *("s.sp = d.kp" for _ in scoped)]
            matches.append(Match(relation, on))
        return matches

    def _pools(
        self, roots: Mapping[Field, str], facts: Sequence[str]
    ) -> Iterator[tuple[str, list[str], Sequence[str]]]:
        """Yield the relations of all deletes that compare the same keys, either in all partitions or in one.

        Yields:
            The relation, the keys of a data row, and the column `kp` of the relation if it must equal `s.sp`.
        """
        deletes = self.plan.equality_deletes
        for key_set, members in key_sets(self.plan, range(len(deletes))).items():
            columns = _keys(key_set, [roots[root] for root in key_set.keys])
            for scoped in ([], ["kp"]):
                pool = [m for m in members if (deletes[m].partition is None) is (not scoped)]
                if pool:
                    yield self._relation(key_set, pool, [*facts, *scoped])[0], columns, scoped

    def _relation(self, key_set: KeySet, members: Sequence[int], extra: Sequence[str]) -> tuple[str, int]:
        """Return the relation of all keys of some delete files, and the number of rows in these files.

        The keys are the columns `k0`, `k1`, …. `extra` are the labels of `DeletedKeys.constants` to add.
        """
        files, selects, rows = self.files, [], 0
        for group in self.scanner.inspector.groups(files, key_set.keys, np.array(members)):
            keys_read = deleted_keys(self.plan, key_set, files, group)
            scan = self.scanner.scan(files, group, key_set.keys)
            rows += int(scan.rows.sum())
            translation = SqlTranslation(scan.columns, FileTable(len(group.members)))
            keys = _keys(key_set, [translation.expression(root) for root in keys_read.roots])
            facts = keys_read.constants()
            columns = [f"{key} AS k{i}" for i, key in enumerate(keys)]
            columns += [f"{translation.expression(facts[label])} AS {label}" for label in extra]
            source = f"{scan.relation} AS f{translation.table.join(self.scanner.register)}"
            selects.append(f"SELECT {', '.join(columns)} FROM {source}{self._where(key_set, keys)}")
        return f"({' UNION ALL '.join(selects)})", rows

    def _where(self, key_set: KeySet, keys: Sequence[str]) -> str:
        """Return the filter's conditions on the keys as a WHERE clause.

        A data row that matches the filter satisfies them too, so keys that do not satisfy them cannot delete the row.
        """
        if self.plan.filter is None:
            return ""
        whole = zip(key_set.keys, key_set.names, keys, strict=True)
        columns = {root.id: key for root, names, key in whole if not names}
        conditions = implied_conditions(self.plan.filter.predicate, columns)
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""


@dataclass(frozen=True, slots=True)
class Match:
    """An anti join: the relation of deleted keys, and the conditions under which its row `d` deletes a data row."""

    relation: str
    on: Sequence[str]


@dataclass(frozen=True, slots=True)
class FirstDelete:
    """A left join of the rows `s` with equality deletes, and the number of the first delete of a row or null."""

    join: str
    number: str


def _keys(key_set: KeySet, roots: Sequence[str]) -> list[str]:
    """Return the expressions of the keys, given the expressions of the root columns.

    A key below a null struct is null (iceberg 4.23). Text is compared by bytes, regardless of the connection's default
    collation (iceberg 4.28).
    """
    expressions = []
    for root, names, type_ in zip(roots, key_set.names, key_set.types, strict=True):
        access = root
        for part in names:
            access = f"struct_extract({access}, {sqltext.text(part)})"
        expressions.append(f"({access} COLLATE C)" if isinstance(type_, StringType) else access)
    return expressions


def _same(data: str, key: str, deletes: str = "d") -> str:
    """Return a comparison of two keys. Null equals only null (iceberg 4.26), and NaN equals NaN on DuckDB."""
    return f"{data} IS NOT DISTINCT FROM {deletes}.{key}"
