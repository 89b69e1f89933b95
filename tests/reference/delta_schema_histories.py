"""Histories that Delta Lake runs: what becomes of columns, their names, types and values."""

from __future__ import annotations

from delta_history import BY_ID, BY_NAME, NTZ, VECTORS, VERSIONS, WIDENING, History, create

SCHEMA_HISTORIES = (
    History(
        "mapped-by-name",
        (
            create("id BIGINT, s STRING, n STRUCT<a: INT, b: ARRAY<STRUCT<c: STRING, d: INT>>>", BY_NAME, VECTORS),
            "INSERT INTO {t} VALUES (1, 'x', named_struct('a', 1, 'b', array(named_struct('c', 'p', 'd', 2))))",
            "ALTER TABLE {t} RENAME COLUMN n.a TO `odd name, (;)=`",
            "ALTER TABLE {t} RENAME COLUMN n.b.element.c TO e",
            "ALTER TABLE {t} ADD COLUMNS (n.b.element.f DOUBLE)",
            "INSERT INTO {t} VALUES (2, 'y', named_struct('odd name, (;)=', 5, 'b', "
            "array(named_struct('e', 'q', 'd', 6, 'f', 0.5D), NULL)))",
            "ALTER TABLE {t} DROP COLUMN s",
            "ALTER TABLE {t} ADD COLUMNS (s INT FIRST, m MAP<STRING, STRUCT<v: DATE>> AFTER id)",
            "INSERT INTO {t} VALUES (3, 7, map('k', named_struct('v', DATE'1969-12-31')), NULL)",
            "DELETE FROM {t} WHERE id = 1",
            "ALTER TABLE {t} DROP COLUMN n.b.element.d",
            "OPTIMIZE {t}",
        ),
    ),
    History(
        "mapped-later",
        (
            create("id BIGINT, s STRING, p STRING", then="PARTITIONED BY (p)"),
            "INSERT INTO {t} VALUES (1, 'x', 'old'), (2, 'y', NULL)",
            f"ALTER TABLE {{t}} SET TBLPROPERTIES ({BY_NAME}, {VERSIONS})",
            "ALTER TABLE {t} RENAME COLUMN s TO id2",
            "ALTER TABLE {t} RENAME COLUMN id TO s",
            "ALTER TABLE {t} RENAME COLUMN p TO part",
            "INSERT INTO {t} VALUES (3, 'z', 'new')",
            "DELETE FROM {t} WHERE part = 'old'",
            "ALTER TABLE {t} DROP COLUMN id2",
            "ALTER TABLE {t} ADD COLUMNS (id2 DATE)",
            "INSERT INTO {t} VALUES (4, 'n', DATE'2020-01-01')",
        ),
    ),
    History(
        "mapped-by-id",
        (
            create("id BIGINT, n STRUCT<a: INT, m: MAP<STRING, INT>>", BY_ID, VECTORS),
            "INSERT INTO {t} VALUES (1, named_struct('a', 1, 'm', map('k', 1))), (2, NULL)",
            "ALTER TABLE {t} RENAME COLUMN n.a TO z",
            "ALTER TABLE {t} ADD COLUMNS (n.a STRING FIRST)",
            "INSERT INTO {t} VALUES (3, named_struct('a', 's', 'z', 4, 'm', map()))",
            "DELETE FROM {t} WHERE id = 2",
            "ALTER TABLE {t} RENAME COLUMN id TO key",
            "UPDATE {t} SET n = NULL WHERE key = 1",
        ),
    ),
    History(
        "widened",
        (
            create(
                "b TINYINT, s SMALLINT, i INT, f FLOAT, d DECIMAL(5, 2), x INT, l BIGINT, t DATE, n STRUCT<a: INT>",
                WIDENING,
                VECTORS,
                NTZ,
            ),
            "INSERT INTO {t} VALUES (-128, 32767, 2147483647, 0.1, -999.99, -1, 9, DATE'1969-12-31', "
            "named_struct('a', 5)), (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
            "ALTER TABLE {t} ALTER COLUMN b TYPE SMALLINT",
            "ALTER TABLE {t} ALTER COLUMN s TYPE INT",
            "ALTER TABLE {t} ALTER COLUMN i TYPE BIGINT",
            "ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE",
            "ALTER TABLE {t} ALTER COLUMN d TYPE DECIMAL(20, 4)",
            "INSERT INTO {t} VALUES (300, 70000, 9223372036854775807, 1e300, 1.2345, 2, 3, DATE'2024-02-29', NULL)",
            "ALTER TABLE {t} ALTER COLUMN b TYPE DOUBLE",
            "ALTER TABLE {t} ALTER COLUMN x TYPE DECIMAL(12, 1)",
            "ALTER TABLE {t} ALTER COLUMN l TYPE DECIMAL(22, 2)",
            "ALTER TABLE {t} ALTER COLUMN t TYPE TIMESTAMP_NTZ",
            "ALTER TABLE {t} ALTER COLUMN n.a TYPE BIGINT",
            "DELETE FROM {t} WHERE b = -128",
            "OPTIMIZE {t}",
        ),
    ),
    History(
        "widened-partition",
        (
            create("id BIGINT, p INT, q DATE", WIDENING, NTZ, then="PARTITIONED BY (p, q)"),
            "INSERT INTO {t} VALUES (1, 7, DATE'2024-01-01'), (2, NULL, NULL)",
            "ALTER TABLE {t} ALTER COLUMN p TYPE BIGINT",
            "ALTER TABLE {t} ALTER COLUMN q TYPE TIMESTAMP_NTZ",
            "INSERT INTO {t} VALUES (3, 5000000000, TIMESTAMP_NTZ'2024-01-01 12:34:56.789'), "
            "(4, 7, TIMESTAMP_NTZ'2024-01-01 00:00:00')",
            "DELETE FROM {t} WHERE id = 1",
        ),
    ),
    History(
        "partitions",
        (
            create(
                "id BIGINT, s STRING, d DATE, t TIMESTAMP, n TIMESTAMP_NTZ, b BOOLEAN, f DOUBLE, m DECIMAL(9, 3), "
                "y BINARY, i TINYINT",
                then="PARTITIONED BY (s, d, t, n, b, f, m, y, i)",
            ),
            "INSERT INTO {t} VALUES (1, 'a/b c%=:é', DATE'1969-12-31', TIMESTAMP'1969-12-31 23:59:59.999999Z', "
            "TIMESTAMP_NTZ'2024-02-29 00:00:00', true, -0.0D, 12.500, X'4142', -128)",
            "INSERT INTO {t} VALUES (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
            "INSERT INTO {t} VALUES (3, '', DATE'2024-01-01', TIMESTAMP'2024-01-01 00:00:00Z', "
            "TIMESTAMP_NTZ'1900-01-01 01:02:03.5', false, double('NaN'), -0.001, X'', 127)",
            "INSERT INTO {t} VALUES (4, ' x ', DATE'9999-12-31', TIMESTAMP'2500-06-01 12:00:00.5+02:00', "
            "TIMESTAMP_NTZ'2024-01-01 00:00:00.000001', false, double('-Infinity'), 999999.999, X'20', 0)",
            "DELETE FROM {t} WHERE s IS NULL AND b IS NULL",
            "UPDATE {t} SET s = 'moved ' WHERE id = 4",
        ),
    ),
    History(
        "types",
        (
            create(
                "b BOOLEAN, y TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(38, 10), "
                "t STRING, z BINARY, dt DATE, ts TIMESTAMP, n TIMESTAMP_NTZ, v VARCHAR(5), c CHAR(3), "
                "a ARRAY<INT>, k MAP<INT, ARRAY<STRING>>, r STRUCT<x: STRUCT<y: TIMESTAMP>>"
            ),
            "INSERT INTO {t} VALUES (true, -1, 2, -3, 4, float('NaN'), -0.0D, 1234567890123456789012345678.0123456789, "
            "'é\\u0000z', X'00ff', DATE'0001-01-01', TIMESTAMP'1582-10-04 00:00:00Z', "
            "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', 'abcde', 'xyz', array(1, NULL), "
            "map(1, array('a', NULL), 2, NULL), "
            "named_struct('x', named_struct('y', TIMESTAMP'1969-12-31 23:59:59.5Z')))",
            "INSERT INTO {t} (i) VALUES (5)",
            "UPDATE {t} SET a = array(), k = map(), r = named_struct('x', NULL) WHERE i = 5",
            "ALTER TABLE {t} ADD COLUMNS (added STRING FIRST)",
            "ALTER TABLE {t} CHANGE COLUMN i AFTER l",
            "INSERT INTO {t} (i, added) VALUES (6, 'new')",
        ),
    ),
    History(
        "defaults-and-constraints",
        (
            create(
                "id BIGINT NOT NULL, g BIGINT GENERATED ALWAYS AS (id * 2), s STRING DEFAULT 'none', "
                "w BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5 INCREMENT BY 5)",
                "'delta.feature.allowColumnDefaults'='supported'",
            ),
            "INSERT INTO {t} (id) VALUES (1), (2)",
            "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 0)",
            "INSERT INTO {t} (id, s) VALUES (3, DEFAULT), (4, 'given')",
            "ALTER TABLE {t} ALTER COLUMN s SET DEFAULT 'later'",
            "INSERT INTO {t} (id) VALUES (5)",
            "ALTER TABLE {t} DROP CONSTRAINT positive",
            "DELETE FROM {t} WHERE s = 'none' AND id = 1",
        ),
    ),
    History(
        "variant",
        (
            create("id BIGINT, v VARIANT, n STRUCT<w: VARIANT>", VECTORS),
            'INSERT INTO {t} SELECT 1, parse_json(\'{{"a": [1, 2.5, null, "x"], "b": true}}\'), NULL',
            "INSERT INTO {t} SELECT 2, NULL, named_struct('w', parse_json('12345678901'))",
            "DELETE FROM {t} WHERE id = 1",
            "INSERT INTO {t} SELECT 3, parse_json('null'), named_struct('w', NULL)",
        ),
        columns=("id", "v", "n"),
        select="id, to_json(v) AS v, if(n IS NULL, NULL, named_struct('w', to_json(n.w))) AS n",
    ),
)
