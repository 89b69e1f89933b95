"""Where the values of a file group's columns come from, before any engine translates them; expectations by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from harness.engines.column_values import (
    ColumnValue,
    Constant,
    ConstantStruct,
    Lineage,
    PerFile,
    Position,
    PositionFrom,
    StoredColumn,
    StoredOr,
    Uniform,
    column_values,
    conform,
    constant,
    stored_columns,
)
from harness.engines.data_files import FileName
from harness.engines.duckdb.columns import FileTable, SqlTranslation
from harness.engines.file_groups import FileGroup, Pooled, ScanFile, Scope
from harness.engines.union_arms import FilesByOrdinal, UnionArm, scopes
from harness.errors import SchemaMismatchError
from harness.metadata.model.file_schema import STORED_STRUCT, PhysicalField
from harness.metadata.model.schema import (
    METADATA,
    DateType,
    Field,
    FloatType,
    IntegerType,
    Schema,
    StringType,
    StructType,
    Type,
)
from harness.metadata.plan.projection import ColumnLookup, ColumnSource, PartitionValue, Stored, Value
from harness.metadata.plan.scan_plan import FILES, Counts, Partition, ScanPlan
from harness.storage.stores import Storage

INT, LONG, TEXT, DOUBLE = IntegerType(32), IntegerType(64), StringType(), FloatType(64)
A, B = Field(id=1, name="a", type=INT), Field(id=2, name="b", type=TEXT)
PAIR = StructType((A, B))
ROW_ID = METADATA["_row_id"]
UPDATED = METADATA["_last_updated_sequence_number"]
VERSION = METADATA["_row_commit_version"]


def known(value: Any) -> Any:
    """What a value is equal by: values per file are each equal to themselves alone."""
    return repr(value)


CONSTANTS: dict[str, tuple[list[Any], Type, Constant]] = {
    "all alike": ([3, 3], INT, Uniform(3, INT)),
    "one file": ([None], INT, Uniform(None, INT)),
    "different": ([3, None], INT, PerFile((3, None), INT)),
    "zeros of two signs": ([0.0, -0.0], DOUBLE, PerFile((0.0, -0.0), DOUBLE)),
    "not a number": ([math.nan, math.nan], DOUBLE, Uniform(math.nan, DOUBLE)),
    "no struct": ([None, None], PAIR, Uniform(None, PAIR)),
    "structs": (
        [{1: 3, 2: "x"}, {1: 3, 2: "y"}],
        PAIR,
        ConstantStruct((A, B), (Uniform(3, INT), PerFile(("x", "y"), TEXT))),
    ),
    "a struct without a field": (
        [{1: 3}, {}],
        PAIR,
        ConstantStruct((A, B), (PerFile((3, None), INT), Uniform(None, TEXT))),
    ),
}


@pytest.mark.parametrize(("values", "type_", "expected"), CONSTANTS.values(), ids=CONSTANTS)
def test_constants_of_files(values: list[Any], type_: Type, expected: Constant) -> None:
    assert known(constant(values, type_)) == known(expected)


def test_a_column_per_file_is_equal_to_itself_alone() -> None:
    """0.0 and -0.0 are equal in Python: one would stand for the other."""
    assert PerFile((0.0, 1.0), DOUBLE) != PerFile((-0.0, 1.0), DOUBLE)


def test_columns_of_a_file_group() -> None:
    day = Field(id=3, name="day", type=DateType())
    below = StructType((A, B, day))
    wanted = (Field(id=9, name="s", type=below), B, day)
    stored = PhysicalField(name="s", id=9, type=STORED_STRUCT, children=(PhysicalField(name="old", id=1, type=INT),))
    a = Stored(stored.children[0], place=0)
    whole = Stored(stored, (a, Value("x"), PartitionValue(3)), place=4)
    sources: tuple[ColumnSource, ...] = (whole, Value(None), PartitionValue(3))
    days = PerFile((7, None), DateType())
    expected: list[ColumnValue] = [
        StoredColumn(wanted[0], whole, (StoredColumn(A, a), Uniform("x", TEXT), days)),
        Uniform(None, TEXT),
        days,
    ]
    values = column_values(wanted, sources, [{3: 7}, {}])
    assert [known(value) for value in values] == [known(value) for value in expected]
    assert [found.source.place for found in stored_columns(values)] == [4]


def planned(**columns: list[Any]) -> FilesByOrdinal:
    """Two files."""
    given: dict[str, list[Any]] = {
        "path": ["one", "two"],
        "physical": ["/one", "/two"],
        "format": ["parquet", "parquet"],
        "record_count": [3, 4],
        "spec_id": [0, 0],
        "partition_index": [0, 1],
        "sequence_number": [5, 6],
        "first_row_id": [100, None],
        "delete_set": [0, 0],
        "has_positions": [False, False],
    }
    partitions = tuple(Partition(spec_id=0, values={1: v}, constants={1: v}) for v in (7, 8))
    return FilesByOrdinal(**(given | columns), partitions=partitions)


def arm(
    *columns: Field,
    schema: tuple[PhysicalField, ...] = (),
    scope: Scope = None,
    lookup: ColumnLookup = ColumnLookup.ICEBERG,
    materialized: Mapping[str, str] | None = None,
    versions: pa.Array | None = None,
) -> UnionArm:
    """Both files as one arm whose equality deletes compare `a`, which the files lack."""
    files = planned()
    plan = ScanPlan(
        table="table",
        format="iceberg",
        snapshot=1,
        schema=Schema(fields=()),
        columns=columns,
        filter=None,
        files=FILES.empty_table(),
        partitions=files.partitions,
        equality_deletes=(),
        delete_sets=(),
        position_deletes=(),
        load_positions=lambda ordinals: {},
        name_mapping=None,
        skipped=(),
        counts=Counts(),
        storage=Storage(),
        lookup=lookup,
        materialized=materialized or {},
        row_commit_versions=versions,
    )
    group = FileGroup(
        members=(0, 1),
        rows=(3, 4),
        format="parquet",
        schema=schema,
        sources=(PartitionValue(1),),
        legacy=frozenset(),
        converted=False,
        split=(scope, False),
    )
    members = tuple(ScanFile(name=FileName(p, p), format="parquet", constants={1: v}) for p, v in (("1", 7), ("2", 8)))
    return UnionArm(
        plan=plan,
        planned=files,
        columns=columns,
        roots=(A,),
        fields=(A,),
        group=group,
        files=members,
        deleted=None,
    )


FIRST = PerFile((100, None), LONG)
STORED_ID = PhysicalField(name="_row_id", id=ROW_ID.id, type=LONG)
MATERIALIZED = PhysicalField(name="col-7", id=None, type=LONG)
PARTITION = Field(id=METADATA["_partition"].id, name="_partition", type=StructType((A,)))
UNPARTITIONED = Field(id=METADATA["_partition"].id, name="_partition", type=INT)
COLUMNS: dict[str, tuple[Field, dict[str, Any], ColumnValue]] = {
    "file": (METADATA["_file"], {}, PerFile(("one", "two"), TEXT)),
    "position": (METADATA["_pos"], {}, Position()),
    "spec": (METADATA["_spec_id"], {}, Uniform(0, INT)),
    "partition": (PARTITION, {}, ConstantStruct((A,), (PerFile((7, 8), INT),))),
    "partition of no fields": (UNPARTITIONED, {}, Uniform(None, INT)),
    "row id": (ROW_ID, {}, Lineage(FIRST, PositionFrom(FIRST))),
    "stored row id": (
        ROW_ID,
        {"schema": (MATERIALIZED, STORED_ID)},
        Lineage(FIRST, StoredOr(StoredColumn(ROW_ID, Stored(STORED_ID, place=1)), PositionFrom(FIRST))),
    ),
    "last update": (UPDATED, {"schema": (STORED_ID,)}, Lineage(FIRST, PerFile((5, 6), LONG))),
    "row id of Delta, not by its id": (
        ROW_ID,
        {"schema": (STORED_ID,), "lookup": ColumnLookup.DELTA_NAME},
        Lineage(FIRST, PositionFrom(FIRST)),
    ),
    "row id of Delta, by the name that the table says": (
        ROW_ID,
        {"schema": (MATERIALIZED,), "lookup": ColumnLookup.DELTA_NAME, "materialized": {"_row_id": "col-7"}},
        Lineage(FIRST, StoredOr(StoredColumn(ROW_ID, Stored(MATERIALIZED)), PositionFrom(FIRST))),
    ),
    "commit version": (VERSION, {"versions": pa.array([2, 3])}, PerFile((2, 3), LONG)),
    "stored commit version": (
        VERSION,
        {
            "schema": (MATERIALIZED,),
            "lookup": ColumnLookup.DELTA_NAME,
            "materialized": {"_row_commit_version": "col-7"},
        },
        StoredOr(StoredColumn(VERSION, Stored(MATERIALIZED)), Uniform(None, LONG)),
    ),
}


@pytest.mark.parametrize(("column", "how", "expected"), COLUMNS.values(), ids=COLUMNS)
def test_metadata_columns(column: Field, how: dict[str, Any], expected: ColumnValue) -> None:
    """iceberg 5.17, 5.18; delta W2, W3."""
    assert known(arm(column, **how).values()) == known({"c0": expected})


@pytest.mark.parametrize(
    ("column", "how", "rule"),
    [
        (ROW_ID, {"schema": (replace(STORED_ID, type=FloatType(64)),)}, "iceberg 5.12"),
        (
            ROW_ID,
            {
                "schema": (replace(MATERIALIZED, type=TEXT),),
                "lookup": ColumnLookup.DELTA_NAME,
                "materialized": {"_row_id": "col-7"},
            },
            "delta T23",
        ),
    ],
)
def test_stored_metadata_of_another_type_is_refused(column: Field, how: dict[str, Any], rule: str) -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        arm(column, **how).values()
    assert (caught.value.rule, caught.value.field) == (rule, "_row_id")


def test_values_that_equality_deletes_compare() -> None:
    key, deleted = PerFile((7, 8), INT), METADATA["_deleted"]
    alone = {"c1": Position()}
    assert known(arm(deleted, METADATA["_pos"]).values()) == known(alone)
    assert known(arm(deleted, METADATA["_pos"], scope=3).values()) == known(alone | {"e0": key})
    pooled = {"e0": key, "sq": PerFile((5, 6), LONG), "sp": PerFile((0, 1), LONG)}
    assert known(arm(scope=Pooled.ALL).values()) == known(pooled)


def test_an_arm_of_some_files() -> None:
    whole = arm(METADATA["_file"], ROW_ID)
    assert known(whole.part([0, 1]).values()) == known(whole.values())
    arms = [whole.part([0]), whole.part([1])]
    assert [known(one.values()) for one in arms] == [
        known({"c0": Uniform(path, TEXT), "c1": Lineage(Uniform(first, LONG), PositionFrom(Uniform(first, LONG)))})
        for path, first in (("one", 100), ("two", None))
    ]
    assert [(one.group.members, one.group.rows) for one in arms] == [((0,), (3,)), ((1,), (4,))]


def test_a_value_is_one_column_of_the_file_table_however_often_it_is_used() -> None:
    table = FileTable(2)
    translation = SqlTranslation((), table)
    [value] = arm(ROW_ID).values().values()
    assert translation.expression(value) == "CASE WHEN g.v0 IS NULL THEN NULL ELSE g.v0 + f.file_row_number END"
    tables: list[pa.Table] = []
    join = table.join(lambda rows: tables.append(rows) or "t")
    assert join == " JOIN (SELECT i, v0 FROM t) AS g ON g.i = f.file_index"
    assert tables[0].to_pydict() == {"i": [0, 1], "v0": [100, None]}


SETS: dict[str, tuple[list[tuple[int, ...]], int, list[Scope]]] = {
    "few": ([(), (0,), (0, 1)], 2, [None, 1, 2]),
    "more than 64": ([(), *[(i,) for i in range(64)]], 64, [None, *[Pooled.ALL] * 64]),
    "each delete read too often": ([(0, 1, 2, 3, 4)] * 5, 4, [Pooled.ALL] * 5),
}


@pytest.mark.parametrize(("sets", "deletes", "expected"), SETS.values(), ids=SETS)
def test_deletes_of_a_delete_set(sets: list[tuple[int, ...]], deletes: int, expected: list[Scope]) -> None:
    plan = replace(arm().plan, delete_sets=tuple(sets), equality_deletes=tuple(range(deletes)))
    assert scopes(plan) == expected


def test_rows_without_columns_are_counted() -> None:
    """A plan may show no column; its rows count all the same."""
    assert conform(pa.table({"a": [1, 2, 3]}).select([]), pa.schema([])).num_rows == 3
