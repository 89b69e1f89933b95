"""A format's own jar on Spark, at the versions that the conformance suite pins."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from spark_sessions import answer, started

_PINNED = Path(__file__).parents[3] / "harness/testing/conformance/reference.json"


def versions(format: str) -> str:
    pinned = json.loads(_PINNED.read_text("utf-8"))[format]
    return f"pyspark {pinned['pyspark']}, {pinned['packages'][0].rpartition(':')[2]}"


def session(format: str) -> SparkSession:
    pinned = json.loads(_PINNED.read_text("utf-8"))[format]
    return started({"spark.jars.packages": ",".join(pinned["packages"]), **pinned["settings"]})


def query(spark: SparkSession, format: str, location: str, select: Sequence[str]) -> Callable[[], list[int]]:
    return lambda: answer(spark.read.format(format).load(location), select)
