"""Tables and snapshots: where every read begins.

    table = open_table("warehouse/orders")
    table.head(5, where="region = 'eu'")
    snapshot = table.snapshot(ref="audit")
    snapshot.plan(where="region = 'eu'").explain()
    snapshot.to_arrow(columns=["id", "total"])

Nothing is cached behind the user's back but the metadata itself: a `Table` is one version of it, and a `Snapshot` of it
gives the same rows for ever.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

from harness.errors import (
    AmbiguousTableError,
    HarnessError,
    OutsideTableWarning,
    RequestError,
    TableNotFoundError,
    UnsupportedError,
    html_text,
    size_text,
    warn,
)
from harness.metadata.filters.predicate import Filter
from harness.metadata.model.arguments import checked
from harness.metadata.model.frames import described
from harness.metadata.model.schema import Schema
from harness.metadata.model.times import When, parse_moment, show_ms
from harness.metadata.plan.read_options import Prune, Ratified, ReadOptions, catalog_answer, parse_prune
from harness.snapshot import BatchArguments, Changes, ReadArguments, Snapshot, point_shown, reading
from harness.storage.decoded import Cache
from harness.storage.gate import Outside, Roots
from harness.storage.limits import DEFAULT, Limits, contained
from harness.storage.paths import (
    PathMap,
    PhysicalPath,
    absolute,
    expanded,
    is_local,
    join,
    local_path,
    may_be_name,
    place,
    shown,
)
from harness.storage.records import dataclass
from harness.storage.stores import Entry, Storage
from harness.storage.threads import one_ahead

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from harness.check.running import CheckReport
    from harness.engines.registry import Batches
    from harness.metadata.catalogs.catalog import Catalog, Located
    from harness.metadata.model.text_tables import Listing
    from harness.metadata.tables.history import History
    from harness.metadata.tables.reading import MetadataTable
    from harness.snapshot import FormatTable
    from harness.storage.renewal import Renewal

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


@checked
def open_table(
    location: object,
    *,
    catalog: Catalog | str | None = None,
    path_map: Mapping[str, str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    allow_version_guess: bool = False,
    lenient_delete_partition: bool = False,
    allow_duplicate_files: bool = False,
    allow_checkpoint_only: bool = False,
    enforce_retention: bool = False,
    max_version: int | None = None,
    ratified: Iterable[Ratified] | None = None,
    published_only: bool = False,
    prune: str = "all",
    format_hint: str | None = None,
    allowed_roots: Sequence[str] = (),
    outside: str = "warn",
    limits: Limits | None = None,
    untrusted: bool = False,
) -> Table:
    """The table at a location, as its current metadata says.

    Args:
        location: a table's directory or, for Iceberg, a metadata file; a local path, or a URI that fsspec can open.
            A relative path is that of the process's directory now, wherever it is when rows are read; a leading `~` is
            the home directory. Or a table's name: `sales.orders` in `catalog`, and without one `prod.sales.orders`,
            with that of a catalog of PyIceberg before it. A path that exists wins. Or a table that another library
            opened: PyIceberg's `Table`, deltalake's `DeltaTable`; it is read at the version that it is at.
        catalog: finds the table by its name: that of a catalog which is configured for PyIceberg, the location of a
            warehouse directory, or a catalog, such as `harness.open_warehouse("warehouse")`. What it says of the
            table's store goes below what you say here.
        path_map: recorded path prefixes and where they are now, for tables that were moved in parts. A table that was
            moved as a whole needs none. Relative paths start where those of `location` do.
        storage_options: for locations that are not local: for the scheme, host and bucket of `location` or, if that is
            local, of the targets of `path_map`. Those of another store stand under its name,
            `{"s3://other": {"key": …}}`. Of S3, Azure and Google Cloud under any of the names in
            `docs/how-to/object-stores.md`; of other file systems those of fsspec.
        allow_version_guess: where no version hint tells the current metadata file, take the highest number
            (iceberg 1.5); without it that is an error.
        lenient_delete_partition: apply position delete files and deletion vectors to data files of other partitions by
            path (iceberg 4.3, 4.4).
        allow_duplicate_files: read a data file twice that is listed twice (iceberg 2.13).
        allow_checkpoint_only: read a Delta table whose newest checkpoint has no commit of its version (delta L23).
        enforce_retention: refuse snapshots of a Delta table, but the latest, that are older than the table keeps
            deleted files, as Spark does (delta L37); without it, they are read as long as their files are there.
            Changes are not held against it.
        max_version: the latest version of a Delta table as the catalog says that manages it: nothing above it is read
            (frontier F4.4).
        ratified: the commits that the catalog still holds, with `max_version`: names of files in
            `_delta_log/_staged_commits`, or a version with such a name, or a version with the bytes of a commit that
            only the catalog has. They are read in place of published ones; None, or none: all are published.
        published_only: read a Delta table that a catalog manages without asking it: the versions that are published
            without a gap, each exactly, with a warning that names the last of them (frontier F4.3).
        prune: `all` skips data files by partition and statistics, and Iceberg's manifests by their summaries, as far
            as these are trusted (iceberg 3.9); `files` skips no manifest; `partition` skips data files by partition
            alone; `off` reads all files. The last two hold no delete back by statistics.
        format_hint: `iceberg` or `delta`; None: Delta where there is a `_delta_log`, else Iceberg.
        allowed_roots: directories, local paths or URIs, that the table may be read from beside its own location and the
            targets of `path_map`. Relative ones start where `location` does.
        outside: what becomes of an absolute path elsewhere in the store of `location`: `warn` reads the file, with one
            warning for each read that names the directories; `refuse` is an error. A path that leaves the table by
            `..`, or is in another store, is always refused.
        limits: how much memory and how many items the table's metadata may ask for; None: `harness.Limits()`.
        untrusted: somebody else wrote the table: `outside` is `refuse`, and what is only odd of your own tables is an
            error: recorded counts that are wrong, files without a column of the table, columns that are taken by
            position, a checksum that says otherwise. Nothing that it records skips a file or a delete (`prune="off"`).
            It reads in this process; `harness.read_untrusted` reads in one that has limits and no network.

    An option of one format is refused for a table of the other.

    Raises:
        TableNotFoundError: there is no table, or it cannot be told which metadata file is the current one.
        InvalidTableError: the metadata breaks the specification.
        UnsupportedError: the table uses what harness does not read.
        AmbiguousTableError: the metadata of both formats is there.
        LimitError: a file asks for more than `limits` allow.
        StorageError: storage failed.
        RequestError: an option has no such value, or is not for the table's format.
        OutsideTableError: the metadata is, or leads, where the table may not be read from.
    """
    roots, own_options, name, renewal = tuple(map(str, allowed_roots)), dict(storage_options or {}), None, None
    located = _located(location, catalog)
    if located is not None:
        name, format_hint = located.qualified, format_hint or located.format
        location = located.metadata_location or located.location
        renewal = located.renewal(own_options, roots)
        own_options = located.lent(own_options, roots)
        if max_version is None and not published_only:
            max_version, ratified = located.options.get("max_version"), located.options.get("ratified", ratified)
    else:
        location = expanded(str(location))
    skipped = parse_prune(prune)
    options = ReadOptions(
        path_map=PathMap(tuple((path_map or {}).items())),
        prune=Prune.OFF if untrusted else skipped,  # what a stranger records skips nothing
        allow_version_guess=allow_version_guess,
        lenient_delete_partition=lenient_delete_partition,
        allow_duplicate_files=allow_duplicate_files,
        allow_checkpoint_only=allow_checkpoint_only,
        enforce_retention=enforce_retention,
        pinned_version=None if located is None else located.version,
        answer=catalog_answer(max_version, ratified, published_only=published_only),
        published_only=published_only,
        cache=None if untrusted else Cache(),
    )
    storage = open_storage(
        str(location),
        options=own_options,
        limits=DEFAULT if limits is None else limits,
        targets=tuple((path_map or {}).values()),
        allowed_roots=roots,
        outside=outside,
        untrusted=untrusted,
        renewal=renewal,
    )
    if located is not None and located.within is not None:
        check_within(located.within, str(location), allowed_roots=roots, outside=outside, untrusted=untrusted)
    with contained(table=str(location)):
        return Table(load_table(PhysicalPath(str(location)), storage, options, format_hint=format_hint), name)


def _located(location: object, catalog: Catalog | str | None) -> Located | None:
    """The catalog's answer for a name or another library's table; None for a location."""
    if not isinstance(location, str | os.PathLike):
        from harness.metadata.catalogs.resolving import located

        return located(location)
    if catalog is None and not may_be_name(str(location)):
        return None
    from harness.metadata.catalogs.resolving import find

    return find(str(location), catalog)


@dataclass(frozen=True, slots=True)
class Table:
    """A version of a table's metadata.

    name: what a catalog calls it, the catalog's name first; None: it was opened by its location.
    """

    source: FormatTable = field(repr=False)
    name: str | None = None

    def __repr__(self) -> str:
        return f"Table({point_shown(self.source, self.source.current, self.name)})"

    def _repr_html_(self) -> str:
        """For notebooks: where the table is, its current snapshot and size, the columns, five rows, and a picture.

        The picture is of what is at hand: the snapshots of an Iceberg table, the partitions or files of a Delta table.
        """
        current = self.source.current
        size = {
            f"recorded {name}": size_text(number) if name == "bytes" else f"{number:,}"
            for name, number in self.source.recorded().items()
        }
        point = "version" if self.format == "delta" else "snapshot"
        known = {
            "name": self.name,
            "location": shown(self.location),
            "format": self.format,
            point: None if current is None else current.id,
            "time": None if current is None or current.timestamp_ms is None else show_ms(current.timestamp_ms),
            **size,
            "warnings": len(self.warnings) or None,
        }
        return described("Table", known, self.schema) + self._preview() + self._picture()

    def _preview(self) -> str:
        """The first rows; the reason where there are none to show."""
        import duckdb

        from harness.metadata.tables.reading import rows_html, texts_of

        names = [each.name for each in self.schema.fields[:20]]
        try:
            return rows_html(*texts_of(self.head(5, columns=names))) if names else ""
        except (HarnessError, duckdb.Error) as error:
            return f"<p>no rows to show: {html_text(str(error))}</p>"

    def _picture(self) -> str:
        from harness.metadata.model.drawing import as_html
        from harness.metadata.plan.layout import layout
        from harness.metadata.tables.history import MOST_BARS, drawn

        if self.format != "delta":
            return as_html(drawn(self.history(), MOST_BARS))
        try:
            return as_html(layout(self.snapshot().plan(columns=())))
        except HarnessError:  # statistics in a checkpoint that has gone
            return ""

    @property
    def location(self) -> str:
        """The location that was opened."""
        return self.source.location

    @property
    def format(self) -> str:
        """`iceberg` or `delta`."""
        return self.source.format

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.source.schema

    @property
    def warnings(self) -> tuple[str, ...]:
        """Oddities of the table that are harmless to a reader, one sentence each."""
        return self.source.warnings

    def snapshots(self) -> Listing:
        """All snapshots as plain values: id, parent_id, timestamp_ms, operation and what the format says besides.

        The list prints itself as a table.
        """
        from harness.metadata.model.text_tables import Listing

        with reading(self.source, None):
            return Listing(self.source.snapshots())

    def history(self) -> History:
        """The snapshots or versions, the newest first: rows, files and bytes added and removed, and changes of columns.

        Raises HarnessError: a commit cannot be read.
        """
        from harness.metadata.tables.history import History, history

        return History(history(self.source))

    def refs(self) -> dict[str, dict[str, Any]]:
        """Branches and tags by name, as plain values."""
        return self.source.refs()

    @checked
    def metadata(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """A metadata table of the current snapshot as an Arrow table; `Snapshot.metadata` gives those of others.

        Iceberg's have the columns of Iceberg's metadata tables on Spark, Delta's `versions` those of DESCRIBE HISTORY.
        In SQL they stand behind the table's name: `harness.sql("FROM orders.files", {"orders": orders})`.

        Args:
            name, columns: as for `Snapshot.metadata`.

        Raises:
            As `Snapshot.metadata`.
        """
        return self.snapshot().metadata(name, columns)

    def metadata_table(self, name: str) -> MetadataTable:
        """A metadata table of the current snapshot that is not read yet, and shows itself as a table."""
        return self.snapshot().metadata_table(name)

    @checked
    def head(
        self, n: int = 10, *, columns: Sequence[str] | None = None, where: str | Filter | None = None, at: When = None
    ) -> duckdb.DuckDBPyRelation:
        """The first rows to look at: `Snapshot.head` of the current snapshot, or of that `at`.

        Args:
            n, columns, where: as for `Snapshot.head`.
            at: a snapshot id or version, a time, or text as the command's `--at` takes it: `"7"` is an id,
                `"2024-12-31"` a time in UTC, other text a branch or tag, as is `"ref=2024-12-31"`.
        """
        return self.snapshot(at).head(n, columns=columns, where=where)

    def count(self, *, where: str | Filter | None = None, at: When = None) -> int:
        """The number of rows, see `Snapshot.count`; `at` as for `head`."""
        return self.snapshot(at).count(where=where)

    def to_arrow(self, *, at: When = None, **read: Unpack[ReadArguments]) -> pa.Table:
        """The rows as an Arrow table: `Snapshot.to_arrow` with its arguments; `at` as for `head`."""
        return self.snapshot(at).to_arrow(**read)

    def to_pandas(self, *, at: When = None, **read: Unpack[ReadArguments]) -> pd.DataFrame:
        """The rows as a pandas DataFrame, see `Snapshot.to_pandas`; `at` as for `head`."""
        return self.snapshot(at).to_pandas(**read)

    def to_polars(self, *, at: When = None, **read: Unpack[ReadArguments]) -> pl.DataFrame:
        """The rows as a Polars DataFrame, see `Snapshot.to_polars`; `at` as for `head`."""
        return self.snapshot(at).to_polars(**read)

    def to_batches(self, *, at: When = None, **read: Unpack[BatchArguments]) -> Batches:
        """Return the rows as a stream of Arrow batches, see `Snapshot.to_batches`; `at` as for `head`."""
        return self.snapshot(at).to_batches(**read)

    def describe(self) -> dict[str, Any]:
        """All that the metadata says, as plain values."""
        with reading(self.source, None):
            return self.source.describe()

    @checked
    def snapshot(
        self,
        at: When = None,
        *,
        snapshot_id: int | None = None,
        version: int | None = None,
        timestamp: int | str | datetime | None = None,
        ref: str | None = None,
    ) -> Snapshot:
        """A snapshot and the schema that belongs to it; without a selector, the current one.

        Rules: iceberg 1.32 to 1.37; delta L32 to L36.

        Args:
            at: any of the others by its look, as for `head`.
            snapshot_id: the id of any snapshot in the metadata; for Delta the version.
            version: a version of a Delta table.
            timestamp: what the table was at that time: milliseconds since 1970-01-01 UTC, a datetime, or ISO text
                (UTC unless it has an offset).
            ref: a branch or tag; Delta has none.

        Raises:
            RequestError: more than one selector, one that the format does not have, or a text that is no time.
            SnapshotNotFoundError: there is no such snapshot, and the message says what there is; or it is older than
                `enforce_retention` allows.
            EncryptedTableError: the snapshot is encrypted.
        """
        if at is not None:
            others = {"snapshot_id": snapshot_id, "version": version, "timestamp": timestamp, "ref": ref}
            given = [name for name, value in others.items() if value is not None]
            if given:
                raise RequestError(
                    f"Cannot select by at and {given[0]} at once: give one of them",
                    cause="ExclusiveSelectors",
                    options=("at", *given),
                )
            return self.snapshot(**parse_moment(at))
        if version is not None:
            if snapshot_id is not None:
                raise RequestError(
                    "Cannot select by snapshot_id and version at once: give one of them",
                    options=("snapshot_id", "version"),
                )
            if self.format != "delta":
                raise RequestError(f"Cannot select version {version}: {self.format} tables have snapshot ids")
        with reading(self.source, None):
            selection = self.source.select(snapshot_id if version is None else version, timestamp, ref)
            return Snapshot(self.source, selection, self.name)

    @checked
    def changes(
        self,
        from_version: int | None = None,
        to_version: int | None = None,
        *,
        from_timestamp: int | str | datetime | None = None,
        to_timestamp: int | str | datetime | None = None,
        columns: Sequence[str] | None = None,
        allow_out_of_range: bool = False,
    ) -> Changes:
        """The rows that a range of versions of a Delta table inserted, deleted and updated, from its change data feed.

        The rows have the columns of the table as of the last version of the range; after them `_change_type` (`insert`,
        `delete`, `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp`. Where a version
        recorded no change files, an update shows as a delete and an insert, and so may a row that was only moved.

        Rules: delta C1 to C12.

        Args:
            from_version, to_version: the first and the last version, inclusive; without an end, the latest version.
            from_timestamp, to_timestamp: in place of versions: commits at or after, and at or before, these times, as
                for `snapshot`.
            columns: names of columns of the table and of the feed, `_file` and `_pos`, in the order wanted.
            allow_out_of_range: a range outside the table's versions is empty instead of an error.

        Raises:
            RequestError: no start, or a bad range; the change data feed is not enabled in all of the range, or the
                schema changed in it other than by new columns.
            SnapshotNotFoundError, InvalidTableError: versions of the range are no longer in the log.
            UnsupportedError: an Iceberg table, or a feature that harness does not read.
        """
        from harness.metadata.delta.change_range import ChangeRequest
        from harness.metadata.delta.table import DeltaTable

        request = ChangeRequest(
            from_version=from_version,
            to_version=to_version,
            from_timestamp=from_timestamp,
            to_timestamp=to_timestamp,
            allow_out_of_range=allow_out_of_range,
        )
        with reading(self.source, None):
            if not isinstance(self.source, DeltaTable):
                raise UnsupportedError(
                    f"Cannot read changes: {self.format} tables have no change data feed; compare two snapshots",
                    table=self.location,
                )
            return Changes(self.source.changes(request, None if columns is None else tuple(columns)))

    def check(
        self,
        at: When = None,
        *,
        level: str = "files",
        all_snapshots: bool = False,
        rules: Sequence[str] = (),
        ignore: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        sample_files: int | None = None,
        orphans: bool = False,
    ) -> CheckReport:
        """The findings where the table's metadata breaks the specification, or differs from its files and rows.

        Args:
            at: the snapshot or version, as for `snapshot`; all_snapshots: every one of them.
            level: `metadata` reads no data file; `files` also looks at existence, size and footer of every file;
                `data` also reads the values.
            rules, ignore: ids, or patterns such as `ICE-2*`, of rules that are asked, and are not. None: all are.
            columns: names of columns whose values are read; None: all.
            sample_files: so many data files are read for their values, the same ones in every check; None: all.
            orphans: also list the files below the table's location that nothing names.

        Raises:
            RequestError: there is no such level, rule, column or snapshot.
        """
        from harness.check.running import check

        return check(
            lambda: self,
            location=self.location,
            at=at,
            level=level,
            all_snapshots=all_snapshots,
            rules=rules,
            ignore=ignore,
            columns=columns,
            sample_files=sample_files,
            orphans=orphans,
        )


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

    targets: what the path map leads to. renewal: where the options end. The others are as for `open_table`.

    Raises RequestError: `outside` has no such value, or the options of a store are none.
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

    Raises OutsideTableError: it does, and `outside` or `untrusted` refuse that.
    """
    roots = Roots.of(directory, allowed_roots, outside=Outside.REFUSE if untrusted else Outside(outside))
    roots.check(PhysicalPath(f"{absolute(local_path(location), os.getcwd()).rstrip('/')}/"))
    sentence = roots.told()
    if sentence is not None:
        warn(f"Table {shown(location)}: {sentence}", OutsideTableWarning)


def load_table(
    location: PhysicalPath, storage: Storage, options: ReadOptions, *, format_hint: str | None
) -> FormatTable:
    """The table at a location.

    location: a table's directory or, for Iceberg, a metadata file. format_hint: None: it is told by what is there.

    Raises:
        RequestError: there is no such format, or an option is not for the table's.
        AmbiguousTableError: the metadata of both formats is there.
        HarnessError: as for `harness.metadata.iceberg.table.load` and `harness.metadata.delta.table.load`.
    """
    if format_hint is not None and format_hint not in _FORMATS:
        expected = f"expected one of {', '.join(_FORMATS)}"
        raise RequestError(f"Invalid option format_hint={format_hint!r}: {expected}", options=("format_hint",))
    table_format, log = (format_hint, None) if format_hint is not None else detect(location, storage)
    for name, other in _FORMAT_OF_OPTION.items():
        given = getattr(options, name)
        if other != table_format and given is not None and given is not False:
            reason = f"the table is {table_format}, the option is for {other} tables"
            raise RequestError(f"Invalid option {name}: {reason}", options=(name,))
    try:
        table: FormatTable
        if table_format == "delta":
            from harness.metadata.delta import table as delta

            table = delta.load(location, storage, options, listed=log)
        else:
            from harness.metadata.iceberg import table as iceberg

            table = iceberg.load(location, storage, options)
    except TableNotFoundError as error:
        if error.cause != "MetadataNotFound" or format_hint is not None or storage.exists(location):
            raise
        names = (*storage.names(location), *storage.names(join(location, "metadata")))
        if any(name == "version-hint.text" or ".metadata.json" in name for name in names):
            raise
        from harness.metadata.catalogs.warehouse import no_table

        raise no_table(location, storage) from None
    sentence = None if storage.roots is None else storage.roots.told()
    if sentence is not None:
        warn(f"Table {shown(location)}: {sentence}", OutsideTableWarning)
    return table


def detect(location: PhysicalPath, storage: Storage) -> tuple[str, tuple[Entry, ...] | None]:
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
        message = (
            "Cannot tell the format: there is both a _delta_log and Iceberg metadata. "
            "Say format_hint='delta' or format_hint='iceberg'"
        )
        raise AmbiguousTableError(message, table=location, rule="delta U1", options=("format_hint",))
    return "delta", listed


def _has_metadata(names: Iterable[str]) -> bool:
    """True where a directory's names include Iceberg's metadata."""
    return any(name == "version-hint.text" or name.endswith(".metadata.json") for name in names)
