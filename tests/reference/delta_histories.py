"""Histories of Delta Lake: what becomes of rows, of the log, and of columns, their names, types and values."""

from pathlib import Path
from typing import Any

from written_tables import Reading, Step

VECTORS = "'delta.enableDeletionVectors'='true'"
NO_VECTORS = "'delta.enableDeletionVectors'='false'"
FEED = "'delta.enableChangeDataFeed'='true'"
EVERY_2 = "'delta.checkpointInterval'='2'"
V2 = "'delta.checkpointPolicy'='v2'"
TRACKING = "'delta.enableRowTracking'='true'"
WIDENING = "'delta.enableTypeWidening'='true'"
BY_NAME = "'delta.columnMapping.mode'='name'"
BY_ID = "'delta.columnMapping.mode'='id'"
VERSIONS = "'delta.minReaderVersion'='2', 'delta.minWriterVersion'='5'"
NTZ = "'delta.feature.timestampNtz'='supported'"


def create(columns: str, *properties: str, then: str = "") -> str:
    """CREATE TABLE, with `then` after the columns."""
    table = f"CREATE TABLE {{t}} ({columns}) USING delta {then}"
    return f"{table} TBLPROPERTIES ({', '.join(properties)})" if properties else table


def compacted(first: int, last: int) -> Step:
    """Writes the log compaction of some versions, from Delta Lake's own replay of them: no SQL does that."""

    def compact(spark: Any, location: str) -> None:
        nothing = spark._jvm.scala.Option.empty()
        delta = spark._jvm.org.apache.spark.sql.delta
        changes = delta.DeltaLog.forTable(spark._jsparkSession, location).getChanges(first, last, nothing, True)
        replay = delta.actions.InMemoryLogReplay(nothing, nothing)
        while changes.hasNext():
            commit = changes.next()
            replay.append(commit._1(), commit._2().iterator())
        actions, lines = replay.checkpoint(), []
        while actions.hasNext():
            lines.append(actions.next().json() + "\n")
        name = f"{first:020}.{last:020}.compacted.json"
        Path(location, "_delta_log", name).write_text("".join(lines), encoding="utf-8")

    return compact


_MERGE = (
    "MERGE INTO {t} USING (SELECT CAST(1 AS BIGINT) AS id, 'm' AS s UNION ALL SELECT 9, 'new') u ON {t}.id = u.id "
    "WHEN MATCHED THEN UPDATE SET s = u.s WHEN NOT MATCHED THEN INSERT *"
)
_FOUR = "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'd')"
_CHANGES = (_FOUR, "DELETE FROM {t} WHERE id = 2", "UPDATE {t} SET s = 'changed' WHERE id >= 3", _MERGE)

HISTORIES: dict[str, tuple[Step, ...]] = {
    "deletion-vectors": (
        create("id BIGINT, s STRING", VECTORS),
        *_CHANGES,
        "OPTIMIZE {t}",
        "DELETE FROM {t} WHERE s IS NULL OR id = 9",
        "REORG TABLE {t} APPLY (PURGE)",
    ),
    "copy-on-write": (
        create("id BIGINT, s STRING", NO_VECTORS),
        *_CHANGES,
        "OPTIMIZE {t} ZORDER BY (id)",
        "INSERT OVERWRITE {t} SELECT id + 100, upper(s) FROM {t}",
        "TRUNCATE TABLE {t}",
        "INSERT INTO {t} (id) VALUES (7)",
    ),
    "delete-among-many": (
        create("id BIGINT, s STRING", VECTORS),
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, concat('s', id % 7) FROM range(3000)",
        "DELETE FROM {t} WHERE id % 3 = 0",
        "DELETE FROM {t} WHERE id BETWEEN 1000 AND 1999",
        "UPDATE {t} SET s = NULL WHERE id > 2900",
    ),
    "clustered": (
        create("id BIGINT, s STRING, b STRUCT<c: INT>", then="CLUSTER BY (id, b.c)"),
        "INSERT INTO {t} SELECT id, 'x', named_struct('c', CAST(id % 2 AS INT)) FROM range(20)",
        "OPTIMIZE {t}",
        "ALTER TABLE {t} CLUSTER BY (s)",
        "INSERT INTO {t} VALUES (50, 'y', NULL)",
        "OPTIMIZE {t} FULL",
        "ALTER TABLE {t} CLUSTER BY NONE",
        "DELETE FROM {t} WHERE b.c = 1",
    ),
    "restored": (
        create("id BIGINT, s STRING", VECTORS),
        *_CHANGES,
        "RESTORE TABLE {t} TO VERSION AS OF 2",
        "INSERT INTO {t} VALUES (10, 'after')",
        "RESTORE TABLE {t} TO VERSION AS OF 4",
        "REPLACE TABLE {t} (other DATE) USING delta",
        "INSERT INTO {t} VALUES (DATE'2024-02-29'), (NULL)",
        "RESTORE TABLE {t} TO VERSION AS OF 1",
    ),
    "cloned": (
        (
            "CREATE TABLE {source} (id BIGINT, s STRING, p STRING) USING delta PARTITIONED BY (p) "
            "TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
            "INSERT INTO {source} VALUES (1, 'a', 'p 1/ü'), (2, 'b', 'p 1/ü'), (3, 'c', NULL), (4, 'd', 'q%20')",
            "DELETE FROM {source} WHERE id = 2",
            "CREATE TABLE {t} SHALLOW CLONE {source}",
        ),
        "DELETE FROM {t} WHERE id = 1",
        "INSERT INTO {t} VALUES (20, 'own', 'p 1/ü')",
        "UPDATE {t} SET s = 'both' WHERE id IN (3, 20)",
        "DELETE FROM {source} WHERE id = 4",
        "OPTIMIZE {t}",
    ),
    "vacuumed": (
        create("id BIGINT, s STRING", VECTORS),
        *_CHANGES,
        "REORG TABLE {t} APPLY (PURGE)",
        "VACUUM {t} RETAIN 0 HOURS",
        "INSERT INTO {t} VALUES (30, 'later')",
    ),
    "change-data-feed": (
        create("id BIGINT, s STRING", FEED, NO_VECTORS),
        *_CHANGES,
        "OPTIMIZE {t}",
        "INSERT OVERWRITE {t} VALUES (5, 'over')",
        "ALTER TABLE {t} ADD COLUMNS (n INT)",
        "UPDATE {t} SET n = 3",
        "DELETE FROM {t}",
    ),
    "change-data-feed-of-vectors": (
        create("id BIGINT, s STRING", FEED, VECTORS),
        *_CHANGES,
        "DELETE FROM {t} WHERE id = 9",
        "OPTIMIZE {t}",
    ),
    "change-data-feed-of-partitions": (
        create("id BIGINT, p STRING, d DATE", FEED, BY_NAME, then="PARTITIONED BY (p, d)"),
        "INSERT INTO {t} VALUES (1, 'a b', DATE'2024-01-01'), (2, NULL, DATE'2024-01-02'), (3, 'c/d', NULL)",
        "UPDATE {t} SET p = 'moved' WHERE id < 3",
        "DELETE FROM {t} WHERE p = 'moved' AND d = DATE'2024-01-01'",
        "DELETE FROM {t} WHERE p = 'c/d'",
    ),
    "row-tracking": (
        create("id BIGINT, s STRING", TRACKING, VECTORS),
        *_CHANGES,
        "OPTIMIZE {t}",
        "UPDATE {t} SET s = 'again' WHERE id = 1",
        "INSERT INTO {t} VALUES (40, 'more')",
        "REORG TABLE {t} APPLY (PURGE)",
    ),
    "row-tracking-copy-on-write": (
        create("id BIGINT, s STRING", TRACKING, NO_VECTORS, BY_NAME),
        *_CHANGES,
        "DELETE FROM {t} WHERE id = 3",
        "OPTIMIZE {t}",
        "RESTORE TABLE {t} TO VERSION AS OF 2",
        "INSERT INTO {t} VALUES (40, 'more')",
    ),
    "classic-checkpoints": (
        create("id BIGINT, s STRING, p INT", EVERY_2, VECTORS, then="PARTITIONED BY (p)"),
        "INSERT INTO {t} VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, NULL)",
        "DELETE FROM {t} WHERE id = 2",
        "INSERT INTO {t} VALUES (4, 'd', 1), (5, 'e', 1)",
        "DELETE FROM {t} WHERE id = 4",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpoint.writeStatsAsStruct'='true', "
        "'delta.checkpoint.writeStatsAsJson'='false')",
        "UPDATE {t} SET s = 'struct' WHERE p = 1",
    ),
    "checkpoints-in-parts": (
        "SET spark.databricks.delta.checkpoint.partSize=2",
        create("id BIGINT, s STRING", EVERY_2, NO_VECTORS),
        "INSERT INTO {t} SELECT /*+ REPARTITION(5) */ id, concat('s', id) FROM range(10)",
        "DELETE FROM {t} WHERE id = 2",
        "UPDATE {t} SET s = 'u' WHERE id = 5",
        "INSERT INTO {t} VALUES (20, 'z')",
        "RESET spark.databricks.delta.checkpoint.partSize",
    ),
    "v2-checkpoints-json": (
        "SET spark.databricks.delta.checkpointV2.topLevelFileFormat=json",
        create("id BIGINT, s STRING", EVERY_2, V2, VECTORS),
        *_CHANGES,
        "INSERT INTO {t} VALUES (11, 'k')",
        "RESET spark.databricks.delta.checkpointV2.topLevelFileFormat",
    ),
    "v2-checkpoints-parquet": (
        "SET spark.databricks.delta.checkpointV2.topLevelFileFormat=parquet",
        create("id BIGINT, s STRING", EVERY_2, V2, VECTORS),
        "SET spark.databricks.delta.checkpoint.partSize=1",
        *_CHANGES,
        "INSERT INTO {t} VALUES (11, 'k')",
        "RESET spark.databricks.delta.checkpoint.partSize",
        "RESET spark.databricks.delta.checkpointV2.topLevelFileFormat",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointPolicy'='classic')",
        "INSERT INTO {t} VALUES (12, 'l')",
    ),
    "log-compaction": (
        create("id BIGINT, s STRING", VECTORS, "'delta.checkpointInterval'='100'"),
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, concat('s', id) FROM range(10)",
        "DELETE FROM {t} WHERE id % 4 = 1",
        "UPDATE {t} SET s = 'u' WHERE id > 7",
        compacted(1, 3),
        "DELETE FROM {t} WHERE id = 2",
        "OPTIMIZE {t}",
        "ALTER TABLE {t} ADD COLUMN n INT",
        "INSERT INTO {t} VALUES (20, 'z', 1)",
        compacted(4, 6),
        "DELETE FROM {t} WHERE id IN (3, 20)",
    ),
    "in-commit-timestamps": (
        create("id BIGINT, s STRING"),
        _FOUR,
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps'='true')",
        "INSERT INTO {t} VALUES (5, 'e')",
        "DELETE FROM {t} WHERE id = 1",
    ),
    "mapped-by-name": (
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
    "mapped-later": (
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
    "mapped-by-id": (
        create("id BIGINT, n STRUCT<a: INT, m: MAP<STRING, INT>>", BY_ID, VECTORS),
        "INSERT INTO {t} VALUES (1, named_struct('a', 1, 'm', map('k', 1))), (2, NULL)",
        "ALTER TABLE {t} RENAME COLUMN n.a TO z",
        "ALTER TABLE {t} ADD COLUMNS (n.a STRING FIRST)",
        "INSERT INTO {t} VALUES (3, named_struct('a', 's', 'z', 4, 'm', map()))",
        "DELETE FROM {t} WHERE id = 2",
        "ALTER TABLE {t} RENAME COLUMN id TO key",
        "UPDATE {t} SET n = NULL WHERE key = 1",
    ),
    "widened": (
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
    "widened-partition": (
        create("id BIGINT, p INT, q DATE", WIDENING, NTZ, then="PARTITIONED BY (p, q)"),
        "INSERT INTO {t} VALUES (1, 7, DATE'2024-01-01'), (2, NULL, NULL)",
        "ALTER TABLE {t} ALTER COLUMN p TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN q TYPE TIMESTAMP_NTZ",
        "INSERT INTO {t} VALUES (3, 5000000000, TIMESTAMP_NTZ'2024-01-01 12:34:56.789'), "
        "(4, 7, TIMESTAMP_NTZ'2024-01-01 00:00:00')",
        "DELETE FROM {t} WHERE id = 1",
    ),
    "partitions": (
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
    "types": (
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
    "defaults-and-constraints": (
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
    "variant": (
        create("id BIGINT, v VARIANT, n STRUCT<w: VARIANT>", VECTORS),
        'INSERT INTO {t} SELECT 1, parse_json(\'{{"a": [1, 2.5, null, "x"], "b": true}}\'), NULL',
        "INSERT INTO {t} SELECT 2, NULL, named_struct('w', parse_json('12345678901'))",
        "DELETE FROM {t} WHERE id = 1",
        "INSERT INTO {t} SELECT 3, parse_json('null'), named_struct('w', NULL)",
    ),
}

_VECTOR, _FEED = "deletion_vector_*.bin", Reading(feed=True)
_SIDECARS = "_delta_log/_sidecars/*.parquet"
_LINEAGE = Reading("id, s, _metadata.row_id AS _row_id, _metadata.row_commit_version AS _row_commit_version")
READINGS = {
    **dict.fromkeys(("deletion-vectors", "delete-among-many"), Reading(proof=(_VECTOR,))),
    **dict.fromkeys(("row-tracking", "row-tracking-copy-on-write"), _LINEAGE),
    **dict.fromkeys(("change-data-feed-of-vectors", "change-data-feed-of-partitions"), _FEED),
    "change-data-feed": Reading(feed=True, proof=("_change_data/*.parquet",)),
    "vacuumed": Reading(oldest=5),
    "classic-checkpoints": Reading(proof=("_delta_log/*.checkpoint.parquet",)),
    "checkpoints-in-parts": Reading(proof=("_delta_log/*.checkpoint.*.*.parquet",)),
    "v2-checkpoints-json": Reading(proof=("_delta_log/*.checkpoint.*-*.json", _SIDECARS)),
    "v2-checkpoints-parquet": Reading(proof=("_delta_log/*.checkpoint.*-*.parquet", _SIDECARS)),
    "log-compaction": Reading(proof=("_delta_log/*1.*3.compacted.json", "_delta_log/*4.*6.compacted.json")),
    "variant": Reading(texts=("v", "n.w")),
}
"""Histories of which more is looked at than their columns."""
