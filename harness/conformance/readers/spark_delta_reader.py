"""Delta Lake's own reader for Spark; its jars, pinned in `reference.json`, are fetched when Spark starts."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

_PINNED = json.loads(Path(__file__).with_name("reference.json").read_text(encoding="utf-8"))["delta"]

_LINEAGE = {"_row_id": "_metadata.row_id", "_row_commit_version": "_metadata.row_commit_version"}


class Unsupported(Exception):
    """Delta's data source has no option for it."""


def version() -> str:
    """Spark's version and the runtime's; starts Spark, so that jars which cannot be fetched shows at once."""
    return f"{_session().version}, {_PINNED['packages'][0].rpartition(':')[2]}"


def read(table: SimpleNamespace, *, columns: tuple[str, ...] | None, where: str | None) -> Any:
    """The rows, from the table's folder."""
    if table.format != "delta":
        raise Unsupported("The reader of Delta Lake reads Delta tables only")
    reader = _session().read.format("delta")
    for name, value in _options(table.at).items():
        reader = reader.option(name, value)
    frame = _filtered(_with_lineage(reader.load(table.location), {*(columns or ()), *_words(where)}), where)
    return (frame if columns is None else frame.select(*[f"`{name.replace('`', '``')}`" for name in columns])).toArrow()


def _with_lineage(frame: DataFrame, names: set[str]) -> DataFrame:
    """With the columns of row tracking that are asked for, which Delta Lake has under `_metadata`."""
    for name in sorted(names & _LINEAGE.keys() - set(frame.columns)):
        frame = frame.withColumn(name, frame[_LINEAGE[name]])
    return frame


def _words(where: str | None) -> list[str]:
    return re.findall(r"\w+", where or "")


def _options(at: SimpleNamespace | None) -> dict[str, Any]:
    if at is None:
        return {}
    if at.kind == "version":
        return {"versionAsOf": at.value}
    if at.kind == "timestamp_ms":
        return {"timestampAsOf": datetime.fromtimestamp(at.value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")}
    raise Unsupported(f"Delta tables are not read by {at.kind}")


def _filtered(frame: DataFrame, where: str | None) -> DataFrame:
    if where is None:
        return frame
    try:
        return frame.where(where)
    except ParseException as error:
        raise Unsupported(f"Spark cannot parse {where}") from error


@cache
def _session() -> SparkSession:
    pinned = ".".join(_PINNED["pyspark"].split(".")[:2])
    if not pyspark.__version__.startswith(f"{pinned}."):
        raise ImportError(f"the jars are for pyspark {pinned}, and {pyspark.__version__} is installed")
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
        .config("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    )
    for name, value in _PINNED["settings"].items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
