"""The formats behind `open_table`: which one a location holds, which options each knows, and what each gives."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from harness.errors import AmbiguousTableError, RequestError, UnsupportedError, warn
from harness.metadata.filters.predicate import Filter
from harness.metadata.model.schema import Schema
from harness.metadata.plan.read_options import ReadOptions
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.limits import DEFAULT, Limits
from harness.storage.listings import Entry
from harness.storage.paths import absolute, is_local, join, local_path, place, shown
from harness.storage.roots import Outside, Roots
from harness.storage.stores import Storage
from harness.storage.threads import one_ahead

if TYPE_CHECKING:
    from harness.metadata.delta.change_range import ChangeRequest
    from harness.storage.configuration import Renewal

_FORMATS = ("iceberg", "delta")
_FORMAT_OF_OPTION = {
    "allow_version_guess": "iceberg",
    "lenient_delete_partition": "iceberg",
    "allow_duplicate_files": "iceberg",
    "allow_checkpoint_only": "delta",
    "enforce_retention": "delta",
    "max_version": "delta",
    "published_only": "delta",
}


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

    def plan(self, selection: Any, columns: tuple[str, ...] | None, where: str | Filter | None) -> ScanPlan:
        """The plan of a read of what `select` gave."""

    def snapshots(self) -> list[dict[str, Any]]:
        """The points of the history, as plain values."""

    def refs(self) -> dict[str, dict[str, Any]]:
        """Branches and tags by name, as plain values."""

    def describe(self) -> dict[str, Any]:
        """All that the metadata says, as plain values."""


def open_storage(
    location: str,
    *,
    options: Mapping[str, Any],
    limits: Limits = DEFAULT,
    targets: tuple[str, ...],
    allowed_roots: tuple[str, ...],
    outside: str,
    untrusted: bool,
    renewal: Renewal | None = None,
) -> Storage:
    """The storage of one table, which reads within its roots and sends options where they were given for.

    Args:
        location: the table's.
        options, limits, allowed_roots, outside, untrusted: as for `harness.table.open_table`.
        targets: what its path map leads to.
        renewal: where the options end.

    Raises:
        RequestError: `outside` has no such value, or the options of a store are none.
    """
    if outside not in [kind.value for kind in Outside]:
        expected = f"expected one of {', '.join(kind.value for kind in Outside)}"
        raise RequestError(f"Invalid option outside={outside!r}: {expected}", options=("outside",))
    for key, value in options.items():
        if "://" in key and not isinstance(value, Mapping):
            raise RequestError(
                f"Invalid storage_options: what stands under {shown(key)} is no mapping", options=("storage_options",)
            )
    owners = targets if is_local(local_path(location)) else (location,)
    return Storage(
        dict(options),
        limits,
        stores=frozenset(place(owner).store for owner in owners if not is_local(local_path(owner))),
        roots=Roots.of(location, (*targets, *allowed_roots), outside=Outside.REFUSE if untrusted else Outside(outside)),
        untrusted=untrusted,
        renewal=renewal,
    )


def check_within(
    directory: str, location: str, *, allowed_roots: tuple[str, ...], outside: str, untrusted: bool
) -> None:
    """Holds a table's directory, which was found in another one, against what is allowed: a link may lead out of that.

    Raises:
        OutsideTableError: it does, and `outside` or `untrusted` refuse that.
    """
    roots = Roots.of(directory, allowed_roots, outside=Outside.REFUSE if untrusted else Outside(outside))
    roots.check(f"{absolute(local_path(location), os.getcwd()).rstrip('/')}/")
    sentence = roots.told()
    if sentence is not None:
        warn(f"Table {shown(location)}: {sentence}")


def load_table(location: str, storage: Storage, options: ReadOptions, *, format_hint: str | None) -> OpenedTable:
    """The table at a location.

    Args:
        location: a table's directory or, for Iceberg, a metadata file.
        storage: reads it.
        options: those of both formats.
        format_hint: the format; None: it is told by what is there.

    Raises:
        RequestError: there is no such format, or an option is not for the table's.
        AmbiguousTableError: the metadata of both formats is there.
        HarnessError: as for `harness.metadata.iceberg.table.load` and `harness.metadata.delta.table.load`.
    """
    if format_hint is not None and format_hint not in _FORMATS:
        expected = f"expected one of {', '.join(_FORMATS)}"
        raise RequestError(f"Invalid option format_hint={format_hint!r}: {expected}", options=("format_hint",))
    table_format, log = (format_hint, None) if format_hint is not None else detect(location, storage)
    _refuse_options_of_others(table_format, options)
    table = _loaded(table_format, location, storage, options, log)
    sentence = None if storage.roots is None else storage.roots.told()
    if sentence is not None:
        warn(f"Table {shown(location)}: {sentence}")
    return table


def _loaded(
    table_format: str, location: str, storage: Storage, options: ReadOptions, log: tuple[Entry, ...] | None
) -> OpenedTable:
    """Imports the modules of that format and no others."""
    if table_format == "delta":
        from harness.metadata.delta import table as delta

        return delta.load(location, storage, options, listed=log)
    from harness.metadata.iceberg import table as iceberg

    return iceberg.load(location, storage, options)


def _refuse_options_of_others(table_format: str, options: ReadOptions) -> None:
    for name, other in _FORMAT_OF_OPTION.items():
        given = getattr(options, name)
        if other != table_format and given is not None and given is not False:
            reason = f"the table is {table_format}, the option is for {other} tables"
            raise RequestError(f"Invalid option {name}: {reason}", options=(name,))


def plan_changes(table: OpenedTable, request: ChangeRequest, columns: tuple[str, ...] | None) -> ScanPlan:
    """The plan of a read of changes, see `harness.metadata.delta.changes.plan_changes`.

    Raises:
        UnsupportedError: the table's format has no change data feed.
    """
    from harness.metadata.delta.table import DeltaTable

    if not isinstance(table, DeltaTable):
        raise UnsupportedError(
            f"Cannot read changes: {table.format} tables have no change data feed; compare two snapshots",
            table=table.location,
        )
    return table.changes(request, columns)


def detect(location: str, storage: Storage) -> tuple[str, tuple[Entry, ...] | None]:
    """The format of the table at a location: `delta` where there is a log, else `iceberg`; and what is in the log.

    The latter of stores only, which need not list it twice; else None. There, a log without a file is none beside
    Iceberg metadata (delta L4), which saves Iceberg tables a request.

    Raises:
        AmbiguousTableError: both a log and Iceberg metadata are there, as in tables that are written for readers of
            either.
    """
    if location.endswith(".metadata.json") and not is_local(local_path(location)):
        return "iceberg", None  # without a request
    is_remote, log = not is_local(local_path(location)), join(location, "_delta_log")
    with one_ahead(storage.names, join(location, "metadata"), waits=is_remote) as names_beside:
        listed = (storage.entries(log) or None) if is_remote else None
        if listed is None and is_remote and _has_metadata(names_beside()):
            return "iceberg", None
        if listed is None and not storage.is_directory(log):
            return "iceberg", None
        names = names_beside()
    if _has_metadata(names):
        raise AmbiguousTableError(
            "Cannot tell the format: there is both a _delta_log and Iceberg metadata. "
            "Say format_hint='delta' or format_hint='iceberg'",
            table=location,
            rule="delta U1",
            options=("format_hint",),
        )
    return "delta", listed


def _has_metadata(names: Iterable[str]) -> bool:
    """Whether some of the names in a directory are of Iceberg's metadata."""
    return any(name == "version-hint.text" or name.endswith(".metadata.json") for name in names)
