"""Spark in harness's interpreter: its plain reads of the files, and harness's plans on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import pyspark
from pyspark.sql import DataFrame, SparkSession
from spark_sessions import answer, jvm, started


def versions() -> str:
    return f"pyspark {pyspark.__version__}"


def plain(files: Sequence[str], select: Sequence[str]) -> Callable[[], list[int]]:
    session = _session()
    return lambda: answer(session.read.parquet(*files), select)


def query(location: str, select: Sequence[str]) -> Callable[[], list[int]]:
    """The table is opened and planned each time."""
    import harness

    def rows() -> DataFrame:
        return harness.open_table(location).snapshot().to_spark(_session())

    _session()
    return lambda: answer(rows(), select)


def other_processes() -> list[int]:
    return [jvm(_session())]


@cache
def _session() -> SparkSession:
    return started()
