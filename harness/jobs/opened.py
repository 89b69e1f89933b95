"""What a job reads: each table gets a number, by which the JVM asks for its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.types import StructType

from harness.engines.spark.types import shown
from harness.errors import RequestError, UnsupportedError
from harness.jobs.points import names_point, read_point
from harness.jobs.pushed import condition
from harness.snapshot import Snapshot
from harness.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Asked:
    """What a query wants of a table.

    columns: names, in the order wanted.
    filters: as the JVM describes them; Spark applies them again.
    options: of the read, where they were not followed yet.
    """

    columns: Sequence[str]
    filters: Sequence[Mapping[str, Any]]
    options: Mapping[str, str]


class Opened(Protocol):
    """A table that can be read."""

    @property
    def name(self) -> str:
        """As the job says it."""

    @property
    def key(self) -> str | None:
        """The same for the same rows, so that Spark finds what it cached; None: rows that are new each time."""

    @property
    def partitioned_by(self) -> tuple[str, ...]:
        """In Spark's words."""

    @property
    def schema(self) -> StructType:
        """Its columns."""

    def frame(self, spark: SparkSession, asked: Asked) -> DataFrame:
        """Its rows, all that the filters keep and perhaps others, with these columns in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRows:
    """A lake table at a point of its history."""

    name: str
    table: Table
    snapshot: Snapshot
    zone: str
    partitioned_by: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """A snapshot's rows never change."""
        return f"{self.table.location}@{self.snapshot.id}/{[field.id for field in self.snapshot.schema.fields]}"

    @property
    def schema(self) -> StructType:
        """The snapshot's columns, as Spark is given them."""
        return StructType([shown(field) for field in self.snapshot.schema.fields])

    def frame(self, spark: SparkSession, asked: Asked) -> DataFrame:
        """The planned rows: filters skip files, where harness knows what they mean."""
        snapshot = self._at(asked.options)
        where = condition(asked.filters, snapshot.schema)
        if where is not None:
            try:
                return snapshot.to_spark(spark, columns=asked.columns, where=where)
            except (RequestError, UnsupportedError):  # Spark applies it anyway
                pass
        return snapshot.to_spark(spark, columns=asked.columns)

    def _at(self, options: Mapping[str, str]) -> Snapshot:
        """`spark.read.option("snapshot-id", …).table(…)`: the point comes after the schema."""
        if not names_point(options):
            return self.snapshot
        point = read_point(self.table, options, self.zone)
        assert isinstance(point, Snapshot)
        if point.schema.fields != self.snapshot.schema.fields:
            raise RequestError(
                f"Cannot read {self.name} at another point: its schema was another; use VERSION AS OF, or load its path"
            )
        return point


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRows:
    """Rows of a frame: a metadata table, changes, or what the job itself wrote."""

    name: str
    schema: StructType
    make: Callable[[SparkSession], DataFrame]
    partitioned_by: tuple[str, ...] = ()
    key: None = None

    def frame(self, spark: SparkSession, asked: Asked) -> DataFrame:
        """The rows as they were made; columns are left out on top."""
        if names_point(asked.options):
            raise RequestError(f"Cannot read {self.name} at another point: it has no history")
        return self.make(spark).select(*[f"`{column.replace('`', '``')}`" for column in asked.columns])
