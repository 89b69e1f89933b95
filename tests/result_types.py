"""What a value of each of DuckDB's types is in every output of a query, by hand; and the page that shows it.

`python tests/result_types.py > docs/reference/result-types.md` writes the page anew.
"""

from __future__ import annotations

from dataclasses import dataclass

REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A value of a type, and what it is in each output.

    type: as DuckDB names it. sql: the value. python: what `fetchall` gives. json: the value in JSON and JSONL. text:
    the cell in text and CSV; None: that of json. parquet: the type that DuckDB reads from the file. arrow: the type of
    `pyarrow.table(relation)`. file: the type with `--format arrow`; None: that of arrow. pandas, polars: the column's
    dtype. spark: the column's type on Spark, for the expression `on_spark` if that is given. only: the major version of
    DuckDB that it is about; None: any.
    """

    type: str
    sql: str
    python: str
    json: str
    text: str | None = None
    parquet: str
    arrow: str
    file: str | None = None
    pandas: str
    polars: str
    spark: str = REFUSED
    on_spark: str | None = None
    only: int | None = None

    @property
    def cell(self) -> str:
        """The cell in text and CSV, before quoting."""
        return self.json.strip('"') if self.text is None else self.text


def _whole(type_: str, sql: str, arrow: str, polars: str, *, json: str = "1", spark: str = REFUSED) -> Case:
    """A case of integers that everything has a type for."""
    value = json.strip('"')
    return Case(
        type=type_,
        sql=sql,
        python=value,
        json=json,
        parquet=type_,
        arrow=arrow,
        pandas=arrow,
        polars=polars,
        spark=spark,
    )


def _text(type_: str, sql: str, value: str) -> Case:
    """A case of values that are text everywhere."""
    return Case(
        type=type_,
        sql=sql,
        python=repr(value),
        json=f'"{value}"',
        parquet="VARCHAR",
        arrow="string",
        pandas="object",
        polars="String",
    )


def _long(type_: str, sql: str, value: str, *, python: str | None = None, spark: str = REFUSED) -> Case:
    """A case of integers of 128 bits."""
    return Case(
        type=type_,
        sql=sql,
        python=python or f"Decimal('{value}')",
        json=value if len(value) < 16 else f'"{value}"',
        parquet="DECIMAL(38,0)",
        arrow="decimal128(38, 0)",
        pandas="float64",
        polars="Decimal(precision=38, scale=0)",
        spark=spark,
    )


def _decimal(sql: str, value: str, precision: int, scale: int) -> Case:
    return Case(
        type="DECIMAL",
        sql=sql,
        python=f"Decimal('{value}')",
        json=f'"{value}"' if scale else value,
        parquet=f"DECIMAL({precision},{scale})",
        arrow=f"decimal128({precision}, {scale})",
        pandas="float64",
        polars=f"Decimal(precision={precision}, scale={scale})",
        spark=f"decimal({precision},{scale})",
    )


_NINES = "9" * 38
_POINT = "01" + "01000000" + "000000000000F03F" + "0000000000000040"  # WKB: little-endian, a point, 1.0, 2.0

CASES: tuple[Case, ...] = (
    Case(
        type="BOOLEAN",
        sql="true",
        python="True",
        json="true",
        parquet="BOOLEAN",
        arrow="bool",
        pandas="bool",
        polars="Boolean",
        spark="boolean",
    ),
    _whole("TINYINT", "1::TINYINT", "int8", "Int8", spark="tinyint"),
    _whole("SMALLINT", "1::SMALLINT", "int16", "Int16", spark="smallint"),
    _whole("INTEGER", "1", "int32", "Int32", spark="int"),
    _whole("BIGINT", "9007199254740993", "int64", "Int64", json='"9007199254740993"', spark="bigint"),
    _long("HUGEINT", "sum(1)", "1", python="1", spark="decimal(38,0)"),
    _long("HUGEINT", f"{_NINES}::HUGEINT", _NINES, python=_NINES, spark="decimal(38,0)"),
    _whole("UTINYINT", "1::UTINYINT", "uint8", "UInt8"),
    _whole("USMALLINT", "1::USMALLINT", "uint16", "UInt16"),
    _whole("UINTEGER", "1::UINTEGER", "uint32", "UInt32"),
    _whole("UBIGINT", "18446744073709551615::UBIGINT", "uint64", "UInt64", json='"18446744073709551615"'),
    _long("UHUGEINT", "1::UHUGEINT", "1"),
    _text("BIGNUM", "'1234567890123456789012345678901234567890'::BIGNUM", "1234567890123456789012345678901234567890"),
    Case(
        type="FLOAT",
        sql="0.5::FLOAT",
        python="0.5",
        json="0.5",
        parquet="FLOAT",
        arrow="float",
        pandas="float32",
        polars="Float32",
        spark="float",
    ),
    Case(
        type="DOUBLE",
        sql="0.1::DOUBLE",
        python="0.1",
        json="0.1",
        parquet="DOUBLE",
        arrow="double",
        pandas="float64",
        polars="Float64",
        spark="double",
    ),
    _decimal("1.50::DECIMAL(4,2)", "1.50", 4, 2),
    _decimal("1.50::DECIMAL(38,10)", "1.5000000000", 38, 10),
    _decimal("1::DECIMAL(5,0)", "1", 5, 0),
    Case(
        type="VARCHAR",
        sql="'é'",
        python="'é'",
        json='"é"',
        parquet="VARCHAR",
        arrow="string",
        pandas="object",
        polars="String",
        spark="string",
    ),
    Case(
        type="BLOB",
        sql=r"'\x00\xFF'::BLOB",
        python=r"b'\x00\xff'",
        json='"00FF"',
        parquet="BLOB",
        arrow="binary",
        pandas="object",
        polars="Binary",
        spark="binary",
    ),
    _text("BIT", "'0101'::BIT", "0101"),
    Case(
        type="UUID",
        sql="'00000000-0000-0000-0000-00000000000A'::UUID",
        python="UUID('00000000-0000-0000-0000-00000000000a')",
        json='"00000000-0000-0000-0000-00000000000a"',
        parquet="UUID",
        arrow="string",
        file="extension<arrow.uuid>",
        pandas="object",
        polars="String",
        spark="string",
        on_spark="u",
    ),
    Case(
        type="DATE",
        sql="DATE '2024-01-31'",
        python="datetime.date(2024, 1, 31)",
        json='"2024-01-31"',
        parquet="DATE",
        arrow="date32[day]",
        pandas="datetime64[us]",
        polars="Date",
        spark="date",
    ),
    Case(
        type="TIME",
        sql="TIME '12:30:00.000001'",
        python="datetime.time(12, 30, 0, 1)",
        json='"12:30:00.000001"',
        parquet="TIME",
        arrow="time64[us]",
        pandas="object",
        polars="Time",
        spark="bigint",
        on_spark="tm",
    ),
    Case(
        type="TIME_NS",
        sql="'12:30:00.000000001'::TIME_NS",
        python="datetime.time(12, 30)",
        json='"12:30:00.000000001"',
        parquet="TIME_NS",
        arrow="time64[ns]",
        pandas="object",
        polars="Time",
    ),
    _text("TIME WITH TIME ZONE", "'12:30:00+01:30'::TIMETZ", "12:30:00+01:30"),
    Case(
        type="TIMESTAMP",
        sql="TIMESTAMP '2024-01-31 12:30:00.000001'",
        python="datetime.datetime(2024, 1, 31, 12, 30, 0, 1)",
        json='"2024-01-31T12:30:00.000001"',
        parquet="TIMESTAMP",
        arrow="timestamp[us]",
        pandas="datetime64[us]",
        polars="Datetime(time_unit='us', time_zone=None)",
        spark="timestamp_ntz",
    ),
    Case(
        type="TIMESTAMP_S",
        sql="'2024-01-31 12:30:00'::TIMESTAMP_S",
        python="datetime.datetime(2024, 1, 31, 12, 30)",
        json='"2024-01-31T12:30:00"',
        parquet="TIMESTAMP",
        arrow="timestamp[s]",
        pandas="datetime64[s]",
        polars="Datetime(time_unit='ms', time_zone=None)",
    ),
    Case(
        type="TIMESTAMP_MS",
        sql="'2024-01-31 12:30:00.001'::TIMESTAMP_MS",
        python="datetime.datetime(2024, 1, 31, 12, 30, 0, 1000)",
        json='"2024-01-31T12:30:00.001"',
        parquet="TIMESTAMP",
        arrow="timestamp[ms]",
        pandas="datetime64[ms]",
        polars="Datetime(time_unit='ms', time_zone=None)",
    ),
    Case(
        type="TIMESTAMP_NS",
        sql="'2024-01-31 12:30:00.000000001'::TIMESTAMP_NS",
        python="datetime.datetime(2024, 1, 31, 12, 30)",
        json='"2024-01-31T12:30:00.000000001"',
        parquet="TIMESTAMP_NS",
        arrow="timestamp[ns]",
        pandas="datetime64[ns]",
        polars="Datetime(time_unit='ns', time_zone=None)",
        spark="bigint",
        on_spark="tn",
    ),
    Case(
        type="TIMESTAMP WITH TIME ZONE",
        sql="TIMESTAMPTZ '2024-01-31 12:30:00+01'",
        python="datetime.datetime(2024, 1, 31, 11, 30, tzinfo=datetime.timezone.utc)",
        json='"2024-01-31T11:30:00Z"',
        parquet="TIMESTAMP WITH TIME ZONE",
        arrow="timestamp[us, tz=UTC]",
        pandas="datetime64[us, UTC]",
        polars="Datetime(time_unit='us', time_zone='UTC')",
        spark="timestamp",
    ),
    Case(
        type="TIMESTAMPTZ_NS",
        sql="'2024-01-31 12:30:00.000000001+01'::TIMESTAMPTZ_NS",
        python="datetime.datetime(2024, 1, 31, 11, 30, tzinfo=datetime.timezone.utc)",
        json='"2024-01-31T11:30:00.000000001Z"',
        parquet="TIMESTAMPTZ_NS",
        arrow="timestamp[ns, tz=UTC]",
        pandas="datetime64[ns]",
        polars="Datetime(time_unit='ns', time_zone='UTC')",
        only=2,
    ),
    Case(
        type="INTERVAL",
        sql="INTERVAL '1 month 2 days 3.5 seconds'",
        python="datetime.timedelta(days=32, seconds=3, microseconds=500000)",
        json='"P1M2DT3.5S"',
        parquet=REFUSED,
        arrow="month_day_nano_interval",
        pandas="timedelta64[us]",
        polars=REFUSED,
    ),
    Case(
        type="ENUM",
        sql="'b'::ENUM('a', 'b')",
        python="'b'",
        json='"b"',
        parquet="VARCHAR",
        arrow="dictionary<values=string, indices=uint8, ordered=0>",
        pandas="category",
        polars="Categorical",
    ),
    *(
        Case(
            type=type_,
            sql=sql,
            python="'{\"a\":1}'",
            json=r'"{\"a\":1}"',
            text='{"a":1}',
            parquet="JSON",
            arrow="string",
            file="extension<arrow.json>",
            pandas="object",
            polars="String",
        )
        for type_, sql in (("JSON", "'{\"a\":1}'::JSON"), ("VARIANT", "{'a': 1}::VARIANT"))
    ),
    Case(
        type="GEOMETRY",
        sql="'POINT(1 2)'::GEOMETRY",
        python=repr(bytes.fromhex(_POINT)),
        json=f'"{_POINT}"',
        parquet="BLOB",
        arrow="binary",
        pandas="object",
        polars="Extension('geoarrow.wkb', Binary, '{}')",
    ),
    _text("TYPE", "get_type(1)", "INTEGER"),
    Case(
        type="NULL",
        sql="NULL",
        python="None",
        json="null",
        text="NULL",
        parquet="INTEGER",
        arrow="int32",
        pandas="Int32",
        polars="Int32",
        spark="int",
    ),
    Case(
        type="LIST",
        sql="[1, NULL]",
        python="[1, None]",
        json="[1,null]",
        parquet="INTEGER[]",
        arrow="list<l: int32>",
        pandas="object",
        polars="List(Int32)",
        spark="array<int>",
        on_spark="l",
    ),
    Case(
        type="LIST",
        sql="[1::HUGEINT, NULL]",
        python="[1, None]",
        json="[1,null]",
        parquet="DECIMAL(38,0)[]",
        arrow="list<l: decimal128(38, 0)>",
        pandas="object",
        polars="List(Decimal(precision=38, scale=0))",
    ),
    Case(
        type="LIST",
        sql="[true]",
        python="[True]",
        json="[true]",
        parquet="BOOLEAN[]",
        arrow="list<l: bool>",
        pandas="object",
        polars="List(Boolean)",
        spark="array<boolean>",
    ),
    Case(
        type="LIST",
        sql="[]",
        python="[]",
        json="[]",
        parquet="INTEGER[]",
        arrow="list<l: int32>",
        pandas="object",
        polars="List(Int32)",
    ),
    Case(
        type="ARRAY",
        sql="[1, 2]::INTEGER[2]",
        python="(1, 2)",
        json="[1,2]",
        parquet="INTEGER[]",
        arrow="fixed_size_list<: int32>[2]",
        pandas="object",
        polars="Array(Int32, shape=(2,))",
    ),
    Case(
        type="ARRAY",
        sql="[[1], [2]]::HUGEINT[1][2]",
        python="((1,), (2,))",
        json="[[1],[2]]",
        parquet="DECIMAL(38,0)[][]",
        arrow="fixed_size_list<: fixed_size_list<: decimal128(38, 0)>[1]>[2]",
        pandas="object",
        polars="Array(Decimal(precision=38, scale=0), shape=(2, 1))",
    ),
    Case(
        type="STRUCT",
        sql="{'a': 1, 'b': 'x'}",
        python="{'a': 1, 'b': 'x'}",
        json='{"a":1,"b":"x"}',
        parquet="STRUCT(a INTEGER, b VARCHAR)",
        arrow="struct<a: int32, b: string>",
        pandas="object",
        polars="Struct({'a': Int32, 'b': String})",
        spark="struct<a:int,b:string>",
        on_spark="s",
    ),
    Case(
        type="STRUCT",
        sql="{'a': 1::HUGEINT, 'b c': '1'::BIT, 'd': true, 'e': [1]::INTEGER[1]}",
        python="{'a': 1, 'b c': '1', 'd': True, 'e': (1,)}",
        json='{"a":1,"b c":"1","d":true,"e":[1]}',
        parquet='STRUCT(a DECIMAL(38,0), "b c" VARCHAR, d BOOLEAN, e INTEGER[])',
        arrow="struct<a: decimal128(38, 0), b c: string, d: bool, e: fixed_size_list<: int32>[1]>",
        pandas="object",
        polars="Struct({'a': Decimal(precision=38, scale=0), 'b c': String, 'd': Boolean, "
        "'e': Array(Int32, shape=(1,))})",
    ),
    Case(
        type="STRUCT",
        sql="struct_pack()",
        python="{}",
        json="{}",
        parquet=REFUSED,
        arrow="struct<>",
        pandas="object",
        polars="Struct({})",
        only=2,
    ),
    *(
        Case(
            type="TUPLE",
            sql="row(1::HUGEINT, 'x')",
            python=python,
            json='{"element1":1,"element2":"x"}',
            parquet="STRUCT(element1 DECIMAL(38,0), element2 VARCHAR)",
            arrow="struct<element1: decimal128(38, 0), element2: string>",
            pandas="object",
            polars="Struct({'element1': Decimal(precision=38, scale=0), 'element2': String})",
            only=version,
        )
        for version, python in ((1, "{'element1': 1, 'element2': 'x'}"), (2, "(1, 'x')"))
    ),
    Case(
        type="MAP",
        sql="MAP {'k': 1}",
        python="{'k': 1}",
        json='[["k",1]]',
        parquet="MAP(VARCHAR, INTEGER)",
        arrow="map<string, int32>",
        pandas="object",
        polars="Map(String, Int32)",
        spark="map<string,int>",
        on_spark="m",
    ),
    Case(
        type="MAP",
        sql="MAP {1::HUGEINT: true}",
        python="{1: True}",
        json="[[1,true]]",
        parquet="MAP(DECIMAL(38,0), BOOLEAN)",
        arrow="map<decimal128(38, 0), bool>",
        pandas="object",
        polars="Map(Decimal(precision=38, scale=0), Boolean)",
    ),
    Case(
        type="MAP",
        sql="MAP {}",
        python="{}",
        json="[]",
        parquet="MAP(INTEGER, INTEGER)",
        arrow="map<int32, int32>",
        pandas="object",
        polars="Map(Int32, Int32)",
    ),
    Case(
        type="UNION",
        sql="union_value(n := 1::HUGEINT)",
        python="1",
        json="1",
        parquet=REFUSED,
        arrow="sparse_union<n: decimal128(38, 0)=0>",
        pandas="object",
        polars=REFUSED,
    ),
)

_HEAD = """\
# The types of results

What a value of each of DuckDB's types is, when a query gives it out. The tests hold this page true on every supported
version of DuckDB; `python tests/result_types.py` writes it.

| Column | Is |
|---|---|
| `fetchall` | the value in Python, `harness.sql(…).fetchall()` |
| text, CSV | the cell of `harness sql --format text` and `csv`; a null is `NULL` and an empty cell |
| JSON | the value of `--format json` and `jsonl`; integers beyond ±2^53 are text, which JSON readers would round |
| Parquet | the type that DuckDB reads from the file of `--format parquet` |
| Arrow | the type of `harness.sql(…).to_arrow_table()`; behind a semicolon that of `--format arrow` |
| pandas, Polars | the dtype of `harness.sql(…).df()` and `.pl()` |
| Spark | the type of the column of `harness.sql(…, engine="spark")` |

## What is cast

Some types have no equal in Arrow and Parquet. Columns of them are cast in the SQL, inside of lists, arrays, structs,
maps and unions too; rows keep their order, and the relation stays lazy.

- `HUGEINT`, which every sum of integers is, is `int` in Python, and `DECIMAL(38,0)` in Arrow, in files and on Spark.
  `UHUGEINT` becomes `DECIMAL(38,0)`. An integer of more than 38 digits is an error that names the column;
  `CAST(… AS VARCHAR)` in the query gives all of its digits.
- `BIT`, `BIGNUM`, `TIME WITH TIME ZONE` and `TYPE` become text.
- `VARIANT` becomes JSON text, as variant columns of tables are. On DuckDB 1 it is refused inside of other types, where
  a NULL would become a JSON null.
- `NULL`, the type of a lone `NULL` and of what is in `[]`, becomes `INTEGER`.
- `TUPLE` gets names for its fields. On DuckDB 1 it is a struct without names.

- The zone of a `TIMESTAMP WITH TIME ZONE` in Python is UTC, of `pytz` up to DuckDB 2.0.0, and of `zoneinfo` later.

## What is refused

- By Parquet: `INTERVAL`, `UNION` and a struct without fields. The error names the column; cast it with
  `CAST(… AS VARCHAR)`. Polars has no such types either, but for the struct, and fails with an error of its own.
- By Spark: whatever `harness.queries.transpile` does not know to mean the same there, which `refused` stands for below.
- By all: the state of an aggregate (`AGGREGATE_STATE`), which holds addresses. Use `finalize(…)`.

## What is rounded by the output

Python and pandas know no more than DuckDB gives them. Where that is too little, cast in the query, or take Arrow.

- `fetchall` cuts nanoseconds, and counts a month of an `INTERVAL` as 30 days, as `df()` does.
- `df()` makes `float64` of decimals, and of sums of integers: cast them to `BIGINT`. It gives `TIMESTAMPTZ_NS`
  without its zone, in UTC, and fails on infinite dates.

A connection that you pass keeps its settings: with `arrow_lossless_conversion` on it, Arrow and Polars get
`arrow.bool8` for booleans, `arrow.uuid` and `arrow.json`, and 16 bytes of DuckDB's own for `HUGEINT`.

## All types

"""
_COLUMNS = ("Type", "Value", "`fetchall`", "text, CSV", "JSON", "Parquet", "Arrow", "pandas", "Polars", "Spark")


def page() -> str:
    """The page as Markdown."""
    rule = "|".join("---" for _ in _COLUMNS)
    return _HEAD + f"| {' | '.join(_COLUMNS)} |\n|{rule}|\n" + "".join(_row(case) for case in CASES)


def _row(case: Case) -> str:
    arrow = _code(case.arrow) if case.file is None else f"{_code(case.arrow)}; {_code(case.file)}"
    outputs = (case.python, case.cell, case.json, case.parquet, arrow, case.pandas, case.polars, case.spark)
    version = "" if case.only is None else f" (DuckDB {case.only})"
    cells = [f"{case.type}{version}", _code(case.sql), *(text if text is arrow else _code(text) for text in outputs)]
    return f"| {' | '.join(cells)} |\n"


def _code(text: str) -> str:
    return text if text == REFUSED else f"`{text}`"


if __name__ == "__main__":
    print(page(), end="")
