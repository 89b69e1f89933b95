"""The reference implementations' own readers for Spark: the script's argument is `iceberg` or `delta`.

Their jars, pinned in `reference.json`, are fetched when Spark starts.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

_PINNED = json.loads(Path(__file__).with_name("reference.json").read_text(encoding="utf-8"))

_LINEAGE = {"_row_id": "_metadata.row_id", "_row_commit_version": "_metadata.row_commit_version"}
"""Columns of row tracking, and where Delta Lake has them."""

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",  # a log of some lines takes 50 tasks otherwise
}
_READING = {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.doubleQuotedIdentifiers": "true"}
_READING_OF = {"iceberg": {**_READING, "spark.sql.caseSensitive": "true"}, "delta": _READING}
"""What reads need of a session, by format."""


class Unsupported(Exception):
    """The data source has no option for it."""


class Refused(Exception):
    """What the data source said, without the exceptions that carried it through Spark."""


@dataclass(frozen=True)
class Reader:
    """The data source of one format. start: gives the session that has it."""

    format: str
    start: Callable[[], SparkSession]

    def version(self) -> str:
        """Spark's version and the runtime's; starts Spark, so that jars which cannot be fetched shows at once."""
        return f"{self.start().version}, {_PINNED[self.format]['packages'][0].rpartition(':')[2]}"

    def read(self, table: SimpleNamespace, *, columns: tuple[str, ...] | None, where: str | None) -> Any:
        """The rows, of Iceberg from the metadata file, of Delta from the table's folder."""
        if table.format != self.format:
            raise Unsupported(f"This reads {self.format} tables only")
        reader = self.start().read.format(self.format)
        for name, value in _options(self.format, table.at).items():
            reader = reader.option(name, value)
        try:
            frame = reader.load(table.metadata_path if self.format == "iceberg" else table.location)
            if self.format == "delta":
                frame = _with_lineage(frame, {*(columns or ()), *re.findall(r"\w+", where or "")})
            frame = _filtered(frame, where)
            if columns is not None:
                frame = frame.select(*[f"`{name.replace('`', '``')}`" for name in columns])
            return frame.toArrow()
        except Py4JJavaError as error:
            raise Refused(_root(error.java_exception)) from error


def _options(format: str, at: SimpleNamespace | None) -> dict[str, Any]:
    if at is None:
        return {}
    if at.kind == "timestamp_ms":
        return {"timestampAsOf": datetime.fromtimestamp(at.value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")}
    if format == "iceberg" or at.kind == "version":
        return {"versionAsOf": at.value}  # of Iceberg a snapshot's id, or the name of a branch or tag
    raise Unsupported(f"Delta tables are not read by {at.kind}")


def _with_lineage(frame: DataFrame, names: set[str]) -> DataFrame:
    """With the columns of row tracking that are asked for."""
    for name in sorted(names & _LINEAGE.keys() - set(frame.columns)):
        frame = frame.withColumn(name, frame[_LINEAGE[name]])
    return frame


def _filtered(frame: DataFrame, where: str | None) -> DataFrame:
    if where is None:
        return frame
    try:
        return frame.where(re.sub(r"\bstarts_with\(", "startswith(", where))  # DuckDB's name and Spark's
    except ParseException as error:
        raise Unsupported(f"Spark cannot parse {where}") from error


def _root(thrown: Any) -> str:
    """The exception of Java that began it."""
    while (cause := thrown.getCause()) is not None:
        thrown = cause
    return str(thrown.toString())


@cache
def session(format: str) -> SparkSession:
    """A session with the format's jars.

    Raises:
        ImportError: this is not the pyspark that the jars are for.
    """
    pinned = ".".join(_PINNED[format]["pyspark"].split(".")[:2])
    if not pyspark.__version__.startswith(f"{pinned}."):
        raise ImportError(f"the jars are for pyspark {pinned}, and {pyspark.__version__} is installed")
    builder = SparkSession.builder.master("local[2]").config(
        "spark.jars.packages", ",".join(_PINNED[format]["packages"])
    )
    for name, value in {**_SETTINGS, **_READING_OF[format], **_PINNED[format]["settings"]}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def beside(spark: SparkSession, format: str) -> SparkSession:
    """A session like the one given, with the settings that reads need."""
    own = spark.newSession()
    for name, value in _READING_OF[format].items():
        own.conf.set(name, value)
    return own


if __name__ == "harness_worker":
    _reader = Reader(sys.argv[1], lambda: session(sys.argv[1]))
    version, read = _reader.version, _reader.read
