"""A DataFusion engine for harness in a separate package, as `docs/how-to/add-an-engine.md` explains.

Harness opens the files and returns their stored rows. This module converts them to columns with the table's types, and
DataFusion joins them with equality deletes and filters them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, assert_never

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datafusion import SessionContext

from harness.engines.column_values import (
    ColumnValue,
    Constant,
    ConstantStruct,
    Lineage,
    PerFile,
    Position,
    PositionFrom,
    StoredColumn,
    StoredOrInherited,
    Uniform,
    as_arrow,
    as_exact_type,
    conform,
)
from harness.engines.data_files import FileName
from harness.engines.file_groups import FileGroup, Inspector, LocalFileOpener, ScanFiles, local_opener
from harness.engines.footers import is_legacy
from harness.engines.union_arms import (
    DELETED,
    DeletePool,
    KeySet,
    UnionArm,
    columns_to_read,
    delete_files,
    deleted_keys,
    key_sets,
    union_arms,
)
from harness.errors import EngineError, HarnessError, UnsupportedError
from harness.metadata.files.roaring import deleted_mask
from harness.metadata.filters.predicate import And, Comparison, In, IsNan, IsNull, Or, Predicate, StartsWith
from harness.metadata.filters.predicate import Constant as Always
from harness.metadata.model.arrow_values import children_of, nullable_type, with_children
from harness.metadata.model.schema import Field, TimestampType, Type, arrow_field, arrow_type, children
from harness.metadata.planned_scan import PlannedScan

name = "datafusion"
dialect = "postgres"


def version() -> str:
    """Return the version of DataFusion."""
    return datafusion.__version__


def to_arrow(plan: PlannedScan) -> pa.Table:
    """Return all rows of a plan in the exact types of its columns, in any order.

    Raises:
        HarnessError: The plan cannot be run.
    """
    with _about(plan):
        columns = columns_to_read(plan)
        rows = _filtered(plan, columns, _rows(plan, columns))
        if not plan.columns:
            return pa.table({"": pa.nulls(rows.num_rows)}).select([])
        return conform(rows, pa.schema([arrow_field(f) for f in plan.columns]))


def query(text: str, plans: Mapping[str, PlannedScan]) -> datafusion.DataFrame:
    """Return the result of a query that reads plans by name."""
    context = SessionContext()
    for view, plan in plans.items():
        _register(context, view, to_arrow(plan))
    try:
        return context.sql(text)
    except Exception as error:  # DataFusion raises plain exceptions
        raise EngineError(f"DataFusion cannot run the query: {error}") from error


@contextmanager
def _about(plan: PlannedScan) -> Iterator[None]:
    try:
        yield
    except HarnessError as error:
        error.within(table=plan.table, snapshot=plan.snapshot, format=plan.format)
        raise
    except Exception as error:
        raise EngineError(f"DataFusion failed: {error}", table=plan.table).within(format=plan.format) from error


def _register(context: SessionContext, label: str, rows: pa.Table) -> None:
    context.register_record_batches(label, [rows.to_batches() or [_no_rows(rows.schema)]])


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def _rows(plan: PlannedScan, columns: Sequence[Field]) -> pa.Table:
    """Return the live rows as `c0`, `c1`, …"""
    types = [nullable_type(arrow_type(f.type)) for f in columns]
    schema = pa.schema([pa.field(f"c{i}", type_) for i, type_ in enumerate(types)] + [pa.field("one", pa.int8())])
    if plan.files.num_rows == 0:
        return schema.empty_table()
    files = _RegisteredFiles.from_plan(plan)
    parts = [schema.empty_table()]
    for arm in union_arms(plan, tuple(columns), files.inspector, files.deletes):
        rows = _arm(arm, files)
        parts.append(rows.append_column("one", pa.repeat(pa.scalar(1, pa.int8()), rows.num_rows)).select(schema.names))
    return pa.concat_tables(parts)


def _arm(arm: UnionArm, files: _RegisteredFiles) -> pa.Table:
    numbered_files = [files.read(name, arm.group, arm.fields, i) for i, name in enumerate(arm.names)]
    values = arm.values()
    rows = pa.concat_tables(
        [
            pa.table({"n": file.positions, **{k: file.array(value) for k, value in values.items()}})
            for file in numbered_files
        ]
    )
    dead = np.concatenate([_deleted(arm, i, file.count) for i, file in enumerate(numbered_files)])
    rows = rows.set_column(0, "n", pa.array(np.arange(rows.num_rows)))
    for hit in _hit(arm, rows, files):
        dead[hit] = True
    for i, f in enumerate(arm.columns):
        if f.id == DELETED:
            rows = rows.append_column(f"c{i}", pa.array(dead))
    return rows if arm.shows_deleted else rows.filter(pa.array(~dead))


def _deleted(arm: UnionArm, number: int, count: int) -> Any:
    if arm.deleted is None:
        return np.zeros(count, np.bool_)
    return deleted_mask(arm.deleted[int(arm.group.members[number])], count).astype(bool)


def _hit(arm: UnionArm, rows: pa.Table, files: _RegisteredFiles) -> Iterator[Any]:
    """Yield the numbers of the rows that equality deletes apply to, by set of keys."""
    plan, scope = arm.plan, arm.scope
    if scope is None:
        return
    pooled = scope is DeletePool.ALL
    members = range(len(files.deletes)) if scope is DeletePool.ALL else plan.delete_sets[scope]
    roots = {root: rows.column(label).combine_chunks() for root, label in arm.key_labels().items()}
    for key_set, numbers in key_sets(plan, members).items():
        data = {"n": rows.column("n")} | _keys(key_set, [roots[root] for root in key_set.keys])
        if pooled:
            data |= {"sq": rows.column("sq"), "sp": rows.column("sp")}
        context = SessionContext()
        _register(context, "s", pa.table(data))
        _register(context, "d", _deleted_keys(key_set, numbers, files))
        on = [f"(s.k{i} IS NOT DISTINCT FROM d.k{i})" for i in range(len(key_set.keys))]
        on += ["s.sq < d.ks", "(d.kp IS NULL OR s.sp = d.kp)"] if pooled else []
        hits = context.sql(f"SELECT s.n FROM s LEFT SEMI JOIN d ON {' AND '.join(on)}").to_arrow_table()
        yield hits.column(0).to_numpy()


def _deleted_keys(key_set: KeySet, numbers: Sequence[int], files: _RegisteredFiles) -> pa.Table:
    parts = []
    for group in files.inspector.groups(files.deletes, key_set.keys, np.array(numbers)):
        delete_keys = deleted_keys(files.plan, key_set, files.deletes, group)
        for i, name in enumerate(files.deletes.names(group.members)):
            file = files.read(name, group, key_set.keys, i)
            keys = _keys(key_set, [file.array(root) for root in delete_keys.roots])
            parts.append(
                pa.table(
                    keys | {"ks": file.array(delete_keys.sequence_number), "kp": file.array(delete_keys.partition)}
                )
            )
    return pa.concat_tables(parts)


def _keys(key_set: KeySet, roots: Sequence[pa.Array]) -> dict[str, pa.Array]:
    """Return the keys as `k0`, `k1`, …; inside a null struct, a key is null (iceberg 4.23)."""
    keys = {}
    for i, (root, names) in enumerate(zip(roots, key_set.names, strict=True)):
        for part in names:
            root = root.flatten()[[f.name for f in root.type].index(part)]
        keys[f"k{i}"] = _comparable(root)
    return keys


def _comparable(array: pa.Array) -> pa.Array:
    """Return the array with a single zero and NaN, because Arrow compares floats by their bits, and with UUIDs as
    bytes.
    """
    if isinstance(array.type, pa.BaseExtensionType):
        return array.storage
    if not pa.types.is_floating(array.type):
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), pc.add(array, pa.scalar(0, array.type)))


@dataclass(frozen=True)
class _RegisteredFiles:
    """The files of a plan."""

    plan: PlannedScan
    opener: LocalFileOpener
    inspector: Inspector
    deletes: ScanFiles

    @staticmethod
    def from_plan(plan: PlannedScan) -> _RegisteredFiles:
        """Return the files of a plan without opening them."""
        opener = local_opener(plan)
        return _RegisteredFiles(plan, opener, Inspector(opener, plan), delete_files(plan))

    def read(self, name: FileName, group: FileGroup, fields: Sequence[Field], number: int) -> _NumberedFile:
        """Read the file with an index in its group."""
        if not group.form.schema:
            return _NumberedFile(number, int(group.rows[number]), None, group)
        rows = self.opener.rows(name, group, fields)
        return _NumberedFile(number, rows.num_rows, rows, group)


class _NumberedFile:
    """The stored rows of a file, and the values that are read from them."""

    def __init__(self, number: int, count: int, rows: pa.Table | None, group: FileGroup) -> None:
        self.number, self.count, self.rows, self.group = number, count, rows, group
        self.positions = pa.array(np.arange(count))

    def array(self, value: ColumnValue) -> pa.Array:
        """Return the values in the Arrow type of their field."""
        match value:
            case Uniform() | PerFile() | ConstantStruct():
                return self.constant(value, self.count)
            case StoredColumn(source=source):
                assert self.rows is not None
                return self.stored(value, self.rows.column(source.place).combine_chunks())
            case Position():
                return self.positions
            case PositionFrom(first=first):
                return pc.add_checked(self.array(first), self.positions)
            case StoredOrInherited(stored=stored, inherited=inherited):
                return pc.coalesce(self.array(stored), self.array(inherited))
            case Lineage(first_row_id=first, value=inner):
                inner_values = self.array(inner)
                return pc.if_else(pc.is_valid(self.array(first)), inner_values, pa.scalar(None, inner_values.type))
            case other:
                assert_never(other)

    def constant(self, value: Constant, count: int) -> pa.Array:
        """Return `count` copies of a constant."""
        match value:
            case ConstantStruct(fields=fields, parts=parts):
                arrays = [self.constant(part, count) for part in parts]
                arrow_fields = [pa.field(f.name, a.type) for f, a in zip(fields, arrays, strict=True)]
                return pa.StructArray.from_arrays(arrays, fields=arrow_fields)
            case Uniform(value=same):
                single = same
            case PerFile(values=values):
                single = values[self.number]
        return as_arrow([single], value.type).take(pa.array(np.zeros(count, np.int64)))

    def stored(self, value: StoredColumn, array: pa.Array) -> pa.Array:
        """Convert stored values to the type of the field. Inside a null parent, they are null."""
        field_type, physical = value.field.type, value.source.physical
        if not children(field_type):
            if is_legacy(physical, self.group.form.legacy):
                raise UnsupportedError("DataFusion reads no dates in the calendar of old writers", rule="delta T20")
            return _single(array, physical.type, field_type)
        inner = children_of(array)
        count = len(inner[0]) if inner else len(array)
        parts = [
            self.stored(part, inner[part.source.place])
            if isinstance(part, StoredColumn)
            else self.constant(part, count)
            for part in value.parts
        ]
        return with_children(array, parts, nullable_type(arrow_type(field_type)))


def _single(array: pa.Array, stored: Type, field_type: Type) -> pa.Array:
    target = arrow_type(field_type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if (
        isinstance(field_type, TimestampType)
        and isinstance(stored, TimestampType)
        and (stored.unit, field_type.unit) == ("ns", "us")
    ):  # rounded down, also before 1970 (iceberg 6.8)
        nanos = array.view(pa.int64())
        micros = pa.array(np.floor_divide(nanos.fill_null(0).to_numpy(), 1000), mask=pc.is_null(array).to_numpy(False))
        return micros.view(target)
    values = as_exact_type(array, target)
    if pa.types.is_string(target):
        values.validate(full=True)  # raises for text that is not UTF-8 (iceberg 6.11)
    return values


def _filtered(plan: PlannedScan, columns: Sequence[Field], rows: pa.Table) -> pa.Table:
    """Return the rows that match the filter, with the plan's columns."""
    places = {f.id: i for i, f in enumerate(columns)}
    labels = [f"c{places[f.id]}" for f in plan.columns]
    context = SessionContext()
    where = ""
    if plan.filter is not None:
        condition = _Condition(places)
        where = f" CROSS JOIN v WHERE {condition.sql(plan.filter.predicate)}"
        _register(context, "v", pa.table({"one": pa.array([1]), **condition.values}).rename_columns(condition.names()))
        for place in condition.floats:
            column = rows.column(f"c{place}").combine_chunks()
            rows = rows.append_column(f"f{place}", _comparable(column))
    _register(context, "r", _carried(rows))
    selected = ", ".join(f"r.{label} AS x{i}" for i, label in enumerate(labels)) or "r.one"
    return context.sql(f"SELECT {selected} FROM r{where}").to_arrow_table()


def _carried(rows: pa.Table) -> pa.Table:
    """Return the rows with extension types replaced by their storage types, because DataFusion does not know them."""
    return pa.table({name: _storage(column) for name, column in zip(rows.column_names, rows.columns, strict=True)})


def _storage(column: pa.ChunkedArray) -> pa.ChunkedArray:
    type_ = _storage_type(column.type)
    return pa.chunked_array([as_exact_type(chunk, type_) for chunk in column.chunks], type_)


def _storage_type(type_: pa.DataType) -> pa.DataType:
    if isinstance(type_, pa.BaseExtensionType):
        return type_.storage_type
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(_storage_type(f.type)) for f in type_])
    if pa.types.is_map(type_):
        return pa.map_(_storage_type(type_.key_type), _storage_type(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_storage_type(type_.value_type)))
    return type_


class _Condition:
    """A predicate as SQL over `r`. Its values are the columns of `v`, which has one row."""

    def __init__(self, places: Mapping[int, int]) -> None:
        self.places, self.values, self.floats = places, dict[str, pa.Array](), set[int]()

    def names(self) -> list[str]:
        """Return the names of the columns of `v`."""
        return ["one", *self.values]

    def sql(self, part: Predicate) -> str:
        """Return the condition.

        Raises:
            UnsupportedError: A part of the filter is only known as text.
        """
        match part:
            case Comparison(field=f, op=op, value=value):
                return f"({self.column(f)} {op.value} {self.value(f, value)})"
            case In(field=f, values=values, negated=negated):
                equal = " OR ".join(f"{self.column(f)} = {self.value(f, value)}" for value in values)
                return f"{'NOT ' if negated else ''}({equal})"
            case IsNull(field=f, negated=negated):
                return f"({self.column(f)} IS {'NOT ' if negated else ''}NULL)"
            case IsNan(field=f, negated=negated):
                return f"({'NOT ' if negated else ''}isnan({self.column(f)}))"
            case StartsWith(field=f, prefix=prefix, negated=negated):
                return f"({'NOT ' if negated else ''}starts_with({self.column(f)}, {self.value(f, prefix)}))"
            case And(parts=parts):
                return f"({' AND '.join(map(self.sql, parts))})"
            case Or(parts=parts):
                return f"({' OR '.join(map(self.sql, parts))})"
            case Always(value=value):
                return "CAST(NULL AS BOOLEAN)" if value is None else str(value).lower()
            case _:
                raise UnsupportedError("Cannot filter on DataFusion by what is no comparison of a column")

    def column(self, field: Field) -> str:
        """Return a column of the rows."""
        if field.id not in self.places or children(field.type):
            raise UnsupportedError(f"Cannot filter on DataFusion by the nested column {field.name}")
        place = self.places[field.id]
        if not pa.types.is_floating(arrow_type(field.type)):
            return f"r.c{place}"
        self.floats.add(place)
        return f"r.f{place}"

    def value(self, field: Field, value: Any) -> str:
        """Return a value in the type of a column."""
        label = f"v{len(self.values)}"
        self.values[label] = _comparable(as_arrow([value], field.type))
        return f"v.{label}"
