"""The formats behind `open_table`: which one a location holds, which options each knows, and what each gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from harness.delta import table as delta
from harness.delta.change_range import ChangeRequest
from harness.errors import AmbiguousTableError, RequestError, UnsupportedError
from harness.iceberg import table as iceberg
from harness.model.schema import Schema
from harness.plan.scan_plan import ScanPlan
from harness.storage.stores import Storage, join

_FORMATS = ("iceberg", "delta")
_PRUNE = ("off", "files", "all")


class Point(Protocol):
    """A snapshot of an Iceberg table, or a version of a Delta table."""

    @property
    def id(self) -> int:
        """The snapshot's id, or the version."""

    @property
    def timestamp_ms(self) -> int | None:
        """When it was committed, milliseconds since 1970-01-01 UTC; None: nothing tells."""


class Selection(Protocol):
    """A point of a table's history with the schema that its rows are shown in."""

    @property
    def snapshot(self) -> Point | None:
        """None: the table has no snapshot, and so no rows."""

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""


class OpenedTable(Protocol):
    """A table of any format, at the metadata that it had when it was opened."""

    @property
    def location(self) -> str:
        """As the user gave it."""

    @property
    def format(self) -> str:
        """`iceberg` or `delta`."""

    @property
    def schema(self) -> Schema:
        """The current schema."""

    @property
    def current(self) -> Point | None:
        """The current snapshot, or the latest version; None: the table has none."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about the table but harmless to a reader, one sentence each."""

    def select(self, point: int | None, timestamp: int | str | datetime | None, ref: str | None) -> Selection:
        """The asked point of the history; the current one without a selector."""

    def newest(self) -> int | None:
        """The id of the newest snapshot, or version, that storage has now; None: there is none."""

    def plan(self, selection: Any, columns: tuple[str, ...] | None, where: str | None) -> ScanPlan:
        """The plan of a read of what `select` gave."""

    def snapshots(self) -> list[dict[str, Any]]:
        """The points of the history, as plain values."""

    def refs(self) -> dict[str, dict[str, Any]]:
        """Branches and tags by name, as plain values."""

    def describe(self) -> dict[str, Any]:
        """All that the metadata says, as plain values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to open a table; see `harness.table.open_table`."""

    path_map: Mapping[str, str] | None = None
    prune: str = "files"
    allow_version_guess: bool = False
    lenient_delete_partition: bool = False
    allow_duplicate_files: bool = False
    allow_checkpoint_only: bool = False

    def refuse(self, table_format: str, *names: str) -> None:
        """Refuses options that another format has.

        Raises:
            RequestError: one of `names` is set.
        """
        for name in names:
            if getattr(self, name):
                other = next(f for f in _FORMATS if f != table_format)
                reason = f"the table is {table_format}, the option is for {other} tables"
                raise RequestError(f"Invalid option {name}: {reason}", options=(name,))


def load_table(location: str, storage: Storage, options: Options, *, format_hint: str | None) -> OpenedTable:
    """The table at a location.

    Args:
        location: a table's directory or, for Iceberg, a metadata file.
        storage: reads it.
        options: those of both formats.
        format_hint: the format; None: it is told by what is there.

    Raises:
        RequestError: an option has no such value, or is not for the table's format.
        AmbiguousTableError: the metadata of both formats is there.
        HarnessError: as for `harness.iceberg.table.load` and `harness.delta.table.load`.
    """
    if options.prune not in _PRUNE:
        expected = f"expected one of {', '.join(_PRUNE)}"
        raise RequestError(f"Invalid option prune={options.prune!r}: {expected}", options=("prune",))
    if format_hint is not None and format_hint not in _FORMATS:
        expected = f"expected one of {', '.join(_FORMATS)}"
        raise RequestError(f"Invalid option format_hint={format_hint!r}: {expected}", options=("format_hint",))
    if (format_hint or detect(location, storage)) == "delta":
        options.refuse("delta", "allow_version_guess", "lenient_delete_partition", "allow_duplicate_files")
        return delta.load(
            location,
            storage,
            path_map=options.path_map,
            prune=options.prune,
            allow_checkpoint_only=options.allow_checkpoint_only,
        )
    options.refuse("iceberg", "allow_checkpoint_only")
    return iceberg.load(
        location,
        storage,
        path_map=options.path_map,
        allow_version_guess=options.allow_version_guess,
        lenient_delete_partition=options.lenient_delete_partition,
        allow_duplicate_files=options.allow_duplicate_files,
        prune=options.prune,
    )


def plan_changes(table: OpenedTable, request: ChangeRequest, columns: tuple[str, ...] | None) -> ScanPlan:
    """The plan of a read of changes, see `harness.delta.changes.plan_changes`.

    Raises:
        UnsupportedError: the table's format has no change data feed.
    """
    if not isinstance(table, delta.DeltaTable):
        raise UnsupportedError(
            f"Cannot read changes: {table.format} tables have no change data feed; compare two snapshots",
            table=table.location,
        )
    return table.changes(request, columns)


def detect(location: str, storage: Storage) -> str:
    """The format of the table at a location: `delta` where there is a log, else `iceberg`.

    Raises:
        AmbiguousTableError: both a log and Iceberg metadata are there, as in tables that are written for readers of
            either.
    """
    if not storage.is_directory(join(location, "_delta_log")):
        return "iceberg"
    metadata = join(location, "metadata")
    if storage.exists(join(metadata, "version-hint.text")) or any(
        name.endswith(".metadata.json") for name in storage.names(metadata)
    ):
        raise AmbiguousTableError(
            "Cannot tell the format: there is both a _delta_log and Iceberg metadata. "
            "Say format_hint='delta' or format_hint='iceberg'",
            table=location,
            rule="delta U1",
            options=("format_hint",),
        )
    return "delta"
