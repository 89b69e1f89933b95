"""The histories: what becomes of columns, their types and defaults, of partition specs and of file formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iceberg_history import ON_READ, History, create, loaded


def _java(change: Callable[[Any, Any], None]) -> Callable[[Any, str], None]:
    """A step by Iceberg's own interface; `change` is given the table and the virtual machine."""

    def step(spark: Any, table: str) -> None:
        change(loaded(spark, table), spark._jvm)

    return step


@_java
def _add_defaults(table: Any, jvm: Any) -> None:
    types, lit = jvm.org.apache.iceberg.types.Types, jvm.org.apache.iceberg.expressions.Expressions.lit
    update = table.updateSchema()
    update.addColumn("n", types.IntegerType.get(), "with a default", lit(7))
    update.addRequiredColumn("must", types.StringType.get(), "with a default", lit("given"))
    update.addColumn("st", "deep", types.DoubleType.get(), "with a default", lit(0.5))
    update.addColumn("day", types.DateType.get(), "with a default", lit("2024-02-29").to(types.DateType.get()))
    price = types.DecimalType.of(9, 2)
    update.addColumn("price", price, "with a default", lit("12.50").to(price))
    update.commit()


@_java
def _change_defaults(table: Any, jvm: Any) -> None:
    lit = jvm.org.apache.iceberg.expressions.Expressions.lit
    table.updateSchema().updateColumnDefault("n", lit(8)).renameColumn("must", "shall").commit()


_DDL = "a int, b float, c decimal(5, 2), d string NOT NULL"
_TYPES = (
    "b boolean, i int, l bigint, f float, d double, s string, y binary, day date, at timestamp, loc timestamp_ntz, "
    "d1 decimal(1, 0), d9 decimal(9, 9), d18 decimal(18, 3), d38 decimal(38, 10), "
    "st struct<a: int, b: struct<c: string>>, li array<int>, ls array<struct<x: int, y: array<string>>>, "
    "m map<string, int>, ms map<int, struct<v: double>>, lm array<map<string, array<int>>>"
)
_VALUES = (
    "(true, -2147483648, 9223372036854775807, CAST('NaN' AS float), -0.0D, '', X'00FF', DATE'0001-01-01', "
    "TIMESTAMP'1969-12-31 23:59:59.999999Z', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', 9, 0.123456789, "
    "-123456789012345.678, 1234567890123456789012345678.0123456789, "
    "named_struct('a', 1, 'b', named_struct('c', 'x')), array(1, NULL, 3), "
    "array(named_struct('x', 1, 'y', array('p', NULL)), NULL), map('k', 1, 'n', NULL), "
    "map(1, named_struct('v', 1.5D)), array(map('a', array(1, NULL)), NULL))"
)
_TRANSFORMS = (
    *("s", "bucket(4, id)", "truncate(1, s)", "years(at)", "months(day)", "days(at)", "hours(at)"),
    *("bucket(3, n)", "truncate(10, id)", "bucket(2, day)", "truncate(100, n)", "day"),
)
_NULLS = f"({', '.join(['NULL'] * 20)})"
_EMPTY = (
    "(false, 0, 0, CAST('-Infinity' AS float), CAST('Infinity' AS double), 'ü😀', X'', DATE'1582-10-04', "
    "TIMESTAMP'0001-01-01 00:00:00Z', TIMESTAMP_NTZ'1900-01-01 00:00:00', 0, -0.999999999, 0.001, -0.0000000001, "
    "named_struct('a', NULL, 'b', named_struct('c', NULL)), array(), "
    "array(named_struct('x', NULL, 'y', array()), named_struct('x', 2, 'y', NULL)), map(), "
    "map(2, named_struct('v', NULL), 3, NULL), array(map(), map('e', NULL)))"
)


def _of_format(name: str, version: int) -> History:
    """Deletes, and columns that come and go, in data and delete files of a format; its lineage is in no file of v2."""
    return History(
        f"{name}-files-v{version}",
        (
            create(
                "id bigint, p string, st struct<a: int, b: string>, li array<int>, at timestamp, m map<string, int>",
                version,
                ON_READ,
                f"'write.format.default'='{name}'",
                partitioned="p",
            ),
            "INSERT INTO {t} VALUES (1, 'a', named_struct('a', 1, 'b', 'x'), array(1), "
            "TIMESTAMP'2024-01-01 00:00:00Z', map('k', 1)), (2, 'b', NULL, NULL, NULL, NULL), "
            "(3, NULL, named_struct('a', NULL, 'b', NULL), array(NULL), "
            "TIMESTAMP'1969-12-31 23:59:59.999999Z', map('n', NULL))",
            "DELETE FROM {t} WHERE id = 2",
            "ALTER TABLE {t} ADD COLUMNS (note string AFTER id, st.c double)",
            "ALTER TABLE {t} RENAME COLUMN st.a TO first",
            "ALTER TABLE {t} DROP COLUMN li",
            "INSERT INTO {t} VALUES (4, 'n', 'a', named_struct('first', 4, 'b', 'y', 'c', 0.5D), NULL, NULL), "
            "(5, NULL, 'c', NULL, NULL, map())",
            "UPDATE {t} SET note = 'changed' WHERE p = 'a'",
            "ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default'='parquet')",
            "DELETE FROM {t} WHERE id = 5",
            "INSERT INTO {t} VALUES (6, NULL, 'a', NULL, NULL, NULL)",
        ),
    )


SCHEMA_HISTORIES = (
    History(
        "columns",
        (
            create(_DDL, 2, ON_READ),
            "INSERT INTO {t} VALUES (1, 0.1, 999.99, 'one'), (-2147483648, NULL, -0.01, 'two')",
            "ALTER TABLE {t} ADD COLUMN e date",
            "INSERT INTO {t} VALUES (2, 0.2, NULL, 'three', DATE'2024-02-29')",
            "ALTER TABLE {t} ALTER COLUMN a TYPE bigint",
            "ALTER TABLE {t} ALTER COLUMN b TYPE double",
            "ALTER TABLE {t} ALTER COLUMN c TYPE decimal(12, 2)",
            "INSERT INTO {t} VALUES (9000000000, 0.1D, 1234567890.12, 'wide', NULL)",
            "DELETE FROM {t} WHERE b = 0.1D",
            "ALTER TABLE {t} RENAME COLUMN a TO was_a",
            "ALTER TABLE {t} ALTER COLUMN e FIRST",
            "ALTER TABLE {t} ALTER COLUMN was_a AFTER d",
            "ALTER TABLE {t} ALTER COLUMN d DROP NOT NULL",
            "INSERT INTO {t} VALUES (NULL, NULL, NULL, NULL, NULL)",
            "ALTER TABLE {t} DROP COLUMN c",
            "ALTER TABLE {t} ADD COLUMN c string AFTER e",
            "ALTER TABLE {t} ADD COLUMN a boolean",
            "UPDATE {t} SET c = 'again', a = true WHERE was_a > 1",
            "DELETE FROM {t} WHERE a",
        ),
    ),
    History(
        "nested-columns",
        (
            create(
                "id bigint, st struct<a: int, b: struct<c: float>>, li array<struct<x: int>>, n array<int>, "
                "m map<string, struct<v: int>>",
                2,
                ON_READ,
            ),
            "INSERT INTO {t} VALUES (1, named_struct('a', 1, 'b', named_struct('c', 0.1F)), "
            "array(named_struct('x', 1), NULL), array(1, NULL), map('k', named_struct('v', 1)))",
            "INSERT INTO {t} VALUES (2, NULL, NULL, NULL, NULL), (3, named_struct('a', 3, 'b', NULL), array(), "
            "array(), map('n', NULL))",
            "ALTER TABLE {t} ADD COLUMNS (st.b.d string FIRST, li.element.y double, m.value.w array<int>)",
            "ALTER TABLE {t} ADD COLUMN st.e struct<f: int>",
            "INSERT INTO {t} VALUES (4, named_struct('a', 4, 'b', named_struct('d', 'x', 'c', 0.5F), 'e', "
            "named_struct('f', 4)), array(named_struct('x', 4, 'y', 0.5D)), array(4), "
            "map('k', named_struct('v', 4, 'w', array(4))))",
            "ALTER TABLE {t} RENAME COLUMN st.a TO z",
            "ALTER TABLE {t} RENAME COLUMN m.value.v TO vv",
            "ALTER TABLE {t} ALTER COLUMN st.z TYPE bigint",
            "ALTER TABLE {t} ALTER COLUMN st.b.c TYPE double",
            "ALTER TABLE {t} ALTER COLUMN li.element.x TYPE bigint",
            "ALTER TABLE {t} ALTER COLUMN n.element TYPE bigint",
            "ALTER TABLE {t} ALTER COLUMN st.z AFTER b",
            "ALTER TABLE {t} ALTER COLUMN li.element.y FIRST",
            "UPDATE {t} SET st.z = 30000000000 WHERE id = 3",
            "ALTER TABLE {t} DROP COLUMN li.element.x",
            "ALTER TABLE {t} DROP COLUMN st.b",
            "ALTER TABLE {t} ADD COLUMN st.b string",
            "ALTER TABLE {t} ADD COLUMN li.element.x string",
            "DELETE FROM {t} WHERE st.e.f = 4",
            "UPDATE {t} SET st = named_struct('z', 0L, 'e', NULL, 'b', 'new') WHERE id = 2",
        ),
    ),
    *(
        History(
            f"partition-evolution-v{version}",
            (
                create("id bigint, s string, at timestamp, n decimal(9, 2), day date", version, *properties),
                "INSERT INTO {t} SELECT id, concat('s', id % 3), TIMESTAMP'2024-01-31 22:00:00Z' + make_interval("
                "0, 0, 0, 0, CAST(id AS int)), id * 1.25, DATE'1969-12-30' + CAST(id AS int) FROM range(8)",
                *(
                    (
                        f"ALTER TABLE {{t}} ADD PARTITION FIELD {transform} AS p{number}",
                        f"INSERT INTO {{t}} VALUES ({100 + number}, 's1', TIMESTAMP'1969-12-31 23:30:00Z', -0.01, "
                        f"DATE'1970-01-01'), ({200 + number}, NULL, NULL, NULL, NULL)",
                        f"DELETE FROM {{t}} WHERE id = {number // 2 + 100 * (number % 2)}",
                        f"ALTER TABLE {{t}} DROP PARTITION FIELD p{number}",
                    )
                    for number, transform in enumerate(transforms)
                ),
                "ALTER TABLE {t} ADD PARTITION FIELD days(at) AS by_day",
                "ALTER TABLE {t} REPLACE PARTITION FIELD by_day WITH hours(at) AS by_hour",
                "INSERT INTO {t} SELECT * FROM {t} WHERE id < 104",
                "UPDATE {t} SET at = TIMESTAMP'2025-06-01 12:00:00Z' WHERE id = 102",
                "DELETE FROM {t} WHERE at < TIMESTAMP'1970-01-01 00:00:00Z'",
            ),
        )
        for version, properties, transforms in (
            (1, (), _TRANSFORMS),
            (2, (ON_READ,), _TRANSFORMS),
            (3, (ON_READ,), _TRANSFORMS[::3]),
        )
    ),
    History(
        "dropped-partition-source",
        (
            create("id bigint, s string, n int", 2, ON_READ, partitioned="s, bucket(2, n)"),
            "INSERT INTO {t} VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, NULL)",
            "ALTER TABLE {t} RENAME COLUMN s TO part",
            "ALTER TABLE {t} DROP PARTITION FIELD part",
            "INSERT INTO {t} VALUES (4, 'a', 4)",
            "ALTER TABLE {t} RENAME COLUMN id TO key",
            "DELETE FROM {t} WHERE key IN (1, 4)",
            "ALTER TABLE {t} ALTER COLUMN n TYPE bigint",
            "INSERT INTO {t} VALUES (5, 'e', 5000000000)",
        ),
    ),
    History(
        "types",
        (
            create(_TYPES, 2, ON_READ),
            f"INSERT INTO {{t}} VALUES {_VALUES}, {_NULLS}, {_EMPTY}",
            f"INSERT INTO {{t}} VALUES {_EMPTY}",
            "DELETE FROM {t} WHERE b IS NULL",
            "DELETE FROM {t} WHERE isnan(f)",
        ),
    ),
    History(
        "types-in-avro",
        (
            create(_TYPES, 2, ON_READ, "'write.format.default'='avro'"),
            f"INSERT INTO {{t}} VALUES {_VALUES}, {_NULLS}, {_EMPTY}",
            "DELETE FROM {t} WHERE b IS NULL",
        ),
    ),
    *(_of_format(name, version) for name in ("avro", "orc") for version in (2, 3)),
    History(
        "defaults",
        (
            create("id bigint, st struct<a: int>", 3, ON_READ),
            "INSERT INTO {t} VALUES (1, named_struct('a', 1)), (2, NULL)",
            _add_defaults,
            "INSERT INTO {t} (id) VALUES (3)",
            "DELETE FROM {t} WHERE id = 2",
            _change_defaults,
            "INSERT INTO {t} (id, st) VALUES (4, NULL)",
            "UPDATE {t} SET n = n + 1 WHERE id IN (1, 3)",
            "CALL ice.system.rewrite_data_files(table => '{ref}', options => map('rewrite-all', 'true'))",
        ),
    ),
    History(
        "variants",
        (
            create("id bigint, v variant, st struct<w: variant>", 3, ON_READ),
            'INSERT INTO {t} VALUES (1, parse_json(\'{{"b": [1, 2.5, null], "a": {{"x": "y"}}}}\'), '
            "named_struct('w', parse_json('true'))), (2, NULL, NULL), (3, parse_json('null'), named_struct('w', NULL))",
            "DELETE FROM {t} WHERE id = 2",
            "INSERT INTO {t} SELECT id, to_variant_object(named_struct('n', id, 'd', DATE'2024-02-29', 's', 'x')), "
            "named_struct('w', CAST(id AS variant)) FROM range(4, 8)",
            (  # between the two, Iceberg itself fails to read: it looks for the new variant in the snapshot's schema
                "ALTER TABLE {t} ADD COLUMN later variant",
                "INSERT INTO {t} SELECT 30, NULL, NULL, parse_json('[]')",
            ),
            "UPDATE {t} SET later = parse_json('{{}}') WHERE id = 4",
            "ALTER TABLE {t} SET TBLPROPERTIES ('write.parquet.variant.shred'='true')",
            'INSERT INTO {t} SELECT id, parse_json(concat(\'{{"n": \', id, \', "s": "t"}}\')), NULL, NULL '
            "FROM range(8, 20)",
        ),
        texts=("v", "st.w", "later"),
    ),
    History(
        "names",
        (
            create(
                "`a b` bigint, `x.y` string, `ü😀` struct<`in ner`: int, `1`: int>, `2` int, `a/b` int", 2, ON_READ
            ).replace("USING iceberg", "USING iceberg PARTITIONED BY (`x.y`)"),
            "INSERT INTO {t} VALUES (1, 'p/q', named_struct('in ner', 1, '1', 2), 2, 3), (2, NULL, NULL, NULL, NULL)",
            "DELETE FROM {t} WHERE `a b` = 2",
            "ALTER TABLE {t} RENAME COLUMN `2` TO `_r_2`",
            "INSERT INTO {t} VALUES (3, 'x=y %', named_struct('in ner', 3, '1', NULL), 2, 3)",
            "UPDATE {t} SET `a/b` = 9 WHERE `x.y` = 'p/q'",
        ),
    ),
    History(
        "imported-files",
        (
            create("id bigint, s string, n int", 2, ON_READ),
            (
                "INSERT OVERWRITE DIRECTORY '{elsewhere}/plain' USING parquet SELECT 1L AS id, 'a' AS s, 5 AS n",
                "CALL ice.system.add_files(table => '{ref}', source_table => '`parquet`.`{elsewhere}/plain`')",
            ),
            "ALTER TABLE {t} RENAME COLUMN s TO renamed",
            "ALTER TABLE {t} DROP COLUMN n",
            "ALTER TABLE {t} ADD COLUMN k string",
            "INSERT INTO {t} VALUES (2, 'b', 'new')",
            (
                "INSERT OVERWRITE DIRECTORY '{elsewhere}/orc' USING orc SELECT 3L AS id, 'c' AS s, 'text' AS k",
                "CALL ice.system.add_files(table => '{ref}', source_table => '`orc`.`{elsewhere}/orc`')",
            ),
            "UPDATE {t} SET k = 'changed' WHERE id <> 2",
        ),
    ),
)
