"""Histories that Delta Lake runs: what becomes of rows and of the log. Those of columns are in another module."""

from __future__ import annotations

from delta_history import BY_NAME, EVERY_2, FEED, NO_VECTORS, TRACKING, V2, VECTORS, History, compacted, create
from delta_schema_histories import SCHEMA_HISTORIES

_MERGE = (
    "MERGE INTO {t} USING (SELECT CAST(1 AS BIGINT) AS id, 'm' AS s UNION ALL SELECT 9, 'new') u ON {t}.id = u.id "
    "WHEN MATCHED THEN UPDATE SET s = u.s WHEN NOT MATCHED THEN INSERT *"
)
_FOUR = "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'd')"
_CHANGES = (_FOUR, "DELETE FROM {t} WHERE id = 2", "UPDATE {t} SET s = 'changed' WHERE id >= 3", _MERGE)

_WRITING = (
    History(
        "deletion-vectors",
        (
            create("id BIGINT, s STRING", VECTORS),
            *_CHANGES,
            "OPTIMIZE {t}",
            "DELETE FROM {t} WHERE s IS NULL OR id = 9",
            "REORG TABLE {t} APPLY (PURGE)",
        ),
        proof=("deletion_vector_*.bin",),
    ),
    History(
        "copy-on-write",
        (
            create("id BIGINT, s STRING", NO_VECTORS),
            *_CHANGES,
            "OPTIMIZE {t} ZORDER BY (id)",
            "INSERT OVERWRITE {t} SELECT id + 100, upper(s) FROM {t}",
            "TRUNCATE TABLE {t}",
            "INSERT INTO {t} (id) VALUES (7)",
        ),
    ),
    History(
        "delete-among-many",
        (
            create("id BIGINT, s STRING", VECTORS),
            "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, concat('s', id % 7) FROM range(3000)",
            "DELETE FROM {t} WHERE id % 3 = 0",
            "DELETE FROM {t} WHERE id BETWEEN 1000 AND 1999",
            "UPDATE {t} SET s = NULL WHERE id > 2900",
        ),
        proof=("deletion_vector_*.bin",),
    ),
    History(
        "clustered",
        (
            create("id BIGINT, s STRING, b STRUCT<c: INT>", then="CLUSTER BY (id, b.c)"),
            "INSERT INTO {t} SELECT id, 'x', named_struct('c', CAST(id % 2 AS INT)) FROM range(20)",
            "OPTIMIZE {t}",
            "ALTER TABLE {t} CLUSTER BY (s)",
            "INSERT INTO {t} VALUES (50, 'y', NULL)",
            "OPTIMIZE {t} FULL",
            "ALTER TABLE {t} CLUSTER BY NONE",
            "DELETE FROM {t} WHERE b.c = 1",
        ),
    ),
    History(
        "restored",
        (
            create("id BIGINT, s STRING", VECTORS),
            *_CHANGES,
            "RESTORE TABLE {t} TO VERSION AS OF 2",
            "INSERT INTO {t} VALUES (10, 'after')",
            "RESTORE TABLE {t} TO VERSION AS OF 4",
            "REPLACE TABLE {t} (other DATE) USING delta",
            "INSERT INTO {t} VALUES (DATE'2024-02-29'), (NULL)",
            "RESTORE TABLE {t} TO VERSION AS OF 1",
        ),
    ),
    History(
        "cloned",
        (
            "CREATE TABLE {t} SHALLOW CLONE {source}",
            "DELETE FROM {t} WHERE id = 1",
            "INSERT INTO {t} VALUES (20, 'own', 'p 1/ü')",
            "UPDATE {t} SET s = 'both' WHERE id IN (3, 20)",
            "DELETE FROM {source} WHERE id = 4",
            "OPTIMIZE {t}",
        ),
        before=(
            "CREATE TABLE {source} (id BIGINT, s STRING, p STRING) USING delta PARTITIONED BY (p) "
            "TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
            "INSERT INTO {source} VALUES (1, 'a', 'p 1/ü'), (2, 'b', 'p 1/ü'), (3, 'c', NULL), (4, 'd', 'q%20')",
            "DELETE FROM {source} WHERE id = 2",
        ),
    ),
    History(
        "vacuumed",
        (
            create("id BIGINT, s STRING", VECTORS),
            *_CHANGES,
            "REORG TABLE {t} APPLY (PURGE)",
            "VACUUM {t} RETAIN 0 HOURS",
            "INSERT INTO {t} VALUES (30, 'later')",
        ),
        oldest=5,
    ),
    History(
        "change-data-feed",
        (
            create("id BIGINT, s STRING", FEED, NO_VECTORS),
            *_CHANGES,
            "OPTIMIZE {t}",
            "INSERT OVERWRITE {t} VALUES (5, 'over')",
            "ALTER TABLE {t} ADD COLUMNS (n INT)",
            "UPDATE {t} SET n = 3",
            "DELETE FROM {t}",
        ),
        feed=0,
        proof=("_change_data/*.parquet",),
    ),
    History(
        "change-data-feed-of-vectors",
        (create("id BIGINT, s STRING", FEED, VECTORS), *_CHANGES, "DELETE FROM {t} WHERE id = 9", "OPTIMIZE {t}"),
        feed=0,
    ),
    History(
        "change-data-feed-of-partitions",
        (
            create("id BIGINT, p STRING, d DATE", FEED, BY_NAME, then="PARTITIONED BY (p, d)"),
            "INSERT INTO {t} VALUES (1, 'a b', DATE'2024-01-01'), (2, NULL, DATE'2024-01-02'), (3, 'c/d', NULL)",
            "UPDATE {t} SET p = 'moved' WHERE id < 3",
            "DELETE FROM {t} WHERE p = 'moved' AND d = DATE'2024-01-01'",
            "DELETE FROM {t} WHERE p = 'c/d'",
        ),
        feed=0,
    ),
    History(
        "row-tracking",
        (
            create("id BIGINT, s STRING", TRACKING, VECTORS),
            *_CHANGES,
            "OPTIMIZE {t}",
            "UPDATE {t} SET s = 'again' WHERE id = 1",
            "INSERT INTO {t} VALUES (40, 'more')",
            "REORG TABLE {t} APPLY (PURGE)",
        ),
        columns=("id", "s", "_row_id", "_row_commit_version"),
        select="id, s, _metadata.row_id AS _row_id, _metadata.row_commit_version AS _row_commit_version",
    ),
    History(
        "row-tracking-copy-on-write",
        (
            create("id BIGINT, s STRING", TRACKING, NO_VECTORS, BY_NAME),
            *_CHANGES,
            "DELETE FROM {t} WHERE id = 3",
            "OPTIMIZE {t}",
            "RESTORE TABLE {t} TO VERSION AS OF 2",
            "INSERT INTO {t} VALUES (40, 'more')",
        ),
        columns=("id", "s", "_row_id", "_row_commit_version"),
        select="id, s, _metadata.row_id AS _row_id, _metadata.row_commit_version AS _row_commit_version",
    ),
)

_LOG = (
    History(
        "classic-checkpoints",
        (
            create("id BIGINT, s STRING, p INT", EVERY_2, VECTORS, then="PARTITIONED BY (p)"),
            "INSERT INTO {t} VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, NULL)",
            "DELETE FROM {t} WHERE id = 2",
            "INSERT INTO {t} VALUES (4, 'd', 1), (5, 'e', 1)",
            "DELETE FROM {t} WHERE id = 4",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpoint.writeStatsAsStruct'='true', "
            "'delta.checkpoint.writeStatsAsJson'='false')",
            "UPDATE {t} SET s = 'struct' WHERE p = 1",
        ),
        proof=("_delta_log/*.checkpoint.parquet",),
    ),
    History(
        "checkpoints-in-parts",
        (
            "SET spark.databricks.delta.checkpoint.partSize=2",
            create("id BIGINT, s STRING", EVERY_2, NO_VECTORS),
            "INSERT INTO {t} SELECT /*+ REPARTITION(5) */ id, concat('s', id) FROM range(10)",
            "DELETE FROM {t} WHERE id = 2",
            "UPDATE {t} SET s = 'u' WHERE id = 5",
            "INSERT INTO {t} VALUES (20, 'z')",
            "RESET spark.databricks.delta.checkpoint.partSize",
        ),
        proof=("_delta_log/*.checkpoint.*.*.parquet",),
    ),
    History(
        "v2-checkpoints-json",
        (
            "SET spark.databricks.delta.checkpointV2.topLevelFileFormat=json",
            create("id BIGINT, s STRING", EVERY_2, V2, VECTORS),
            *_CHANGES,
            "INSERT INTO {t} VALUES (11, 'k')",
            "RESET spark.databricks.delta.checkpointV2.topLevelFileFormat",
        ),
        proof=("_delta_log/*.checkpoint.*-*.json", "_delta_log/_sidecars/*.parquet"),
    ),
    History(
        "v2-checkpoints-parquet",
        (
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
        proof=("_delta_log/*.checkpoint.*-*.parquet", "_delta_log/_sidecars/*.parquet"),
    ),
    History(
        "log-compaction",
        (
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
        proof=("_delta_log/*1.*3.compacted.json", "_delta_log/*4.*6.compacted.json"),
    ),
    History(
        "in-commit-timestamps",
        (
            create("id BIGINT, s STRING"),
            _FOUR,
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps'='true')",
            "INSERT INTO {t} VALUES (5, 'e')",
            "DELETE FROM {t} WHERE id = 1",
        ),
    ),
)

HISTORIES = _WRITING + _LOG + SCHEMA_HISTORIES
