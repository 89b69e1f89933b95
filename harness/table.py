"""Tables and snapshots: where every read begins.

    table = open_table("warehouse/orders")
    table.head(5, where="region = 'eu'")
    snapshot = table.snapshot("audit")
    snapshot.plan(where="region = 'eu'").explain()
    snapshot.to_arrow(columns=["id", "total"])

Nothing is cached behind the user's back but the metadata itself: a `Table` is one version of it, and a `Snapshot` of it
gives the same rows for ever.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
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
from harness.metadata.model.arguments import validate_call
from harness.metadata.model.frames import html_description
from harness.metadata.model.schema import Schema
from harness.metadata.model.times import When, show_ms
from harness.metadata.plan.read_options import Prune, ReadOptions, TableOptions, catalog_answer, parse_prune
from harness.snapshot import BatchArguments, Changes, ReadArguments, Snapshot, point_text, read_context
from harness.storage.decoded import Cache
from harness.storage.gate import Outside, Roots
from harness.storage.limits import DEFAULT, Limits, contained
from harness.storage.paths import (
    PathMap,
    PhysicalPath,
    absolute,
    canonical_path,
    expanded,
    is_local,
    join,
    local_path,
    may_be_name,
    redact,
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
    from harness.metadata.catalogs.catalog import Catalog, TableLocation
    from harness.metadata.model.text_tables import Listing
    from harness.metadata.tables.history import History
    from harness.metadata.tables.reading import MetadataTable
    from harness.slices.pulling import PullResult
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


class OpenOptions(TableOptions, total=False):
    """Keyword arguments of `open_table`, `connect` and `attach`, beside those of `TableOptions`."""

    catalog: Catalog | str | None
    """Finds the table by its name: the name of a catalog that is configured for PyIceberg, the location of a warehouse
    directory, or a catalog, such as `harness.open_warehouse("warehouse")`. What you state here about the table's store
    goes before what the catalog states.
    """
    storage_options: Mapping[str, Any] | None
    """For locations that are not local: for the scheme, host and bucket of the location or, if that is local, of the
    targets of `path_map`. Those of another store are under its name, `{"s3://other": {"key": …}}`. Options of S3, Azure
    and Google Cloud have any of the names in `docs/how-to/object-stores.md`; those of other file systems are fsspec's.
    """
    outside: str
    """What becomes of an absolute path elsewhere in the store of the location. `warn`, the default, reads the file,
    with one warning for each read that names the directories. `refuse` is an error. A path that leaves the table by
    `..`, or is in another store, is always refused.
    """
    untrusted: bool
    """Whether somebody else wrote the table. If so, `outside` is `refuse`, and irregularities that harness tolerates in
    trusted tables are errors: recorded counts that are wrong, files without a column of the table, columns that are
    taken by position, a checksum that differs. Nothing that the table records skips a file or a delete (`prune="off"`).
    It reads in this process; `harness.read_untrusted` reads in a process that has limits and no network.
    """


@validate_call
def open_table(location: object, **options: Unpack[OpenOptions]) -> Table:
    """Open the table at a location, as its current metadata says.

    An option of one format is refused for a table of the other.

    Args:
        location: A table's directory or, for Iceberg, a metadata file; a local path, or a URI that fsspec can open. A
            relative path is that of the process's directory now, wherever it is when rows are read; a leading `~` is
            the home directory. Or a table's name: `sales.orders` in `catalog`, and without one `prod.sales.orders`,
            with that of a catalog of PyIceberg before it. A path that exists wins. Or a table that another library
            opened: PyIceberg's `Table`, deltalake's `DeltaTable`; it is read at the version that it is at.
        options: The keyword arguments that `OpenOptions` and `TableOptions` describe.

    Raises:
        TableNotFoundError: There is no table, or its current metadata file is not certain.
        InvalidTableError: The metadata breaks the specification.
        UnsupportedError: The table uses what harness does not read.
        AmbiguousTableError: The metadata of both formats is there.
        LimitError: A file asks for more than `limits` allow.
        StorageError: Storage failed.
        RequestError: An option has no such value, or is not for the table's format.
        OutsideTableError: The metadata is, or leads, where the table may not be read from.
    """
    located = _resolve_location(location, options.get("catalog"))
    roots, store_options = tuple(map(str, options.get("allowed_roots", ()))), dict(options.get("storage_options") or {})
    name, renewal, format_hint = None, None, options.get("format_hint")
    max_version, ratified = options.get("max_version"), options.get("ratified")
    published_only, untrusted = options.get("published_only", False), options.get("untrusted", False)
    if located is not None:
        from harness.metadata.catalogs.catalog import renewal_of

        name, format_hint = located.qualified, format_hint or located.format
        location = located.metadata_location or located.location
        renewal = renewal_of(located, store_options, roots)
        store_options = located.store_options(store_options, roots)
        if max_version is None and not published_only:
            max_version, ratified = located.options.get("max_version"), located.options.get("ratified", ratified)
    else:
        location = expanded(str(location))
    prune = parse_prune(options.get("prune", Prune.ALL.value))
    path_map = options.get("path_map") or {}
    read_options = ReadOptions(
        path_map=PathMap(tuple(path_map.items())),
        prune=Prune.OFF if untrusted else prune,  # what an untrusted table records skips nothing
        allow_version_guess=options.get("allow_version_guess", False),
        lenient_delete_partition=options.get("lenient_delete_partition", False),
        allow_duplicate_files=options.get("allow_duplicate_files", False),
        allow_checkpoint_only=options.get("allow_checkpoint_only", False),
        enforce_retention=options.get("enforce_retention", False),
        pinned_version=None if located is None else located.version,
        answer=catalog_answer(max_version, ratified, published_only=published_only),
        published_only=published_only,
        cache=None if untrusted else Cache(),
    )
    outside = options.get("outside", Outside.WARN.value)
    storage = open_storage(
        str(location),
        options=store_options,
        limits=options.get("limits") or DEFAULT,
        targets=tuple(path_map.values()),
        allowed_roots=roots,
        outside=outside,
        untrusted=untrusted,
        renewal=renewal,
    )
    if located is not None and located.within is not None:
        check_within(located.within, str(location), allowed_roots=roots, outside=outside, untrusted=untrusted)
    with contained(table=str(location)):
        return Table(load_table(PhysicalPath(str(location)), storage, read_options, format_hint=format_hint), name)


def _resolve_location(location: object, catalog: Catalog | str | None) -> TableLocation | None:
    """The catalog's answer for a name or another library's table; None for a location."""
    if not isinstance(location, str | os.PathLike):
        from harness.metadata.catalogs.resolving import locate_object

        return locate_object(location)
    if catalog is None and not may_be_name(str(location)):
        return None
    from harness.metadata.catalogs.resolving import find_table

    return find_table(str(location), catalog)


@dataclass(frozen=True, slots=True)
class Table:
    """A version of a table's metadata.

    name: what a catalog calls it, the catalog's name first; None: it was opened by its location.
    """

    _source: FormatTable = field(repr=False)
    name: str | None = None

    def __repr__(self) -> str:
        return f"Table({point_text(self._source, self._source.current, self.name)})"

    def _repr_html_(self) -> str:
        """For notebooks: where the table is, its current snapshot and size, the columns, five rows, and a picture.

        The picture is of what is at hand: the snapshots of an Iceberg table, the partitions or files of a Delta table.
        """
        current = self._source.current
        size = {
            f"recorded {name}": size_text(number) if name == "bytes" else f"{number:,}"
            for name, number in self._source.recorded().items()
        }
        point = "version" if self.format == "delta" else "snapshot"
        facts = {
            "name": self.name,
            "location": redact(self.location),
            "format": self.format,
            point: None if current is None else current.id,
            "time": None if current is None or current.timestamp_ms is None else show_ms(current.timestamp_ms),
            **size,
            "warnings": len(self.warnings) or None,
        }
        return html_description("Table", facts, self.schema) + self._preview_html() + self._picture_html()

    def _preview_html(self) -> str:
        """The first rows; the reason where there are none to show."""
        import duckdb

        from harness.metadata.tables.reading import rows_html, texts_of

        names = [each.name for each in self.schema.fields[:20]]
        try:
            return rows_html(*texts_of(self.head(5, columns=names))) if names else ""
        except (HarnessError, duckdb.Error) as error:
            return f"<p>no rows to show: {html_text(str(error))}</p>"

    def _picture_html(self) -> str:
        from harness.metadata.model.drawing import as_html
        from harness.metadata.plan.layout import layout
        from harness.metadata.tables.history import MOST_BARS, draw_history

        if self.format != "delta":
            return as_html(draw_history(self.history(), MOST_BARS))
        try:
            return as_html(layout(self.snapshot().plan(columns=())))
        except HarnessError:  # statistics in a checkpoint that has gone
            return ""

    @property
    def location(self) -> str:
        """The location that was opened."""
        return self._source.location

    @property
    def format(self) -> str:
        """`iceberg` or `delta`."""
        return self._source.format

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self._source.schema

    @property
    def warnings(self) -> tuple[str, ...]:
        """Oddities of the table that are harmless to a reader, one sentence each."""
        return self._source.warnings

    def snapshots(self) -> Listing:
        """All snapshots as plain values: id, parent_id, timestamp_ms, operation and what the format says besides.

        The list prints itself as a table.
        """
        from harness.metadata.model.text_tables import Listing

        with read_context(self._source, None):
            return Listing(self._source.snapshots())

    def history(self) -> History:
        """The snapshots or versions, the newest first: rows, files and bytes added and removed, and changes of columns.

        Raises HarnessError: a commit cannot be read.
        """
        from harness.metadata.tables.history import History, history

        return History(history(self._source))

    def refs(self) -> dict[str, dict[str, Any]]:
        """Branches and tags by name, as plain values."""
        return self._source.refs()

    @validate_call
    def metadata(self, name: str) -> MetadataTable:
        """Return a metadata table of the current snapshot: `Snapshot.metadata` has those of other snapshots.

        In SQL they stand behind the table's name: `harness.sql("FROM orders.files", {"orders": orders})`.
        """
        return self.snapshot().metadata(name)

    @validate_call
    def head(
        self, n: int = 10, *, columns: Sequence[str] | None = None, where: str | Filter | None = None, at: When = None
    ) -> duckdb.DuckDBPyRelation:
        """The first rows to look at: `Snapshot.head` of the current snapshot, or of that `at`.

        Args:
            n, columns, where: as for `Snapshot.head`.
            at: as for `snapshot`.
        """
        return self.snapshot(at).head(n, columns=columns, where=where)

    def count(self, *, where: str | Filter | None = None, at: When = None) -> int:
        """The number of rows, see `Snapshot.count`; `at` as for `snapshot`."""
        return self.snapshot(at).count(where=where)

    def to_arrow(self, *, at: When = None, **read: Unpack[ReadArguments]) -> pa.Table:
        """The rows as an Arrow table: `Snapshot.to_arrow` with its arguments; `at` as for `snapshot`."""
        return self.snapshot(at).to_arrow(**read)

    def to_pandas(self, *, at: When = None, **read: Unpack[ReadArguments]) -> pd.DataFrame:
        """The rows as a pandas DataFrame, see `Snapshot.to_pandas`; `at` as for `snapshot`."""
        return self.snapshot(at).to_pandas(**read)

    def to_polars(self, *, at: When = None, **read: Unpack[ReadArguments]) -> pl.DataFrame:
        """The rows as a Polars DataFrame, see `Snapshot.to_polars`; `at` as for `snapshot`."""
        return self.snapshot(at).to_polars(**read)

    def to_batches(self, *, at: When = None, **read: Unpack[BatchArguments]) -> Batches:
        """Return the rows as a stream of Arrow batches, see `Snapshot.to_batches`; `at` as for `snapshot`."""
        return self.snapshot(at).to_batches(**read)

    def describe(self) -> dict[str, Any]:
        """All that the metadata says, as plain values."""
        with read_context(self._source, None):
            return self._source.describe()

    @validate_call
    def snapshot(self, at: When = None) -> Snapshot:
        """Return a snapshot and the schema that belongs to it, by default the current one.

        Rules: iceberg 1.32 to 1.37; delta L32 to L36.

        Args:
            at: A snapshot id, or a version of a Delta table; a datetime (UTC unless it has a zone), which is what the
                table was at that time; or text. `"7"` is an id or version, `"2024-12-31"` and
                `"2024-12-31T23:59:59+01:00"` are times (UTC unless they have an offset), and other text is the name of
                a branch or tag, which Delta tables do not have. `"snapshot=7"`, `"timestamp=1704067200000"`
                (milliseconds since 1970) and `"ref=2024-12-31"` state which of them it is.

        Raises:
            RequestError: The format does not have that, or the text is no time.
            SnapshotNotFoundError: There is no such snapshot, and the message says what there is; or it is older than
                `enforce_retention` allows.
            EncryptedTableError: The snapshot is encrypted.
        """
        with read_context(self._source, None):
            return Snapshot(self._source, self._source.select(at), self.name)

    @validate_call
    def changes(
        self,
        start: When,
        end: When = None,
        *,
        columns: Sequence[str] | None = None,
        allow_out_of_range: bool = False,
    ) -> Changes:
        """Return the rows that a range of versions of a Delta table inserted, deleted and updated.

        The rows have the columns of the table as of the last version of the range; after them `_change_type` (`insert`,
        `delete`, `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp`. Where a version
        recorded no change files, an update shows as a delete and an insert, and so may a row that was only moved.

        Rules: delta C1 to C12.

        Args:
            start: The first version, or a time: the range starts with the first commit at or after it. As `at` of
                `snapshot`.
            end: The last version, inclusive, or a time: the range ends with the last commit at or before it. None for
                the latest version.
            columns: Names of columns of the table and of the feed, `_file` and `_pos`, in the order wanted.
            allow_out_of_range: A range outside the table's versions is empty instead of an error.

        Raises:
            RequestError: A bad range; or the change data feed is not enabled in all of the range, or the schema changed
                in it other than by new columns.
            SnapshotNotFoundError, InvalidTableError: Versions of the range are no longer in the log.
            UnsupportedError: An Iceberg table, or a feature that harness does not read.
        """
        from harness.metadata.delta.change_range import ChangeRequest
        from harness.metadata.delta.table import DeltaTable

        request = ChangeRequest(start=start, end=end, allow_out_of_range=allow_out_of_range)
        with read_context(self._source, None):
            if not isinstance(self._source, DeltaTable):
                raise UnsupportedError(
                    f"Cannot read changes: {self.format} tables have no change data feed; compare two snapshots",
                    table=self.location,
                )
            return Changes(self._source.changes(request, None if columns is None else tuple(columns)))

    @validate_call
    def pull(
        self,
        directory: str | os.PathLike[str],
        *,
        at: When = None,
        where: str | None = None,
        last: int = 1,
        columns: Sequence[str] | None = None,
        exact: bool = False,
        sample_rows: int | None = None,
        anonymise: str | None = None,
        refresh: bool = False,
    ) -> PullResult:
        """Make a slice of the table: a table of the same format in `directory`, with the files that the filter needs.

        Under the filter the slice gives the rows that the table gives; data files are taken whole, and deletes stay
        deletes. Schemas, specs, ids, sequence numbers, properties and protocol are the table's; the metadata names only
        files of the slice. `_harness_slice.json` says where it came from.

        If a pull is interrupted, no table is there, and the same call goes on where it ended.

        Args:
            directory: A new or empty local directory; with `refresh`, that of the slice. Recorded paths are absolute:
                other readers want it to stay there.
            at: The newest snapshot of the slice, as for `snapshot`. None: the current one.
            where: A boolean SQL expression. None: all rows.
            last: The number of snapshots, the newest ones up to `at`. The oldest of them becomes the root.
            columns: Names of the slice's columns. None: all. Columns that partitions, equality deletes and generated
                columns need must be among them.
            exact: Whether to leave out rows that the filter drops. Files that lose rows are written anew, and positions
                of deletes follow.
            sample_rows: The number of rows to keep of those that match the filter, the same ones in every pull, and
                deleted rows in their measure. None: all.
            anonymise: A key, which chooses other values: of the same types, null where they were null, equal where they
                were equal, in every slice that is made with this key. Texts that people or writers left in the metadata
                are left out. `docs/how-to/pull-a-slice.md` says how much the slice tells all the same.
            refresh: Whether to bring the slice in `directory` to the table's current snapshot, with the options that it
                was pulled with; no other option may be given. Files that are there are not fetched again, unless
                `exact`, `columns` or `sample_rows` change them. Data that the newest snapshots lack is deleted.

        Raises:
            RequestError: The directory is not empty, or as planning a read says. With `refresh`: there is no slice, or
                one that cannot follow the table, because another table is there, it was rolled back, the slice's
                snapshot has expired, or the slice was written to. Pull anew.
            UnsupportedError: A slice cannot hold a part of the table.
            StorageError: A file cannot be read or written.
        """
        from harness.slices import pulling
        from harness.slices.request import SliceRequest

        names = None if columns is None else tuple(columns)
        request = SliceRequest(
            where=where, last=last, columns=names, exact=exact, sample_rows=sample_rows, anonymise=anonymise
        )
        if refresh and (at is not None or request != SliceRequest()):
            raise RequestError(
                "Cannot refresh a slice with other options: it is as it was pulled; leave them out, or pull anew",
                options=("refresh",),
            )
        snapshot, place = self.snapshot(at), Path(directory)
        if refresh:
            return pulling.refresh(snapshot, place)
        with read_context(self._source, snapshot._selection.snapshot):
            return pulling.make_slice(snapshot, place, request)

    @validate_call
    def check(
        self,
        at: When = None,
        *,
        level: str = "files",
        all_snapshots: bool = False,
        select: Sequence[str] = (),
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
            select, ignore: ids, beginnings of ids (`ICE-2`) or patterns (`*-5*`) of the rules that are checked, and of
                those that are not. If `select` is empty, every rule is.
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
            select=select,
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
                f"Invalid storage_options: what stands under {redact(key)} is no mapping", options=("storage_options",)
            )
    owners = targets if is_local(local_path(location)) else (location,)
    return Storage(
        dict(options),
        limits,
        stores=frozenset(canonical_path(owner).store for owner in owners if not is_local(local_path(owner))),
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
        warn(f"Table {redact(location)}: {sentence}", OutsideTableWarning)


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
    table_format, log = (format_hint, None) if format_hint is not None else detect_format(location, storage)
    for name, other in _FORMAT_OF_OPTION.items():
        value = getattr(options, name)
        if other != table_format and value is not None and value is not False:
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
        from harness.metadata.catalogs.warehouse import no_table_error

        raise no_table_error(location, storage) from None
    sentence = None if storage.roots is None else storage.roots.told()
    if sentence is not None:
        warn(f"Table {redact(location)}: {sentence}", OutsideTableWarning)
    return table


def detect_format(location: PhysicalPath, storage: Storage) -> tuple[str, tuple[Entry, ...] | None]:
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
        if listed is None and is_remote and _has_iceberg_metadata(names_beside()):
            return "iceberg", None
        if listed is None and not storage.is_directory(log):
            return "iceberg", None
        names = names_beside()
    if _has_iceberg_metadata(names):
        message = (
            "Cannot tell the format: there is both a _delta_log and Iceberg metadata. "
            "Say format_hint='delta' or format_hint='iceberg'"
        )
        raise AmbiguousTableError(message, table=location, rule="delta U1", options=("format_hint",))
    return "delta", listed


def _has_iceberg_metadata(names: Iterable[str]) -> bool:
    """True where a directory's names include Iceberg's metadata."""
    return any(name == "version-hint.text" or name.endswith(".metadata.json") for name in names)
