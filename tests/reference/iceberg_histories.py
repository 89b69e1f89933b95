"""Histories of Apache Iceberg: what becomes of rows, columns, types, defaults, partition specs and formats of files."""

from collections.abc import Callable
from typing import Any

from iceberg_equality import equality_delete
from written_tables import Reading, Step, loaded

ON_READ = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"
"""Properties of a table whose deletes are files."""


def create(columns: str, version: int, *properties: str, partitioned: str = "") -> str:
    """CREATE TABLE with a format version and properties."""
    by = f"PARTITIONED BY ({partitioned}) " if partitioned else ""
    named = ", ".join((f"'format-version'='{version}'", *properties))
    return f"CREATE TABLE {{t}} ({columns}) USING iceberg {by}TBLPROPERTIES ({named})"


ON_WRITE = (
    "'write.delete.mode'='copy-on-write', 'write.update.mode'='copy-on-write', 'write.merge.mode'='copy-on-write'"
)
_MERGE = (
    "MERGE INTO {t} USING (SELECT 1L AS id, 'm' AS s UNION ALL SELECT 3L, 'gone' UNION ALL SELECT 9L, 'new') u "
    "ON {t}.id = u.id WHEN MATCHED AND u.s = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET s = u.s "
    "WHEN NOT MATCHED THEN INSERT (id, s) VALUES (u.id, u.s)"
)


_CHANGES = (
    "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'd')",
    "DELETE FROM {t} WHERE id = 2",
    "UPDATE {t} SET s = 'changed' WHERE id >= 4",
    _MERGE,
    "INSERT INTO {t} VALUES (2, 'again'), (2, 'again'), (NULL, NULL)",
    "DELETE FROM {t} WHERE s IS NULL OR id = 9",
)
_KEYS = (
    "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (2, 'c'), (3, NULL), (NULL, 'd'), (4, 'e')",
    equality_delete("id", where="id", equals=2),
    "INSERT INTO {t} VALUES (2, 'again'), (5, 'f')",
    equality_delete("s", where="s", equals=None, format="AVRO"),
    "INSERT INTO {t} VALUES (6, NULL), (1, 'A')",
    equality_delete("s", "id", where="id", equals=1, format="ORC"),
    "DELETE FROM {t} WHERE id = 2",
    "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (NULL, NULL)",
    "ALTER TABLE {t} RENAME COLUMN id TO key",
    equality_delete("key", where="key", equals=None),
    "ALTER TABLE {t} ADD COLUMN n int",
    "INSERT INTO {t} VALUES (7, 'g', 7), (8, 'h', NULL)",
    equality_delete("n", "key", where="n", equals=None),
    "INSERT INTO {t} VALUES (9, 'i', NULL)",
    "CALL ice.system.rewrite_data_files(table => '{ref}', options => map('rewrite-all', 'true'))",
    "INSERT INTO {t} VALUES (7, 'late', 7)",
)
KEYS_OF_PARTITIONS = (
    create("id bigint, p string, d double", 2, ON_READ),
    "INSERT INTO {t} VALUES (1, 'x', 0.5), (2, 'y', NULL), (3, NULL, -0.0D)",
    "ALTER TABLE {t} ADD PARTITION FIELD p",
    "INSERT INTO {t} VALUES (1, 'x', 1), (1, 'y', 2), (2, 'x', 3), (4, NULL, 4)",
    equality_delete("id", where="p", equals="y"),
    "INSERT INTO {t} VALUES (1, 'x', 5), (2, NULL, 6)",
)


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


def _of_format(name: str, version: int) -> tuple[Step, ...]:
    """Deletes, and columns that come and go, in data and delete files of a format; its lineage is in no file of v2."""
    return (
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
    )


HISTORIES: dict[str, tuple[Step, ...]] = {
    "merge-on-read-v2": (create("id bigint, s string", 2, ON_READ), *_CHANGES),
    "copy-on-write-v2": (create("id bigint, s string", 2, ON_WRITE), *_CHANGES),
    "merge-on-read-v3": (
        create("id bigint, s string", 3, ON_READ),
        *_CHANGES,
        "CALL ice.system.rewrite_data_files(table => '{ref}', options => map('rewrite-all', 'true'))",
        "UPDATE {t} SET s = concat(s, '!') WHERE id = 2",
    ),
    "copy-on-write-v3": (create("id bigint, s string", 3, ON_WRITE), *_CHANGES),
    "partitioned-deletes": (
        create("id bigint, s string", 2, ON_READ, "'write.delete.granularity'='partition'", partitioned="s"),
        "INSERT INTO {t} SELECT id, concat('p', id % 3) FROM range(30)",
        "INSERT INTO {t} VALUES (30, NULL), (31, ''), (32, 'a b/c=%20'), (33, 'ü')",
        "DELETE FROM {t} WHERE id % 7 = 0",
        "DELETE FROM {t} WHERE s = 'p1'",
        "UPDATE {t} SET s = 'moved' WHERE id IN (2, 30, 31)",
        "INSERT OVERWRITE {t} PARTITION (s = 'p2') VALUES (100), (101)",
        "TRUNCATE TABLE {t}",
        "INSERT INTO {t} VALUES (1, 'p0')",
    ),
    "overwriting": (
        "CREATE TABLE {t} USING iceberg PARTITIONED BY (p) AS SELECT id, id % 2 AS p FROM range(6)",
        "INSERT OVERWRITE {t} VALUES (7, 1)",
        (
            "SET spark.sql.sources.partitionOverwriteMode=dynamic",
            "INSERT OVERWRITE {t} VALUES (8, 0)",
            "RESET spark.sql.sources.partitionOverwriteMode",
        ),
        "CREATE OR REPLACE TABLE {t} (p string, id bigint) USING iceberg",
        "INSERT INTO {t} VALUES ('new', 1)",
        "REPLACE TABLE {t} USING iceberg PARTITIONED BY (bucket(2, id)) AS SELECT id, 'x' AS p FROM range(3)",
        "DELETE FROM {t} WHERE id = 1",
    ),
    "compaction": (
        create("id bigint, s string", 2, ON_READ),
        "INSERT INTO {t} SELECT id, 'a' FROM range(10)",
        "DELETE FROM {t} WHERE id = 3",
        "INSERT INTO {t} SELECT id, 'b' FROM range(5, 15)",
        "DELETE FROM {t} WHERE id = 7",
        "DELETE FROM {t} WHERE id = 8",
        "CALL ice.system.rewrite_position_delete_files(table => '{ref}', options => map('rewrite-all', 'true'))",
        "CALL ice.system.rewrite_manifests('{ref}')",
        "CALL ice.system.rewrite_data_files(table => '{ref}', options => map('rewrite-all', 'true', "
        "'remove-dangling-deletes', 'true'))",
        "INSERT INTO {t} VALUES (7, 'after')",
        "CALL ice.system.rewrite_data_files(table => '{ref}', strategy => 'sort', sort_order => 'zorder(id, s)', "
        "options => map('rewrite-all', 'true'))",
        "UPDATE {t} SET s = 'c' WHERE id > 10",
        "CALL ice.system.expire_snapshots(table => '{ref}', older_than => TIMESTAMP '{now}', retain_last => 2)",
        "DELETE FROM {t} WHERE id < 5",
        "CALL ice.system.expire_snapshots(table => '{ref}', snapshot_ids => ARRAY({s[8]}))",
    ),
    "compaction-v3": (
        create("id bigint, s string", 3, ON_READ, partitioned="truncate(1, s)"),
        "INSERT INTO {t} SELECT /*+ REPARTITION(4) */ id, concat(id % 3, 'x') FROM range(40)",
        "DELETE FROM {t} WHERE id % 5 = 1",
        "DELETE FROM {t} WHERE id % 5 = 2",
        "CALL ice.system.rewrite_manifests('{ref}')",
        "CALL ice.system.rewrite_position_delete_files(table => '{ref}', options => map('rewrite-all', 'true'))",
        "CALL ice.system.rewrite_data_files(table => '{ref}', where => 's = \"1x\"', "
        "options => map('rewrite-all', 'true'))",
        "UPDATE {t} SET s = '1y' WHERE s = '2x'",
        "CALL ice.system.expire_snapshots(table => '{ref}', older_than => TIMESTAMP '{now}', retain_last => 1)",
    ),
    "rollback": (
        create("id bigint", 2, ON_READ),
        "INSERT INTO {t} VALUES (1), (2)",
        "INSERT INTO {t} VALUES (3)",
        "ALTER TABLE {t} ADD COLUMN note string",
        "DELETE FROM {t} WHERE id = 1",
        "CALL ice.system.rollback_to_snapshot('{ref}', {s[0]})",
        "INSERT INTO {t} VALUES (9, 'after')",
        "CALL ice.system.set_current_snapshot('{ref}', {s[2]})",
        "DELETE FROM {t} WHERE id = 3",
        "CALL ice.system.cherrypick_snapshot('{ref}', {s[3]})",
    ),
    "branches-and-tags": (
        create("id bigint, s string", 2, ON_READ, "'write.wap.enabled'='true'"),
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')",
        "ALTER TABLE {t} CREATE TAG first",
        "ALTER TABLE {t} CREATE BRANCH audit",
        "INSERT INTO {t}.branch_audit VALUES (3, 'audit')",
        "DELETE FROM {t}.branch_audit WHERE id = 1",
        "INSERT INTO {t} VALUES (4, 'main')",
        "ALTER TABLE {t} ADD COLUMN n int",
        "UPDATE {t}.branch_audit SET n = 7 WHERE id = 3",
        "ALTER TABLE {t} CREATE TAG second AS OF VERSION {s[1]} RETAIN 10 DAYS",
        "ALTER TABLE {t} CREATE BRANCH behind AS OF VERSION {s[0]}",
        "CALL ice.system.fast_forward('{ref}', 'behind', 'main')",
        ("SET spark.wap.id=one", "INSERT INTO {t} VALUES (5, 'staged', 1)", "RESET spark.wap.id"),
        "CALL ice.system.publish_changes('{ref}', 'one')",
        (
            "SET spark.wap.branch=wap",
            "INSERT INTO {t} VALUES (6, 'wap', 2)",
            "DELETE FROM {t} WHERE id = 2",
            "RESET spark.wap.branch",
        ),
        "ALTER TABLE {t} REPLACE BRANCH behind AS OF VERSION {s[2]}",
        "ALTER TABLE {t} REPLACE TAG first AS OF VERSION {s[3]}",
        "ALTER TABLE {t} DROP COLUMN s",
        "ALTER TABLE {t} DROP TAG second",
        "CALL ice.system.fast_forward('{ref}', 'main', 'wap')",
    ),
    "upgrades": (
        create("id bigint, s string", 1, ON_WRITE, partitioned="s"),
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'a'), (4, NULL)",
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} DROP PARTITION FIELD s",
        "INSERT INTO {t} VALUES (5, 'c')",
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ('format-version'='2', {ON_READ})",
        "DELETE FROM {t} WHERE id = 5",
        "UPDATE {t} SET s = 'z' WHERE id = 2",
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(3, id)",
        "INSERT INTO {t} SELECT id, 'd' FROM range(6, 12)",
        "DELETE FROM {t} WHERE id IN (7, 9)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')",
        "INSERT INTO {t} VALUES (12, 'e'), (13, 'e')",
        "DELETE FROM {t} WHERE id IN (3, 8, 12)",
        "UPDATE {t} SET s = 'last' WHERE id = 13",
        "CALL ice.system.rewrite_position_delete_files(table => '{ref}', options => map('rewrite-all', 'true'))",
        "CALL ice.system.rewrite_data_files(table => '{ref}', options => map('rewrite-all', 'true'))",
    ),
    "upgrade-lineage": (
        create("id bigint, s string", 2, ON_READ),
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "DELETE FROM {t} WHERE id = 2",
        ("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')", "INSERT INTO {t} VALUES (4, 'd')"),
        "UPDATE {t} SET s = 'changed' WHERE id IN (1, 4)",
        "CALL ice.system.rewrite_data_files(table => '{ref}', options => map('rewrite-all', 'true'))",
        "DELETE FROM {t} WHERE id = 3",
    ),
    "other-places": (
        create(
            "id bigint, s string",
            2,
            ON_READ,
            "'write.object-storage.enabled'='true', 'write.metadata.compression-codec'='gzip'",
            partitioned="s",
        ),
        "INSERT INTO {t} SELECT id, concat('p', id % 2) FROM range(6)",
        "DELETE FROM {t} WHERE id = 3",
        "ALTER TABLE {t} SET TBLPROPERTIES ('write.object-storage.enabled'='false', "
        "'write.data.path'='{elsewhere}', 'write.metadata.metrics.default'='none', "
        "'write.parquet.compression-codec'='gzip', 'write.avro.compression-codec'='snappy')",
        "INSERT INTO {t} SELECT id, concat('p', id % 2) FROM range(6, 12)",
        "DELETE FROM {t} WHERE id IN (4, 8)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('write.metadata.compression-codec'='none', "
        "'write.object-storage.enabled'='true', 'write.object-storage.partitioned-paths'='false')",
        "INSERT INTO {t} VALUES (20, 'p0')",
    ),
    "many-small-files": (
        create("id bigint, s string", 2, ON_READ, "'write.distribution-mode'='none'"),
        "INSERT INTO {t} SELECT /*+ REPARTITION(30) */ id, CAST(id AS string) FROM range(90)",
        "DELETE FROM {t} WHERE id % 4 = 0",
        *(f"INSERT INTO {{t}} VALUES ({number}, 'more')" for number in range(100, 104)),
        "ALTER TABLE {t} SET TBLPROPERTIES ('commit.manifest.min-count-to-merge'='2')",
        "INSERT INTO {t} SELECT /*+ REPARTITION(10) */ id, 'late' FROM range(200, 230)",
        "DELETE FROM {t} WHERE id % 4 = 1",
        "UPDATE {t} SET s = 'u' WHERE id % 4 = 2",
    ),
    "empty-tables": (
        create("id bigint", 2, ON_READ),
        "INSERT INTO {t} SELECT id FROM range(0)",
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} ADD COLUMN s string",
        "INSERT INTO {t} VALUES (1, 'a')",
        "DELETE FROM {t}",
        "ALTER TABLE {t} ADD COLUMN n struct<a: int>",
        "INSERT INTO {t} VALUES (2, 'b', named_struct('a', 1))",
        "UPDATE {t} SET s = 'none' WHERE id = 77",
    ),
    **{f"equality-deletes-v{v}": (create("id bigint, s string", v, ON_READ), *_KEYS) for v in (2, 3)},
    "equality-deletes-of-partitions": (
        *KEYS_OF_PARTITIONS,
        equality_delete("id", where="d", equals=5.0, whole=True),
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)",
        "INSERT INTO {t} VALUES (1, 'x', 7), (2, 'x', 8), (3, 'x', 9), (4, 'x', 10)",
        equality_delete("p", "id", where="d", equals=8.0),
        equality_delete("p", where="p", equals=None, whole=True),
        "UPDATE {t} SET d = -d WHERE p = 'x'",
    ),
    "columns": (
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
    "nested-columns": (
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
    **{
        f"partition-evolution-v{version}": (
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
        )
        for version, properties, transforms in (
            (1, (), _TRANSFORMS),
            (2, (ON_READ,), _TRANSFORMS),
            (3, (ON_READ,), _TRANSFORMS[::3]),
        )
    },
    "dropped-partition-source": (
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
    "types": (
        create(_TYPES, 2, ON_READ),
        f"INSERT INTO {{t}} VALUES {_VALUES}, {_NULLS}, {_EMPTY}",
        f"INSERT INTO {{t}} VALUES {_EMPTY}",
        "DELETE FROM {t} WHERE b IS NULL",
        "DELETE FROM {t} WHERE isnan(f)",
    ),
    "types-in-avro": (
        create(_TYPES, 2, ON_READ, "'write.format.default'='avro'"),
        f"INSERT INTO {{t}} VALUES {_VALUES}, {_NULLS}, {_EMPTY}",
        "DELETE FROM {t} WHERE b IS NULL",
    ),
    **{f"{name}-files-v{v}": _of_format(name, v) for name in ("avro", "orc") for v in (2, 3)},
    "defaults": (
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
    "variants": (
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
    "names": (
        create(
            "`a b` bigint, `x.y` string, `ü😀` struct<`in ner`: int, `1`: int>, `2` int, `a/b` int", 2, ON_READ
        ).replace("USING iceberg", "USING iceberg PARTITIONED BY (`x.y`)"),
        "INSERT INTO {t} VALUES (1, 'p/q', named_struct('in ner', 1, '1', 2), 2, 3), (2, NULL, NULL, NULL, NULL)",
        "DELETE FROM {t} WHERE `a b` = 2",
        "ALTER TABLE {t} RENAME COLUMN `2` TO `_r_2`",
        "INSERT INTO {t} VALUES (3, 'x=y %', named_struct('in ner', 3, '1', NULL), 2, 3)",
        "UPDATE {t} SET `a/b` = 9 WHERE `x.y` = 'p/q'",
    ),
    "imported-files": (
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
}

_LINEAGE = Reading(select="*, _row_id, _last_updated_sequence_number")
READINGS = {
    **dict.fromkeys(("merge-on-read-v3", "copy-on-write-v3", "compaction-v3"), _LINEAGE),
    "variants": Reading(texts=("v", "st.w", "later")),
}
"""Histories of which more is read than their columns."""
