"""Apache Iceberg's own reader for Spark; its jar, pinned in `reference.json`, is fetched when Spark starts."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

_PINNED = json.loads(Path(__file__).with_name("reference.json").read_text(encoding="utf-8"))["iceberg"]


class Unsupported(Exception):
    """Iceberg's data source has no option for it."""


class Refused(Exception):
    """What Iceberg said, without the exceptions that carried it through Spark."""


def version() -> str:
    """Spark's version and the runtime's; starts Spark, so that a jar which cannot be fetched shows at once."""
    return f"{_session().version}, {_PINNED['packages'][0].rpartition(':')[2]}"


def read(table: SimpleNamespace, *, columns: tuple[str, ...] | None, where: str | None) -> Any:
    """The rows, from the metadata file."""
    if table.format != "iceberg":
        raise Unsupported("The reader of Apache Iceberg reads Iceberg tables only")
    reader = _session().read.format("iceberg")
    for name, value in _options(table.at).items():
        reader = reader.option(name, value)
    try:
        frame = _filtered(reader.load(table.metadata_path), where)
        if columns is not None:
            frame = frame.select(*[f"`{name.replace('`', '``')}`" for name in columns])
        return frame.toArrow()
    except Py4JJavaError as error:
        raise Refused(_root(error.java_exception)) from error


def _root(thrown: Any) -> str:
    """The exception of Java that began it."""
    while (cause := thrown.getCause()) is not None:
        thrown = cause
    return str(thrown.toString())


def _options(at: SimpleNamespace | None) -> dict[str, Any]:
    if at is None:
        return {}
    if at.kind == "timestamp_ms":
        return {"timestampAsOf": datetime.fromtimestamp(at.value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")}
    return {"versionAsOf": at.value}  # a snapshot's id, or the name of a branch or tag


def _filtered(frame: DataFrame, where: str | None) -> DataFrame:
    if where is None:
        return frame
    try:
        return frame.where(re.sub(r"\bstarts_with\(", "startswith(", where))  # DuckDB's name and Spark's
    except ParseException as error:
        raise Unsupported(f"Spark cannot parse {where}") from error


@cache
def _session() -> SparkSession:
    pinned = ".".join(_PINNED["pyspark"].split(".")[:2])
    if not pyspark.__version__.startswith(f"{pinned}."):
        raise ImportError(f"the jar is for pyspark {pinned}, and {pyspark.__version__} is installed")
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars.packages", ",".join(_PINNED["packages"]))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.caseSensitive", "true")
        .config("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    )
    for name, value in _PINNED["settings"].items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
