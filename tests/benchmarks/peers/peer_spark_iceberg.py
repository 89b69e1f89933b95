"""Iceberg tables by the format's own jar on Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import spark_reference
from pyspark.sql import SparkSession
from spark_sessions import jvm


def versions() -> str:
    return spark_reference.versions("iceberg")


def query(location: str, select: Sequence[str]) -> Callable[[], list[int]]:
    return spark_reference.query(_session(), "iceberg", location, select)


def other_processes() -> list[int]:
    return [jvm(_session())]


@cache
def _session() -> SparkSession:
    return spark_reference.session("iceberg")
