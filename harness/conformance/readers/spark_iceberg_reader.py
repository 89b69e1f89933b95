"""Apache Iceberg's own reader for Spark; its jar, pinned in `reference.json`, is fetched when Spark starts."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

_PINNED = json.loads(Path(__file__).with_name("reference.json").read_text(encoding="utf-8"))["iceberg"]


class Unsupported(Exception):
    """Iceberg's data source has no option for it."""


def version() -> str:
    """Spark's version and the runtime's; starts Spark, so that a jar which cannot be fetched shows at once."""
    return f"{_session().version}, {_PINNED['packages'][0].rpartition(':')[2]}"


def read(table: SimpleNamespace, *, columns: tuple[str, ...] | None, where: str | None) -> Any:
    """The rows, from the metadata file."""
    if table.format != "iceberg":
        raise Unsupported("The reader of Apache Iceberg reads Iceberg tables only")
    reader = _session().read.format("iceberg")
    for name, value in _options(table).items():
        reader = reader.option(name, value)
    frame = _filtered(reader.load(table.metadata_path), where)
    return (frame if columns is None else frame.select(*[f"`{name.replace('`', '``')}`" for name in columns])).toArrow()


def _options(table: SimpleNamespace) -> dict[str, Any]:
    if table.at is None:
        return {}
    if table.at.kind == "snapshot_id":
        return {"snapshot-id": table.at.value}
    if table.at.kind == "timestamp_ms":
        return {"as-of-timestamp": table.at.value}
    metadata = json.loads(Path(table.metadata_path).read_text(encoding="utf-8"))
    return {metadata["refs"][table.at.value]["type"]: table.at.value}


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
        .config("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    )
    for name, value in _PINNED["settings"].items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
