"""Sessions of Spark that differ in nothing but the reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}


def started(settings: Mapping[str, str] | None = None) -> SparkSession:
    builder = SparkSession.builder.master("local[*]")
    for name, value in {**_SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.range(10).count()
    return session


def answer(rows: DataFrame, select: Sequence[str]) -> list[int]:
    return [int(value) for value in rows.selectExpr(*select).collect()[0]]


def jvm(session: SparkSession) -> int:
    return int(session._jvm.java.lang.ProcessHandle.current().pid())
