"""Spark at the version of a format's own jar: plain reads of the files, harness' plans, and the jar.

All three use the same session, so that only the reader differs.
"""

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

_PINNED = json.loads((Path(__file__).parents[3] / "harness/suite/jars.json").read_text("utf-8"))
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}


class SparkReference:
    """The tasks of a format, `iceberg` or `delta`, with the versions that the suite pins."""

    def __init__(self, format: str) -> None:
        self._format = format
        self._pinned = _PINNED[format]

    def versions(self) -> str:
        return f"pyspark {self._pinned['pyspark']}, {self._pinned['packages'][0].rpartition(':')[2]}"

    def plain(self, files: Sequence[str], select: Sequence[str]) -> Callable[[], list[int]]:
        return lambda: _answer(self._session.read.parquet(*files), select)

    def harness(self, location: str, select: Sequence[str]) -> Callable[[], list[int]]:
        """Open and plan the table each time."""
        import harness

        return lambda: _answer(harness.open_table(location).snapshot().to_spark(self._session), select)

    def jar(self, location: str, select: Sequence[str]) -> Callable[[], list[int]]:
        return lambda: _answer(self._session.read.format(self._format).load(location), select)

    def both_ends(self, location: str, start: int, select: Sequence[str]) -> Callable[[], None]:
        """Read the rows of both ends of a range of changes by the jar."""

        def read() -> None:
            for options in ({"versionAsOf": start}, {}):
                self._session.read.format(self._format).options(**options).load(location).selectExpr(*select).collect()

        return read

    def changes(self, location: str, start: int) -> Callable[[], list[int]]:
        """Read the changes of a range by harness."""
        import harness

        return lambda: _counts(harness.open_table(location).changes(start).to_spark(self._session), "insert", "delete")

    def changelog_view(self, location: str, start: int) -> Callable[[], list[int]]:
        """Read the changes of a range by Iceberg's view, for which a catalog must have the table."""
        place = Path(location)
        catalog = {"type": "hadoop", "warehouse": str(place.parent.parent), "cache-enabled": "false"}
        self._session.conf.set("spark.sql.catalog.made", "org.apache.iceberg.spark.SparkCatalog")
        for name, value in catalog.items():
            self._session.conf.set(f"spark.sql.catalog.made.{name}", value)
        table = f"`{place.parent.name}`.`{place.name}`"

        def read() -> list[int]:
            self._session.sql(
                f"CALL made.system.create_changelog_view(table => '{table}', changelog_view => 'changes', "
                f"options => map('start-snapshot-id', '{start}'))"
            )
            return _counts(self._session.table("changes"), "INSERT", "DELETE")

        return read

    def other_processes(self) -> list[int]:
        """Return the JVM. It has started and run a query when this is called, before the first turn."""
        return [int(self._session._jvm.java.lang.ProcessHandle.current().pid())]

    @cached_property
    def _session(self) -> SparkSession:
        builder = SparkSession.builder.master("local[*]")
        packages = {"spark.jars.packages": ",".join(self._pinned["packages"])}
        for name, value in {**_SETTINGS, **packages, **self._pinned["settings"]}.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.range(10).count()
        return session


def _counts(changes: DataFrame, insert: str, delete: str) -> list[int]:
    """Return the answer for changes, and read the other columns."""
    counts = (f"count(*) FILTER (WHERE _change_type = '{kind}')" for kind in (insert, delete))
    return _answer(changes, [*counts, "sum(id)", "max(k)", "max(v)", "max(s)", "max(d)"])[:3]


def _answer(rows: DataFrame, select: Sequence[str]) -> list[int]:
    return [int(value) for value in rows.selectExpr(*select).collect()[0]]
