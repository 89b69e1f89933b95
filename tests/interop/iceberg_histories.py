"""Histories written by Apache Iceberg: from `iceberg_histories.txt`, generated ones, and variants of them."""

from collections.abc import Callable, Sequence
from typing import Any

from iceberg_equality import equality_delete
from written_tables import Step, WrittenReading, histories, loaded

ON_READ = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"
"""Properties of a table whose deletes are files."""


def create(columns: str, version: int, *properties: str, partitioned: str = "") -> str:
    """Return CREATE TABLE with a format version and properties."""
    by = f"PARTITIONED BY ({partitioned}) " if partitioned else ""
    named = ", ".join((f"'format-version'='{version}'", *properties))
    return f"CREATE TABLE {{t}} ({columns}) USING iceberg {by}TBLPROPERTIES ({named})"


def _java(change: Callable[[Any, Any], None]) -> Callable[[Any, str], None]:
    """Return a step that calls Iceberg's Java interface. `change` gets the table and the virtual machine."""

    def step(spark: Any, table: str) -> None:
        change(loaded(spark, table), spark._jvm)

    return step


@_java
def add_defaults(table: Any, jvm: Any) -> None:
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
def change_defaults(table: Any, jvm: Any) -> None:
    lit = jvm.org.apache.iceberg.expressions.Expressions.lit
    table.updateSchema().updateColumnDefault("n", lit(8)).renameColumn("must", "shall").commit()


_TRANSFORMS = (
    "s",
    "bucket(4, id)",
    "truncate(1, s)",
    "years(at)",
    "months(day)",
    "days(at)",
    "hours(at)",
    "bucket(3, n)",
    "truncate(10, id)",
    "bucket(2, day)",
    "truncate(100, n)",
    "day",
)


def _evolution(version: int, transforms: Sequence[str], *properties: str) -> tuple[Step, ...]:
    """Return steps that partition by each transform for a while, and then by two transforms of a time in turn."""
    return (
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


_CALLS = {"equality_delete": equality_delete, "add_defaults": add_defaults, "change_defaults": change_defaults}
_TOLD = histories("iceberg_histories.txt", {"on_read": ON_READ}, _CALLS)


def _as(name: str, format: str, version: int) -> tuple[Step, ...]:
    """Return a history of Avro files in version 2, with another file format or format version."""
    first, *others = _TOLD[name]
    return (
        str(first).replace("'avro'", f"'{format}'").replace("'format-version'='2'", f"'format-version'='{version}'"),
        *others,
    )


HISTORIES: dict[str, tuple[Step, ...]] = {
    **_TOLD,
    "equality-deletes-v3": _as("equality-deletes-v2", "avro", 3),
    **{f"{name}-files-v{v}": _as("avro-files-v2", name, v) for name in ("avro", "orc") for v in (2, 3)},
    "partition-evolution-v1": _evolution(1, _TRANSFORMS),
    "partition-evolution-v2": _evolution(2, _TRANSFORMS, ON_READ),
    "partition-evolution-v3": _evolution(3, _TRANSFORMS[::3], ON_READ),
}

_LINEAGE = WrittenReading(select="*, _row_id, _last_updated_sequence_number")
READINGS = {
    **dict.fromkeys(("merge-on-read-v3", "copy-on-write-v3", "compaction-v3"), _LINEAGE),
    "variants": WrittenReading(texts=("v", "st.w", "later")),
}
"""Histories for which more than the columns is compared."""
