"""Resolution of a file's columns to a table's fields.

Expectations are written by hand: iceberg 5 and 6, delta T9 to T28.
"""

import pytest

from harness.errors import SchemaMismatchError, UnsupportedError
from harness.metadata.model import schema as dt
from harness.metadata.model.file_schema import (
    STORED_LIST,
    STORED_MAP,
    STORED_STRUCT,
    MappedName,
    NameMapping,
    PhysicalField,
    is_readable,
    is_readable_in_delta,
    widens,
)
from harness.metadata.model.schema import Field, ListType, MapType, OpaqueType, StructType
from harness.metadata.plan.projection import ColumnLookup, ConstantValue, FileColumn, resolve

NAMED: dict[str, dt.Type] = {
    "bool": dt.BooleanType(),
    "date": dt.DateType(),
    "text": dt.StringType(),
    "bytes": dt.BinaryType(),
    "uuid": dt.UuidType(),
    "int96": dt.Int96Type(),
    "geom": dt.GeometryType(),
    "geog": dt.GeographyType(),
    "variant": dt.VariantType(),
    "money": OpaqueType("money"),
    "group": STORED_STRUCT,
    **dict(zip(("byte", "short", "int", "long"), map(dt.IntegerType, (8, 16, 32, 64)), strict=True)),
    **{f"u{bits}": dt.UnsignedType(bits) for bits in (8, 16, 32, 64)},
    **dict(zip(("half", "float", "double"), map(dt.FloatType, (16, 32, 64)), strict=True)),
    **{f"time_{unit}": dt.TimeType(unit) for unit in ("ms", "us", "ns")},
    **{f"{name}_{unit}": dt.TimestampType(unit, name == "tz") for name in ("ts", "tz") for unit in ("ms", "us", "ns")},
    **{f"fixed{n}": dt.FixedType(n) for n in (3, 15, 16)},
    **{f"{p}.{s}": dt.DecimalType(p, s) for p, s in ((3, 0), (5, 0), (10, 0), (20, 0), (9, 2), (11, 2), (13, 5))},
}
"""Types by short name; decimals by their digits."""
INT, LONG = NAMED["int"], NAMED["long"]
ICEBERG = """
bool: bool
int: byte short int u8 u16
long: byte short int long u8 u16 u32
float: float
double: float double
5.0: 3.0 5.0
20.0: 3.0 5.0 10.0 20.0
11.2: 9.2 11.2
date: date int
time_us: time_ms time_us
ts_us: date int96 ts_ms ts_us ts_ns tz_ms tz_us tz_ns
tz_us: int96 ts_ms ts_us ts_ns tz_ms tz_us tz_ns
ts_ns: date ts_ms ts_us ts_ns tz_ms tz_us tz_ns
tz_ns: ts_ms ts_us ts_ns tz_ms tz_us tz_ns
text: text bytes
uuid: text uuid fixed16
fixed3: fixed3
bytes: bytes
geom: bytes geom geog
geog: bytes geom geog
"""
"""By type of the table: the types of files that can be read as it, and no others."""
DELTA = """
bool: bool
byte: byte short int
short: byte short int u8
int: byte short int u8 u16
long: byte short int long u8 u16 u32
float: float
double: byte short int float double
3.0: byte 3.0 5.0 10.0 20.0
5.0: byte short 3.0 5.0 10.0 20.0
10.0: byte short int 3.0 5.0 10.0 20.0
20.0: byte short int long 3.0 5.0 10.0 20.0
11.2: byte short 3.0 5.0 9.2 11.2
13.5: byte short 3.0 5.0 9.2 13.5
date: date
ts_us: date int96 ts_ms ts_us tz_ms tz_us
tz_us: int96 ts_ms ts_us tz_ms tz_us
text: text bytes
bytes: text bytes fixed3 fixed15 fixed16
"""
WIDER = """
short: byte
int: byte short
long: byte short int
double: byte short int float
3.0: byte
5.0: byte short 3.0
10.0: byte short int 3.0 5.0
20.0: byte short int long 3.0 5.0 10.0
9.2: byte short 3.0 5.0
11.2: byte short 3.0 5.0 9.2
13.5: byte short 3.0 5.0 9.2
ts_us: date
"""
"""By type: the types that may have been widened to it."""


def rows(text: str) -> dict[str, set[str]]:
    return {name: set(others.split()) for name, others in (line.split(":") for line in text.strip().splitlines())}


def want(id_, name, type_=INT, **more):
    return Field(id=id_, name=name, type=type_, **more)


def struct(*fields):
    return StructType(fields)


def list_of(id_, type_=INT):
    return ListType(want(id_, "element", type_))


def map_of(key, value):
    return MapType(want(key[0], "key", key[1]), want(value[0], "value", value[1]))


def stored(id_, name, type_=INT, *children):
    return PhysicalField(name=name, id=id_, type=type_, children=children)


def group(id_, name, *children):
    return stored(id_, name, STORED_STRUCT, *children)


def listed(id_, name, element):
    return stored(id_, name, STORED_LIST, element)


def run(fields, file, *, mapping=None, partition=(), file_format="parquet", lookup=ColumnLookup.ICEBERG):
    return resolve(
        tuple(fields),
        tuple(file),
        name_mapping=mapping,
        partition_ids=frozenset(partition),
        file_format=file_format,
        file_path="f.parquet",
        table="t",
        lookup=lookup,
    )


@pytest.mark.parametrize(
    ("text", "is_read", "lookup"),
    [(ICEBERG, is_readable, ColumnLookup.ICEBERG), (DELTA, is_readable_in_delta, ColumnLookup.DELTA_NAME)],
    ids=["iceberg", "delta"],
)
def test_types_of_files_that_are_read(text, is_read, lookup):
    rule = "iceberg 5.12" if lookup is ColumnLookup.ICEBERG else "delta T23"
    for name, names in rows(text).items():
        wanted = NAMED[name]
        assert {other for other, type_ in NAMED.items() if is_read(type_, wanted)} == names, name
        for other, type_ in NAMED.items():
            column = stored(1, "a", type_)
            if other in names:
                assert run([want(1, "a", wanted)], [column], lookup=lookup) == (FileColumn(column),)
            else:
                with pytest.raises(SchemaMismatchError) as caught:
                    run([want(1, "a", wanted)], [column], lookup=lookup)
                assert (caught.value.cause, caught.value.rule) == ("IncompatibleType", rule), (name, other)


def test_types_that_were_widened():
    found = {n: {o for o, type_ in NAMED.items() if widens(type_, wanted)} for n, wanted in NAMED.items()}
    assert {name: others for name, others in found.items() if others} == rows(WIDER)


def test_a_column_stored_or_wanted_as_unknown_is_null():
    assert run([want(1, "a", dt.StringType(), initial_default="x")], [stored(1, "a", dt.UnknownType())]) == (
        ConstantValue(None),
    )
    assert all(
        is_read(type_, dt.UnknownType()) for is_read in (is_readable, is_readable_in_delta) for type_ in NAMED.values()
    )
    for lookup in (ColumnLookup.ICEBERG, ColumnLookup.DELTA_NAME):
        assert run([want(1, "a", dt.UnknownType())], [stored(1, "a")], lookup=lookup) == (ConstantValue(None),)


def test_a_field_moved_between_structs_is_another_field():
    file = [group(1, "s", stored(3, "x")), group(2, "t")]
    assert run([want(2, "t", struct(want(3, "x")))], file) == (FileColumn(file[1], (ConstantValue(None),)),)


def test_an_instant_of_orc_is_one():
    same = stored(1, "t", NAMED["tz_ns"])
    assert run([want(1, "t", NAMED["tz_us"])], [same], file_format="orc") == (FileColumn(same),)


def mapped(id_, *names, fields=()):
    return MappedName(names=names, field_id=id_, fields=tuple(fields))


MAPPED_LIST = NameMapping((mapped(1, "l", fields=[mapped(2, "element")]),))
CORRECT = "correct the table property schema.name-mapping.default, which assigns ids to the file's columns"
BY_NAME, BY_ID = {"lookup": ColumnLookup.DELTA_NAME}, {"lookup": ColumnLookup.DELTA_ID}
MONEY = OpaqueType("money")
REFUSED = {
    # A field, the columns of the file, how the field is looked up, and the message.
    "element of another id": (
        want(1, "l", list_of(2)),
        [listed(1, "l", stored(7, "element"))],
        {},
        "field id 7 in the file and 2 in the table",
    ),
    "two columns of one id": (want(1, "a"), [stored(1, "x"), stored(1, "y")], {}, "[DuplicateFieldId; "),
    "required at the top": (
        want(1, "a", required=True),
        [stored(9, "b")],
        {},
        "Cannot read required column a: the file lacks field id 1, which has no initial default; rewrite the file, or "
        "make the column optional [MissingRequiredField; table t, file f.parquet, field a, rule iceberg 5.2]",
    ),
    "required inside a default": (
        want(1, "s", struct(want(2, "x", required=True)), initial_default={}),
        [group(9, "s", stored(8, "z"))],
        {},
        "[MissingRequiredField; table t, file f.parquet, field s.x, rule iceberg 5.2]",
    ),
    "a map's key without a field": (
        want(1, "m", map_of((2, struct(want(3, "x"), want(4, "y"))), (5, INT))),
        [stored(1, "m", STORED_MAP, group(2, "key", stored(3, "x")), stored(5, "value"))],
        {},
        "lacks a part of the map's key",
    ),
    "a partition value inside a missing struct": (
        want(1, "s", struct(want(3, "y"))),
        [stored(9, "z")],
        {"partition": [3]},
        "field s, rule iceberg 5.2]",
    ),
    "mapping of an element": (
        want(1, "l", list_of(3)),
        [listed(None, "l", stored(None, "x"))],
        {"mapping": MAPPED_LIST},
        f"l.element: it has field id 2 in the name mapping and 3 in the table's schema; {CORRECT} [",
    ),
    "mapping of a type": (
        want(1, "l", list_of(2, dt.StringType())),
        [listed(None, "l", stored(None, "x"))],
        {"mapping": MAPPED_LIST},
        f"which cannot be read as string, the type in the table; rewrite the file, or {CORRECT} [",
    ),
    "mapping of no required field": (
        want(3, "l", list_of(2), required=True),
        [listed(None, "l", stored(None, "x"))],
        {"mapping": MAPPED_LIST},
        f"the file lacks field id 3, which has no initial default; {CORRECT}, or make the column optional [",
    ),
    "mapping of two columns": (
        want(1, "a"),
        [stored(None, "a"), stored(None, "b")],
        {"mapping": NameMapping((mapped(1, "a", "b"),))},
        "'a' and 'b' both have field id 1",
    ),
    "nested by position": (
        want(1, "l", list_of(2)),
        [listed(None, "l", stored(None, "element"))],
        {},
        "Cannot read nested l by position: the file has no field ids and the table no name mapping; set the table "
        "property schema.name-mapping.default [MissingFieldIds; table t, file f.parquet, field l, rule iceberg 5.6]",
    ),
    "another type": (
        want(1, "s", struct(want(2, "x"))),
        [group(1, "s", stored(2, "old", LONG))],
        {},
        "Cannot read column s.x: the file stores long, which cannot be read as int, the type in the table; "
        "rewrite the file [IncompatibleType; table t, file f.parquet, field s.x, rule iceberg 5.12]",
    ),
    "a wall clock of ORC as an instant": (
        want(1, "t", NAMED["tz_us"]),
        [stored(1, "t", NAMED["ts_ns"])],
        {"file_format": "orc"},
        "IncompatibleType",
    ),
    "an int from a struct": (want(1, "a"), [group(1, "a", stored(2, "x"))], {}, "IncompatibleType"),
    "an int from a list": (
        want(1, "a"),
        [listed(1, "a", stored(2, "element"))],
        {},
        "the file stores list<int>, which",
    ),
    "a variant without metadata": (
        want(1, "a", dt.VariantType()),
        [group(1, "a", stored(None, "value", dt.BinaryType()))],
        {},
        "IncompatibleType",
    ),
    "an unknown type": (
        want(1, "o", MONEY),
        [group(1, "o")],
        {},
        "[UnsupportedType; table t, file f.parquet, field o, ",
    ),
    "one in a list": (want(1, "o", list_of(2, MONEY)), [listed(1, "o", stored(2, "element"))], {}, "iceberg 1.22]"),
    "delta: two letter cases": (
        want(1, "ab"),
        [stored(None, "AB"), stored(None, "aB")],
        BY_NAME,
        "Cannot read column ab: the file's columns 'AB' and 'aB' both match 'ab'; rewrite the file "
        "[AmbiguousColumn; table t, file f.parquet, field ab, rule delta T10]",
    ),
    "delta: no ids": (
        want(1, "a", physical_name="a"),
        [stored(None, "a")],
        BY_ID,
        "Cannot read column a: the table finds columns by field id, and the file's columns at this level have none; "
        "rewrite the file [MissingFieldIds; table t, file f.parquet, field a, rule delta T11]",
    ),
    "delta: no ids in a struct": (
        want(1, "s", struct(want(2, "x", physical_name="x"))),
        [group(1, "s", stored(None, "x"))],
        BY_ID,
        "[MissingFieldIds; ",
    ),
    "delta: one id twice": (
        want(1, "a"),
        [stored(1, "a"), stored(1, "b")],
        BY_ID,
        "[DuplicateFieldId; table t, file f.parquet, field a, rule delta T11]",
    ),
    "delta: another type": (
        want(1, "s", struct(want(2, "l", list_of(3)))),
        [group(None, "s", listed(None, "l", stored(None, "element", LONG)))],
        BY_NAME,
        "Cannot read column s.l.element: the file stores long, which cannot be read as int, the type in the table; "
        "rewrite the file [IncompatibleType; table t, file f.parquet, field s.l.element, rule delta T23]",
    ),
    "delta: a list from a map": (
        want(1, "a", list_of(2)),
        [stored(None, "a", STORED_MAP, stored(None, "key"), stored(None, "value"))],
        BY_NAME,
        "IncompatibleType",
    ),
}


@pytest.mark.parametrize(("field", "file", "how", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(field, file, how, message):
    with pytest.raises((SchemaMismatchError, UnsupportedError)) as caught:
        run([field], file, **how)
    assert message in str(caught.value)
