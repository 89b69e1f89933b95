"""The histories: what becomes of rows, and what maintenance does; and those of `iceberg_schema_histories`."""

from __future__ import annotations

from iceberg_equality import equality_delete
from iceberg_history import ON_READ, History, create
from iceberg_schema_histories import SCHEMA_HISTORIES

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
_LINEAGE = ("_row_id", "_last_updated_sequence_number")

HISTORIES = (
    History("merge-on-read-v2", (create("id bigint, s string", 2, ON_READ), *_CHANGES)),
    History("copy-on-write-v2", (create("id bigint, s string", 2, ON_WRITE), *_CHANGES)),
    History(
        "merge-on-read-v3",
        (
            create("id bigint, s string", 3, ON_READ),
            *_CHANGES,
            "CALL ice.system.rewrite_data_files(table => '{ref}', options => map('rewrite-all', 'true'))",
            "UPDATE {t} SET s = concat(s, '!') WHERE id = 2",
        ),
        columns=_LINEAGE,
    ),
    History("copy-on-write-v3", (create("id bigint, s string", 3, ON_WRITE), *_CHANGES), columns=_LINEAGE),
    History(
        "partitioned-deletes",
        (
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
    ),
    History(
        "overwriting",
        (
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
    ),
    History(
        "compaction",
        (
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
    ),
    History(
        "compaction-v3",
        (
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
        columns=_LINEAGE,
    ),
    History(
        "rollback",
        (
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
    ),
    History(
        "branches-and-tags",
        (
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
    ),
    History(
        "upgrades",
        (
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
    ),
    History(
        "upgrade-lineage",
        (
            create("id bigint, s string", 2, ON_READ),
            "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c')",
            "DELETE FROM {t} WHERE id = 2",
            ("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')", "INSERT INTO {t} VALUES (4, 'd')"),
            "UPDATE {t} SET s = 'changed' WHERE id IN (1, 4)",
            "CALL ice.system.rewrite_data_files(table => '{ref}', options => map('rewrite-all', 'true'))",
            "DELETE FROM {t} WHERE id = 3",
        ),
    ),
    History(
        "other-places",
        (
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
    ),
    History(
        "many-small-files",
        (
            create("id bigint, s string", 2, ON_READ, "'write.distribution-mode'='none'"),
            "INSERT INTO {t} SELECT /*+ REPARTITION(30) */ id, CAST(id AS string) FROM range(90)",
            "DELETE FROM {t} WHERE id % 4 = 0",
            *(f"INSERT INTO {{t}} VALUES ({number}, 'more')" for number in range(100, 104)),
            "ALTER TABLE {t} SET TBLPROPERTIES ('commit.manifest.min-count-to-merge'='2')",
            "INSERT INTO {t} SELECT /*+ REPARTITION(10) */ id, 'late' FROM range(200, 230)",
            "DELETE FROM {t} WHERE id % 4 = 1",
            "UPDATE {t} SET s = 'u' WHERE id % 4 = 2",
        ),
    ),
    History(
        "empty-tables",
        (
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
    ),
    *(
        History(f"equality-deletes-v{version}", (create("id bigint, s string", version, ON_READ), *_KEYS))
        for version in (2, 3)
    ),
    History(
        "equality-deletes-of-partitions",
        (
            *KEYS_OF_PARTITIONS,
            equality_delete("id", where="d", equals=5.0, whole=True),
            "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)",
            "INSERT INTO {t} VALUES (1, 'x', 7), (2, 'x', 8), (3, 'x', 9), (4, 'x', 10)",
            equality_delete("p", "id", where="d", equals=8.0),
            equality_delete("p", where="p", equals=None, whole=True),
            "UPDATE {t} SET d = -d WHERE p = 'x'",
        ),
    ),
    *SCHEMA_HISTORIES,
)
