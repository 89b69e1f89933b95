"""The relations that file groups are read by.

Parquet files are read by DuckDB itself. Avro and ORC files, and the few Parquet files that DuckDB would not read right
(see `_needs_arrow`), come in through Arrow with the same two columns beside the data: `file_index`, the
place of the file in its group, and `file_row_number`, the physical row from 0. Files without columns have but these.
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
"""No columns from paths (iceberg 7.1); row groups with NaN are not skipped by bounds that leave NaN out (delta F9).

Binary columns stay binary on a connection whose setting `binary_as_string` says otherwise.
"""
_VIRTUAL_COLUMNS = frozenset({"file_index", "file_row_number", "filename"})
_LISTED_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationScan:
    """The relation that reads a file group, whose members are in the order of their `file_index`.

    rows: per member, the physical row count. relation: the FROM item, without alias.
    parquet: whether DuckDB reads the files itself.
    shown: how DuckDB shows the columns of the group's schema, by place.
    """

    rows: Indices
    relation: str
    parquet: bool
    columns: Sequence[DuckDBColumn]


@dataclass(slots=True)
class Scanner:
    """Opens the files of a plan on one connection.

    looks: knows how SQL there calls them.
    register: puts an Arrow table where SQL can read it, and returns its name there.
    columns: by the id of a physical schema, the schema and its columns as DuckDB shows them there.
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
        """A scanner of the plan's files; opens none yet."""
        opener = LocalFileOpener(DuckDBFiles(connection, plan.storage), plan)
        return Scanner(opener, plan, register, Inspector(opener, plan), _columns if is_internal(connection) else {})

    def for_plan(self, plan: PlannedScan) -> Scanner:
        """The same for a plan of some of the files; what was looked at stays known."""
        return replace(self, plan=plan, inspector=replace(self.inspector, plan=plan))

    def scan(self, files: ScanFiles, group: FileGroup, fields: tuple[Field, ...]) -> RelationScan:
        """The relation that reads a group. `fields`: what its sources are the sources of.

        Raises HarnessError: DuckDB cannot open the files, or sees other columns than harness.
        """
        form, rows = group.form, group.rows
        schema, first = form.schema, files.name(int(group.members[0]))
        if not schema:
            relation = row_count_relation(rows.tolist(), self.register)
            return RelationScan(rows=rows, relation=relation, parquet=False, columns=())
        # Of an untrusted delete file DuckDB would believe the footer's statistics, and miss keys (1.5, 2.0).
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
            if IS_DUCKDB_1:  # 1.5 pushes Bloom filters of joins into scans of Arrow tables, where they fail
                relation = f"(WITH kept AS MATERIALIZED (SELECT * FROM {relation}) SELECT * FROM kept)"
            columns = self._duckdb_columns(relation, schema, first)
            wrong = _mismatched_column(schema, columns, group.sources)
            if wrong is not None:
                raise SchemaMismatchError(
                    f"Cannot read a column: Arrow sees it as {columns[wrong].type}, its footer says otherwise",
                    cause="IncompatibleType",
                    table=self.plan.table,
                    file=str(first),
                    field=schema[wrong].name,
                    rule="iceberg 6.14",
                )
        columns = with_oldest_values(columns, schema, form.legacy) if form.legacy else columns
        return RelationScan(rows=rows, relation=relation, parquet=parquet, columns=columns)

    def read_parquet(self, physical: Sequence[PhysicalPath]) -> str:
        """The FROM item that reads these files, in this order of `file_index`."""
        return read_parquet(self.opener.access.listed(physical))

    def _columns_of_files(self, first: FileName, group: FileGroup) -> Sequence[DuckDBColumn]:
        """The columns of Parquet files as DuckDB's reader shows them, by position. first: one of the files."""
        schema, columns = group.form.schema, group.form.duckdb_types
        if columns is not None:
            return [DuckDBColumn(column.name, type_) for column, type_ in zip(schema, columns, strict=True)]
        known = self.columns.get(id(schema))
        if known is None:
            if len(self.columns) >= _MOST_SCHEMAS:
                self.columns.clear()
            known = schema, self._duckdb_columns(self.read_parquet([first.physical]), schema, first)
            self.columns[id(schema)] = known
        return known[1]

    def _duckdb_columns(self, relation: str, schema: PhysicalSchema, file: FileName) -> list[DuckDBColumn]:
        """The columns as DuckDB shows them, by position: it renames the second of two names equal but for case."""
        with failing_on([file], self.plan.storage, table=self.plan.table, doing="Cannot open file"):
            bound = self.opener.access.connection.sql(f"SELECT * FROM {relation}")
            columns = [duckdb_column(label, type_) for label, type_ in zip(bound.columns, bound.types, strict=True)]
        return columns[: len(schema)]  # after them come the virtual columns of files that came through Arrow


_columns: dict[int, tuple[PhysicalSchema, Sequence[DuckDBColumn]]] = {}
"""The columns of files on harness's own connections, where no setting changes them. Files whose footers have the same
bytes of a schema share it (`harness.engines.footers`), also in later reads of this process."""
_MOST_SCHEMAS = 1024


def read_parquet(listed: str) -> str:
    """The FROM item that reads files, listed by `DuckDBFiles`, in their order of `file_index`."""
    return f"read_parquet({listed}, {SCAN_OPTIONS})"


def row_count_relation(rows: Sequence[int], register: Callable[[pa.Table], str]) -> str:
    """The FROM item of files without columns, that have so many rows: `file_index` and `file_row_number`.

    Rows are made as they are read: a small file may say that it has any number. An arm per file costs planning (a
    second for 1,000), a list per file memory: files with many rows are arms.
    """
    few = [(i, count) for i, count in enumerate(rows) if count <= _LISTED_ROWS]
    arms = [
        f"SELECT CAST({i} AS UBIGINT) AS file_index, range AS file_row_number FROM range({count})"
        for i, count in enumerate(rows)
        if count > _LISTED_ROWS
    ]
    if few:
        indexes, counts = zip(*few, strict=True)
        name = register(pa.table({"i": array_of(indexes, pa.uint64()), "n": array_of(counts, pa.int64())}))
        arms.append(f"SELECT i AS file_index, unnest(range(n)) AS file_row_number FROM {name}")
    return f"({' UNION ALL '.join(arms)})"


def _needs_arrow(group: FileGroup, fields: Sequence[Field]) -> bool:
    """Tells whether DuckDB's own Parquet reader would give something else than the file's rows, or fail.

    - DuckDB refuses the footer of a file, although Parquet allows its annotations (`Footer.foreign`).
    - A column named like one of the reader's virtual columns hides it, and with it positions (delta E2).
    - A variant column is read as its encoded parts, and decoded by harness (iceberg 6.15).
    - DuckDB before 2.0 reads instants in nanoseconds as micros, and lets bytes pass that are no WKB (frontier F1.7).
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
    """The rows of all tables one after another, columns renamed by place, with `file_index` and `file_row_number`."""
    stacked = []
    for index, rows in enumerate(tables):
        fields = [pa.field(f"p{i}", _without_zoned_nanos(f.type)) for i, f in enumerate(rows.schema)]
        renamed = rows.rename_columns([f.name for f in fields]).cast(pa.schema(fields))
        renamed = renamed.append_column("file_index", from_numpy(np.full(rows.num_rows, index, np.uint64)))
        stacked.append(renamed.append_column("file_row_number", from_numpy(np.arange(rows.num_rows, dtype=np.int64))))
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


def _used_columns(sources: Iterable[ColumnSource]) -> Iterable[PhysicalField]:
    for source in sources:
        if isinstance(source, FileColumn):
            yield source.physical
            yield from _used_columns(source.parts)


def _mismatched_column(
    schema: PhysicalSchema, columns: Sequence[DuckDBColumn], sources: Sequence[ColumnSource]
) -> int | None:
    """The place of a column that `sources` read and that has another shape in `shown`; None: there is none.

    DuckDB (1.5, 2.0) takes an element that is a struct of one field for that field, in lists of two levels and in
    repeated groups (iceberg 6.14).
    """
    places = [source.place for source in sources if isinstance(source, FileColumn)]
    return next((place for place in places if not _same_shape(schema[place], columns[place])), None)


def _same_shape(physical: PhysicalField, shown: DuckDBColumn) -> bool:
    """Tells whether both have the same nested parts; a variant, which DuckDB shows flat, has none to compare."""
    if not shown.parts:
        return not physical.children or is_variant_group(physical)
    return len(physical.children) == len(shown.parts) and all(map(_same_shape, physical.children, shown.parts))


# Equality deletes: null-safe anti joins, one per set of key ids.
#
# Few delete sets: each is an arm whose anti join sees exactly its own delete files. Many sets: all data files share one
# anti join, which compares a delete's greatest sequence number and its partition as columns (iceberg 4.6, 4.29).
#
# The probes are the cost of a join, however it is written. A join per data file, with the keys within its bounds,
# costs 1.75 times the plain scan. A semi join by `=` costs a fifth, but its rows would need a second scan.


# What a filter says about single columns, as SQL conditions on other expressions of the same values.


def implied_conditions(predicate: Predicate, columns: Mapping[int, str]) -> list[str]:
    """Conditions that hold wherever `predicate` is true, each about one of `columns`, expressions by field id."""
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


# Keys of an anti join, padded so that DuckDB's hash table of them is sparse.
#
# A probe of an empty slot is done; another key in the slot costs a mispredicted branch, and most probes find nothing.
# DuckDB's table is the least power of two, from 2^14 slots on, of which its rows take up to half. Copies of a row share
# a slot, and make the table larger and no fuller. 20 million probes (plain scan: 1), DuckDB 2.0:
#
#     keys             2,000  8,000  20,000  50,000  100,000  200,000
#     as they are       1.28   1.96    1.59    1.83     1.91     2.05
#     padded            1.28   1.30    1.33    1.39     1.55     1.69


_FEW_KEYS = 50_000
"""Up to here an eighth of the slots may be taken; above, a quarter, because a larger table leaves the caches."""
_MOST_KEYS = 400_000
"""Beyond these a larger table costs as much as its emptiness saves."""
_SMALLEST_TABLE = 2**14
_PROBES = 16
"""The least probes for each row of the padded keys; a copy costs as much as a few probes save."""


def padding_columns(keys: int, probes: int) -> int:
    """The number of copies of one row to add. keys: how many rows hold keys. probes: how many rows are looked up."""
    if not 0 < keys <= _MOST_KEYS:
        return 0
    slots = 1 << (keys * (8 if keys <= _FEW_KEYS else 4) - 1).bit_length()
    rows = slots // 3 + 1  # more than half of the slots, by DuckDB's load factors of 1.5 and 2
    if slots <= _SMALLEST_TABLE or rows <= keys or rows * _PROBES > probes:
        return 0
    return rows - keys


def padded_relation(relation: str, keys: int, probes: int) -> str:
    """The FROM item with copies of one of its rows, for anti and semi joins by equality, null-safe or not, of all keys.

    Never for a join with another condition, which would walk all copies.
    """
    copies = padding_columns(keys, probes)
    if not copies:
        return relation
    one = f"(SELECT * FROM {relation} LIMIT 1) AS one"
    return f"(SELECT * FROM {relation} UNION ALL SELECT one.* FROM {one}, range({copies}))"


@dataclass(frozen=True, slots=True)
class AntiJoins:
    """The equality deletes of one plan, on one connection. files: every delete file."""

    plan: PlannedScan
    scanner: Scanner
    files: ScanFiles

    def matches(self, scope: Scope, roots: Mapping[Field, str], rows: int) -> list[Match]:
        """The deletes that hit an arm of so many rows, one match per anti join with its rows, `s`.

        scope: the arm's. Where deletes are pooled, `s` has the columns `sq` and `sp` of `UnionArm.values`.
        roots: expression of each root column on the data side.
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
        deletes = self.plan.equality_deletes
        for key_set, members in key_sets(self.plan, range(len(deletes))).items():
            keys = [f"k{i}" for i in range(len(key_set.keys))]
            columns = _keys(key_set, [roots[root] for root in key_set.keys])
            for is_global in (True, False):
                chosen = [m for m in members if (deletes[m].partition is None) is is_global]
                if not chosen:
                    continue
                scope = [] if is_global else ["kp"]
                pooled, _ = self._relation(key_set, chosen, ["ks", *scope])
                relation = (
                    f"(SELECT {', '.join([*keys, *scope])}, max(ks) AS ks FROM {pooled} "
                    f"GROUP BY {', '.join([*keys, *scope])})"
                )
                on = [_same(d, k) for d, k in zip(columns, keys, strict=True)]
                on.append("s.sq < d.ks")
                if not is_global:
                    on.append("s.sp = d.kp")
                matches.append(Match(relation, on))
        return matches

    def _relation(self, key_set: KeySet, members: Sequence[int], extra: Sequence[str]) -> tuple[str, int]:
        """All keys of some delete files, as columns `k0`, `k1`, …, with `ks` (sequence number) and `kp` (partition).

        And how many rows the files have.
        """
        files, selects, rows = self.files, [], 0
        for group in self.scanner.inspector.groups(files, key_set.keys, np.array(members)):
            found = deleted_keys(self.plan, key_set, files, group)
            scan = self.scanner.scan(files, group, key_set.keys)
            rows += int(scan.rows.sum())
            translation = SqlTranslation(scan.columns, FileTable(len(group.members)))
            keys = _keys(key_set, [translation.expression(root) for root in found.roots])
            facts = {"ks": found.sequence_number, "kp": found.partition}
            columns = [f"{key} AS k{i}" for i, key in enumerate(keys)]
            columns += [f"{translation.expression(facts[label])} AS {label}" for label in extra]
            source = f"{scan.relation} AS f{translation.table.join(self.scanner.register)}"
            selects.append(f"SELECT {', '.join(columns)} FROM {source}{self._where(key_set, keys)}")
        return f"({' UNION ALL '.join(selects)})", rows

    def _where(self, key_set: KeySet, keys: Sequence[str]) -> str:
        """The filter's conditions on the keys: a row that it keeps has them too, so no other key can hit one."""
        if self.plan.filter is None:
            return ""
        whole = zip(key_set.keys, key_set.names, keys, strict=True)
        columns = {root.id: key for root, names, key in whole if not names}
        conditions = implied_conditions(self.plan.filter.predicate, columns)
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""


@dataclass(frozen=True, slots=True)
class Match:
    """An anti join: the relation of deleted keys, and when its row `d` hits a data row."""

    relation: str
    on: Sequence[str]


def _keys(key_set: KeySet, roots: Sequence[str]) -> list[str]:
    """The key expressions, given those of the root columns. A key below a null struct is null (iceberg 4.23).

    Text is compared by bytes, whatever the connection's default collation is (iceberg 4.28).
    """
    made = []
    for root, names, type_ in zip(roots, key_set.names, key_set.types, strict=True):
        access = root
        for part in names:
            access = f"struct_extract({access}, {sqltext.text(part)})"
        made.append(f"({access} COLLATE C)" if isinstance(type_, StringType) else access)
    return made


def _same(data: str, key: str) -> str:
    """Null equals null and nothing else (iceberg 4.26); NaN equals NaN on DuckDB."""
    return f"{data} IS NOT DISTINCT FROM d.{key}"
