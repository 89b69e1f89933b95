"""Tables: opening a table and reading, checking, and pulling it.

    table = open_table("warehouse/orders")
    table.head(5, where="region = 'eu'")
    snapshot = table.snapshot("audit")
    snapshot.plan(where="region = 'eu'").explain()
    snapshot.to_arrow(columns=["id", "total"])

A `Table` holds one version of the table's metadata, and a `Snapshot` always returns the same rows. Harness caches
metadata only.
"""

from __future__ import annotations

import functools
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
    html_text,
    size_text,
    warn,
)
from harness.metadata.filters.predicate import Filter
from harness.metadata.model.arguments import validate_call
from harness.metadata.model.frames import html_description
from harness.metadata.model.schema import Schema
from harness.metadata.model.times import When, show_ms
from harness.metadata.plan.lifetimes import ChangeMode, ChangeRange
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
    from harness.metadata.iceberg.server.protocol import PlanServer
    from harness.metadata.model.text_tables import Listing
    from harness.metadata.tables.history import History
    from harness.metadata.tables.reading import MetadataTable
    from harness.slices.pulling import PullResult
    from harness.snapshot import FormatTable
    from harness.storage.renewal import Renewal
    from harness.trace.model import Trace

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
    """Keyword arguments of `open_table`, `connect`, and `attach`, in addition to `TableOptions`."""

    catalog: Catalog | str | None
    """The catalog that finds the table by its name.

    One of: the name of a catalog that is configured for PyIceberg, the location of a warehouse directory, or a catalog
    object, for example `harness.open_warehouse("warehouse")`. If you and the catalog set the same storage option, your
    value is used.
    """
    storage_options: Mapping[str, Any] | None
    """Options for tables that are not on the local disk.

    They apply to the scheme, host, and bucket of the location or, if the location is local, of the targets of
    `path_map`. Options for another store are nested under its URI: `{"s3://other": {"key": …}}`. Under a URI with a
    path, they apply to the files whose paths start with it. For S3, Azure, and Google Cloud,
    `docs/how-to/object-stores.md` lists the accepted names; options for other file systems are passed to fsspec.
    """
    outside: str
    """How to treat an absolute path outside the table's directories but in the same store.

    `warn`, the default, reads the file and issues one warning per read that names the directories. `refuse` raises
    `OutsideTableError`. A path that leaves the table's directory by `..`, or that is in another store, is always
    refused.
    """
    planning: str
    """Who plans reads of a table that is named in an Iceberg REST catalog.

    `client`: harness reads the table's metadata files. `server`: the catalog's server sends the metadata, and for each
    read the data files and the deletes that apply to them. Nothing but these files is read, so that no credentials for
    metadata files are needed; whatever needs the metadata files raises `UnsupportedError`. `auto`, the default: the
    server if the catalog sets `scan-planning-mode` to `server` for the table, else harness.
    """
    untrusted: bool
    """Whether somebody you do not trust may have written the table.

    If so, `outside` is `refuse`, and irregularities that harness tolerates in trusted tables raise an error: wrong
    recorded counts, files that lack a column of the table, columns matched by position, and checksums that differ.
    Planning skips no file and no delete (`prune="off"`), because the recorded statistics may be wrong. The table is
    read in this process; `harness.read_untrusted` reads it in a separate process with limits and without network
    access.
    """


@validate_call
def open_table(location: object, **options: Unpack[OpenOptions]) -> Table:
    """Open the table at a location and read its current metadata.

    The location is one of these:

    - A path: a table directory or, for Iceberg, a metadata file. It is a local path or a URI that fsspec can open. A
      relative path is resolved against the current working directory at once. A leading `~` is the home directory.
    - A table name: `sales.orders` with `catalog`, or `prod.sales.orders` without it, where `prod` is a catalog that is
      configured for PyIceberg. If a path with this name exists, the path is opened.
    - A table object of another library: PyIceberg's `Table` or deltalake's `DeltaTable`. It is read at the version of
      the object.

    Args:
        location: The path, name, or table object.
        options: The keyword arguments that `OpenOptions` and `TableOptions` describe. An option for one format raises
            an error for a table in another format.

    Returns:
        The table with its current metadata.

    Raises:
        TableNotFoundError: There is no table at the location, or it is not certain which metadata file is current.
        InvalidTableError: The metadata breaks the specification.
        UnsupportedError: The table uses a feature that harness cannot read.
        AmbiguousTableError: The location holds metadata of both formats.
        LimitError: A metadata file exceeds one of the `limits`.
        StorageError: The storage failed.
        RequestError: An option has an invalid value, or does not apply to the table's format.
        OutsideTableError: The metadata file, or a file that it names, is in a directory that the table may not read.
    """
    located, planning = _resolve_location(location, options.get("catalog")), options.get("planning", "auto")
    server = None
    if located is not None or planning != "auto":
        from harness.metadata.catalogs.planning import chosen_server, plan_server

        server = chosen_server(located, str(location), planning)
    roots = tuple(map(str, options.get("allowed_roots", ())))
    caller_options = store_options = dict(options.get("storage_options") or {})
    name, renewal, format_hint = None, None, options.get("format_hint")
    max_version, ratified = options.get("max_version"), options.get("ratified")
    published_only, untrusted = options.get("published_only", False), options.get("untrusted", False)
    if located is not None:
        from harness.metadata.catalogs.catalog import renewal_of

        name, format_hint = located.qualified, format_hint or located.format
        location = located.metadata_location or located.location
        if server is None:
            renewal = renewal_of(located, caller_options, roots)
            store_options = located.store_options(caller_options, roots)
        else:  # only the files of plans are read, each with the storage of its plan
            store_options = {}
        if max_version is None and not published_only:
            max_version, ratified = located.options.get("max_version"), located.options.get("ratified", ratified)
    else:
        location = expanded(str(location))
    prune = parse_prune(options.get("prune", Prune.ALL.value))
    path_map = options.get("path_map") or {}
    read_options = ReadOptions(
        path_map=PathMap(tuple(path_map.items())),
        # Statistics in an untrusted table may be wrong, so no file is skipped.
        prune=Prune.OFF if untrusted else prune,
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
    open_with = functools.partial(
        open_storage,
        str(location),
        limits=options.get("limits") or DEFAULT,
        targets=tuple(path_map.values()),
        allowed_roots=roots,
        outside=outside,
        untrusted=untrusted,
    )
    storage = open_with(options=store_options, renewal=renewal)
    if located is not None and located.within is not None:
        check_within(located.within, str(location), allowed_roots=roots, outside=outside, untrusted=untrusted)
    with contained(table=str(location)):
        plans = None
        if located is not None and server is not None:
            plans = plan_server(
                located,
                server,
                lambda answer, paths: open_with(
                    options=answer.store_options(caller_options, roots, paths),
                    renewal=renewal_of(answer, caller_options, roots, paths),
                ),
            )
        path = PhysicalPath(str(location))
        return Table(load_table(path, storage, read_options, format_hint=format_hint, server=plans), name)


def _resolve_location(location: object, catalog: Catalog | str | None) -> TableLocation | None:
    """Return the catalog's answer for a table name or another library's table, or None for a path or URI."""
    if not isinstance(location, str | os.PathLike):
        from harness.metadata.catalogs.resolving import locate_object

        return locate_object(location)
    if catalog is None and not may_be_name(str(location)):
        return None
    from harness.metadata.catalogs.resolving import find_table

    return find_table(str(location), catalog)


@dataclass(frozen=True, slots=True)
class Table:
    """One version of a table's metadata. Open a table with `harness.open_table`.

    Attributes:
        name: The table's full name in its catalog, starting with the catalog's name. None if the table was opened by
            location.
    """

    _source: FormatTable = field(repr=False)
    name: str | None = None

    def __repr__(self) -> str:
        return f"Table({point_text(self._source, self._source.current, self.name)})"

    def _repr_html_(self) -> str:
        """Return the table for notebooks: location, current snapshot, size, columns, five rows, and a picture.

        The picture shows the snapshots of an Iceberg table, or the partitions or files of a Delta table.
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
        """Return the first rows as HTML, or the reason why they cannot be read."""
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
        except HarnessError:  # The checkpoint that holds the statistics was deleted.
            return ""

    @property
    def location(self) -> str:
        """The location that was opened."""
        return self._source.location

    @property
    def format(self) -> str:
        """The table format, `iceberg` or `delta`."""
        return self._source.format

    @property
    def planning(self) -> str:
        """Who plans the reads: `server` if the catalog's server does, else `client`."""
        source = self._source
        return "server" if source.format == "iceberg" and source.server is not None else "client"

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self._source.schema

    @property
    def warnings(self) -> tuple[str, ...]:
        """Irregularities of the table that do not change its rows, one sentence each."""
        return self._source.warnings

    def snapshots(self) -> Listing:
        """Return all snapshots, or all versions of a Delta table.

        Returns:
            A list of dicts that prints as a table. Each dict has the keys `id`, `parent_id`, `timestamp_ms`
                (milliseconds since 1970-01-01 UTC), `operation`, and further keys of the format.

        Raises:
            HarnessError: A commit cannot be read.
        """
        from harness.metadata.model.text_tables import Listing

        with read_context(self._source, None):
            return Listing(self._source.snapshots())

    def history(self) -> History:
        """Return the snapshots or versions, newest first, with the changes that each of them made.

        Returns:
            For each snapshot or version, the number of rows, files, and bytes that were added and removed, and the
                changed columns.

        Raises:
            HarnessError: A commit cannot be read.
        """
        from harness.metadata.tables.history import History, history

        return History(history(self._source))

    def refs(self) -> dict[str, dict[str, Any]]:
        """Return the branches and tags.

        Returns:
            A dict of plain values for each branch or tag, by name. Delta tables have none.
        """
        return self._source.refs()

    @validate_call
    def metadata(self, name: str) -> MetadataTable:
        """Return a metadata table of the current snapshot. For other snapshots, use `Snapshot.metadata`.

        In SQL, append the metadata table's name to the table's name:

            harness.sql("FROM orders.files", {"orders": orders})

        Args:
            name: The name of the metadata table, as for `Snapshot.metadata`.

        Returns:
            The metadata table.

        Raises:
            RequestError: There is no metadata table with this name.
            HarnessError: The metadata cannot be read.
        """
        return self.snapshot().metadata(name)

    @validate_call
    def head(
        self, n: int = 10, *, columns: Sequence[str] | None = None, where: str | Filter | None = None, at: When = None
    ) -> duckdb.DuckDBPyRelation:
        """Return the first rows of a snapshot, like `Snapshot.head`.

        Args:
            n: The number of rows.
            columns: As for `Snapshot.head`.
            where: As for `Snapshot.head`.
            at: The snapshot, as for `snapshot`. None for the current snapshot.

        Returns:
            A lazy DuckDB relation, which prints as a table.

        Raises:
            HarnessError: As for `snapshot` and `Snapshot.head`.
        """
        return self.snapshot(at).head(n, columns=columns, where=where)

    def count(self, *, where: str | Filter | None = None, at: When = None) -> int:
        """Return the number of rows of a snapshot, like `Snapshot.count`.

        Args:
            where: As for `Snapshot.count`.
            at: The snapshot, as for `snapshot`. None for the current snapshot.

        Returns:
            The number of rows that match `where`.

        Raises:
            HarnessError: As for `snapshot` and `Snapshot.count`.
        """
        return self.snapshot(at).count(where=where)

    def to_arrow(self, *, at: When = None, **read: Unpack[ReadArguments]) -> pa.Table:
        """Return the rows of a snapshot as an Arrow table, like `Snapshot.to_arrow`.

        Args:
            at: The snapshot, as for `snapshot`. None for the current snapshot.
            read: The arguments of `Snapshot.to_arrow`.

        Returns:
            The rows in an unspecified order.

        Raises:
            HarnessError: As for `snapshot` and `Snapshot.to_arrow`.
        """
        return self.snapshot(at).to_arrow(**read)

    def to_pandas(self, *, at: When = None, **read: Unpack[ReadArguments]) -> pd.DataFrame:
        """Return the rows of a snapshot as a pandas DataFrame, like `Snapshot.to_pandas`.

        Args:
            at: The snapshot, as for `snapshot`. None for the current snapshot.
            read: The arguments of `Snapshot.to_arrow`.

        Returns:
            The rows with Arrow dtypes, in an unspecified order.

        Raises:
            HarnessError: As for `snapshot` and `Snapshot.to_pandas`.
        """
        return self.snapshot(at).to_pandas(**read)

    def to_polars(self, *, at: When = None, **read: Unpack[ReadArguments]) -> pl.DataFrame:
        """Return the rows of a snapshot as a Polars DataFrame, like `Snapshot.to_polars`.

        Args:
            at: The snapshot, as for `snapshot`. None for the current snapshot.
            read: The arguments of `Snapshot.to_arrow`.

        Returns:
            The rows in an unspecified order.

        Raises:
            HarnessError: As for `snapshot` and `Snapshot.to_polars`.
        """
        return self.snapshot(at).to_polars(**read)

    def to_batches(self, *, at: When = None, **read: Unpack[BatchArguments]) -> Batches:
        """Return the rows of a snapshot as a stream of Arrow batches, like `Snapshot.to_batches`.

        Args:
            at: The snapshot, as for `snapshot`. None for the current snapshot.
            read: The arguments of `Snapshot.to_batches`.

        Returns:
            The stream, which reads as batches are requested.

        Raises:
            HarnessError: As for `snapshot` and `Snapshot.to_batches`.
        """
        return self.snapshot(at).to_batches(**read)

    def describe(self) -> dict[str, Any]:
        """Return the table's metadata as plain values.

        Returns:
            A dict with the keys `format`, `location`, `uuid`, `properties`, and `warnings`, and further keys that
                depend on the format, for example schemas and snapshots.

        Raises:
            HarnessError: The metadata cannot be read.
        """
        with read_context(self._source, None):
            return self._source.describe()

    @validate_call
    def snapshot(self, at: When = None) -> Snapshot:
        """Return a snapshot and the schema that belongs to it, by default the current snapshot.

        `at` is one of these:

        - None: the current snapshot.
        - An int: a snapshot id, or a version of a Delta table.
        - A datetime: the snapshot that was current at that time. Without a time zone, it is in UTC.
        - A text in one of these forms: `"7"` is an id or version; `"2024-12-31"` and `"2024-12-31T23:59:59+01:00"` are
          times, in UTC if they have no offset; any other text is the name of a branch or tag, which only Iceberg tables
          have. The prefixes in `"snapshot=7"`, `"timestamp=1704067200000"` (milliseconds since 1970-01-01 UTC), and
          `"ref=2024-12-31"` choose the meaning explicitly.

        Args:
            at: The snapshot to return.

        Returns:
            The snapshot. Its `id` is None if the table has no snapshot yet.

        Raises:
            RequestError: The table's format does not support this kind of selection, or the text is not a valid time.
            SnapshotNotFoundError: There is no such snapshot, or it is older than `enforce_retention` allows. The
                message lists what exists.
            EncryptedTableError: The snapshot is encrypted.

        Spec: rules iceberg 1.32 to 1.37; delta L32 to L36.
        """
        with read_context(self._source, None):
            return Snapshot(self._source, self._source.select(at), self.name)

    @validate_call
    def changes(
        self,
        from_: When = None,
        to: When = None,
        *,
        from_inclusive: bool | None = None,
        mode: str = "changelog",
        keys: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        where: str | Filter | None = None,
        allow_out_of_range: bool = False,
    ) -> Changes:
        """Return the rows that were inserted, deleted, and updated between two moments.

            table.changes(3, 5)  # versions 3 to 5 of a Delta table; for Iceberg, what came after snapshot 3, up to 5
            table.changes("yesterday-tag", mode="net", where="region = 'eu'").to_arrow()

        In SQL, `changes` is a table function: `harness.sql("FROM changes('orders', 3, 5)", {"orders": orders})`.

        The rows of an Iceberg table have the table's columns in the schema of `to`, followed by `_change_type`,
        `_change_ordinal` (the number of the commit in the range, from 0), and `_commit_snapshot_id`. They come from the
        data files and deletes of each commit. Rows that a commit only moved to other files do not appear. The modes
        are:

        - `appends`: the rows that commits of operation `append` added, without regard to later deletes.
        - `changelog`: every `insert` and `delete` of every commit. An update is a delete and an insert.
        - `net`: the difference between the ends of the range. A row that was inserted and deleted again does not
          appear.
        - `updates`: like `changelog`, but a delete and an insert of the same row in one commit are an
          `update_preimage` and an `update_postimage`. Rows are the same if their row ids are, or else their keys.

        The rows of a Delta table have the table's columns as of the last version of the range, followed by
        `_change_type` (`insert`, `delete`, `update_preimage`, or `update_postimage`), `_commit_version`, and
        `_commit_timestamp`. They come from the table's change data feed, which must be enabled. If a version recorded
        no change files, an update appears as a delete and an insert. A row that was only moved to another file may
        appear in the same way.

        Args:
            from_: The moment at which the range begins, as for `at` of `snapshot`. For a Delta table, a time selects
                the first commit at or after it. None for the oldest snapshot that the metadata of an Iceberg table
                still has, including its own changes. Delta tables require it.
            to: The moment at which the range ends, as for `at` of `snapshot`. Its changes are included. For a Delta
                table, a time selects the last commit at or before it, and a version after the latest selects the
                latest. None for the current state.
            from_inclusive: Whether the changes of the commit `from_` are included. None for the habit of the format:
                False for snapshots of an Iceberg table, and True for versions of a Delta table.
            mode: The rows to return: `appends`, `changelog`, `net`, or `updates`. Delta tables only have `changelog`.
            keys: For the mode `updates`, the columns that identify a row. None for the identifier fields of the
                schema. Delta tables have none.
            columns: Names of columns of the result, in order. They may also be `_file` and `_pos` and, for Iceberg,
                `_row_id`, `_spec_id`, and `_partition`. None for all columns of the table and the columns of changes.
            where: A boolean SQL expression in DuckDB's dialect over these columns. It selects rows of the result, so it
                does not affect which rows are updates. Files that cannot match are skipped. None for all rows.
            allow_out_of_range: For Delta, whether a range outside the table's versions is empty. By default it is an
                error.

        Returns:
            The changes, which export to DuckDB, Spark, Arrow, pandas, and Polars.

        Raises:
            RequestError: The range is invalid, an argument does not apply to the table's format, or a column or `where`
                is invalid. Iceberg: `from_` is not an ancestor of `to`. Delta: the change data feed is not enabled in
                all of the range, or the schema changed in the range in other ways than by new columns.
            SnapshotNotFoundError: The snapshots or versions of the range do not exist.
            InvalidTableError: Commits of the range are no longer in the log.
            UnsupportedError: The table uses a feature that harness cannot read.

        Spec: rules delta C1 to C12; iceberg 8.1 to 8.4.
        """
        request = self._change_range(from_, to, from_inclusive=from_inclusive, mode=mode, keys=keys)
        names = None if columns is None else tuple(columns)
        with read_context(self._source, None):
            if self._source.format == "delta":
                plan = self._source.changes(request, names, where, allow_out_of_range=allow_out_of_range)
            elif allow_out_of_range:
                raise _foreign_option_error("allow_out_of_range", self.format, "delta")
            else:
                plan = self._source.changes(request, names, where)
            return Changes(plan, request)

    def _changes_schema(self, *, allow_out_of_range: bool = False, **request: Any) -> Schema:
        """Return the columns of `changes` with the same arguments, without planning the read."""
        change_range = self._change_range(**{"from_": None, "to": None, **request})
        with read_context(self._source, None):
            if self._source.format == "delta":
                return self._source.changes_schema(change_range, allow_out_of_range=allow_out_of_range)
            return self._source.changes_schema(change_range)

    def _change_range(
        self,
        from_: When,
        to: When,
        *,
        from_inclusive: bool | None = None,
        mode: str = ChangeMode.CHANGELOG.value,
        keys: Sequence[str] | None = None,
    ) -> ChangeRange:
        is_delta, change_mode = self.format == "delta", _change_mode(mode)
        if keys is not None and not is_delta and change_mode is not ChangeMode.UPDATES:
            raise RequestError("Invalid option keys: only mode='updates' uses keys", options=("keys", "mode"))
        return ChangeRange(
            from_=from_,
            to=to,
            from_inclusive=is_delta if from_inclusive is None else from_inclusive,
            mode=change_mode,
            keys=None if keys is None else tuple(keys),
        )

    @validate_call
    def trace(
        self,
        where: str | Filter,
        *,
        from_: When = None,
        to: When = None,
        columns: Sequence[str] | None = None,
        keys: Sequence[str] | None = None,
        missing: bool = False,
    ) -> Trace:
        """Trace rows: which commit brought them, which commits carried or changed them, and what ended them.

            print(orders.trace("id = 42"))

        Rows are followed from file to file by their row ids, else by `keys`, else by equal values. If the table does
        not record which of several rows continues a row, the trace states the number of candidates. It also names the
        commits and files that no longer exist.

        Args:
            where: A boolean SQL expression. All versions of rows that matched it at some time in the range are traced.
            from_: The first commit to look at, as for `snapshot`. None for the oldest one in the metadata.
            to: The last commit to look at, as for `snapshot`. None for the current one.
            columns: Names of the columns to read and compare. None for all columns.
            keys: Names of the columns that identify a row without a row id. None for the identifier fields of the
                table, if it has any.
            missing: If true, also explain for each live file why a read finds no matching row in it. All files are
                read, so that wrong statistics are found.

        Returns:
            The rows with their versions, events, and a sentence each. It prints as text.

        Raises:
            RequestError: A column is unknown, `where` cannot be parsed, `from_` is not an ancestor of `to`, or too many
                rows match.
            HarnessError: The table cannot be read.
        """
        from harness.trace import reading

        request = reading.TraceRequest(
            where=where,
            from_=from_,
            to=to,
            columns=None if columns is None else tuple(columns),
            keys=None if keys is None else tuple(keys),
            missing=missing,
        )
        with read_context(self._source, self.snapshot(to)._selection.snapshot):
            return reading.trace(self._source, request)

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
        """Make a slice: a small table of the same format with the data files that the filter needs.

        Under the filter, the slice and its source return the same rows. Data files are copied whole, and deletes remain
        deletes. Schemas, partition specs, ids, sequence numbers, properties, and the protocol equal the source's;
        the metadata names only files of the slice. The file `_harness_slice.json` records the source of the slice.

        If a pull is interrupted, the directory holds no readable table; call `pull` again with the same arguments to
        continue.

        Args:
            directory: A new or empty local directory or, with `refresh`, the directory of the slice. Do not move the
                slice later: the recorded paths are absolute, and other readers follow them.
            at: The newest snapshot of the slice, as for `snapshot`. None for the current snapshot.
            where: A boolean SQL expression that selects rows. None for all rows.
            last: The number of snapshots to include, counted back from `at`. The oldest of them has no parent in the
                slice.
            columns: Names of the slice's columns. None for all. The list must include the columns that partitions,
                equality deletes, and generated columns need.
            exact: If true, remove the rows that do not match `where`. Files that contain such rows are rewritten, and
                the positions of deletes are adjusted.
            sample_rows: The number of matching rows to keep, along with a proportional share of deleted rows. Every
                pull keeps the same rows. None for all rows.
            anonymise: A key for replacing values. Each replacement has the same type; nulls stay null, and equal values
                stay equal in all slices made with this key. Free texts in the metadata are removed.
                `docs/how-to/pull-a-slice.md` explains what an anonymized slice still reveals.
            refresh: If true, update the slice in `directory` to the table's current snapshot with its original
                options. No other option may be set. Files that the slice already has are not copied again, unless
                `exact`, `columns`, or `sample_rows` change them. Files that the new snapshots do not need are deleted.

        Returns:
            The directory, snapshots, and size of the slice, and notes on its gaps.

        Raises:
            RequestError: The directory is not empty, or the read cannot be planned. With `refresh`: the directory holds
                no slice, or the slice cannot follow the table, because another table replaced it, it was rolled back,
                the slice's snapshot has expired, or the slice was modified. Pull a new slice then.
            UnsupportedError: A slice cannot represent a part of the table.
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
                "Cannot refresh a slice with other options: a refresh uses the options of the pull. "
                "Leave the options out, or pull a new slice",
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
        """Check the table against its format's specification, and its metadata against its files and rows.

        Args:
            at: The snapshot or version to check, as for `snapshot`. None for the current one.
            level: How much to read. `metadata` reads no data file; `files` also checks the existence, size, and footer
                of every file; `data` also reads the values.
            all_snapshots: If true, check every snapshot or version instead of `at`.
            select: The checks to run, as ids, beginnings of ids (`ICE-2`), or patterns (`*-5*`). All checks run if it
                is empty.
            ignore: The checks not to run, in the same forms.
            columns: Names of the columns whose values are read. None for all columns.
            sample_files: The number of data files whose values are read. Every call reads the same files. None for all
                files.
            orphans: If true, also list files below the table's location that the metadata does not name.

        Returns:
            The findings with the most severe first, and a list of what could not be checked.

        Raises:
            RequestError: There is no such level, check, column, or snapshot.
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
    """Return the storage of one table, restricted to the table's roots.

    Storage options, which may hold credentials, are sent only to the stores that they were set for.

    Args:
        location: The table's location.
        options: The storage options, as for `open_table`.
        limits: The limits on metadata files.
        targets: The targets of the path map.
        allowed_roots: Further directories that may be read.
        outside: As for `open_table`.
        untrusted: As for `open_table`.
        renewal: A way to get new storage options when the current ones expire. None if they do not expire.

    Returns:
        The storage.

    Raises:
        RequestError: `outside` has an invalid value, or the options of a store are not a mapping.
    """
    if outside not in [kind.value for kind in Outside]:
        expected = f"expected one of {', '.join(kind.value for kind in Outside)}"
        raise RequestError(f"Invalid option outside={outside!r}: {expected}", options=("outside",))
    for key, value in options.items():
        if "://" in key and not isinstance(value, Mapping):
            raise RequestError(
                f"Invalid storage_options: the value for {redact(key)} is not a mapping", options=("storage_options",)
            )
    owners = targets if is_local(local_path(location)) else (location,)
    return Storage(
        dict(options),
        limits,
        stores=frozenset(canonical_path(owner).store for owner in owners if not is_local(local_path(owner))),
        roots=Roots.for_table(
            location, (*targets, *allowed_roots), outside=Outside.REFUSE if untrusted else Outside(outside)
        ),
        untrusted=untrusted,
        renewal=renewal,
    )


def check_within(
    directory: str, location: str, *, allowed_roots: tuple[str, ...], outside: str, untrusted: bool
) -> None:
    """Raise or warn if a table found in a directory is in fact outside it, for example behind a symbolic link.

    Args:
        directory: The directory where the table was found.
        location: The table's location.
        allowed_roots: Further directories that the table may be in.
        outside: As for `open_table`.
        untrusted: As for `open_table`.

    Raises:
        OutsideTableError: The table is outside, and `outside` or `untrusted` forbids that.
    """
    roots = Roots.for_table(directory, allowed_roots, outside=Outside.REFUSE if untrusted else Outside(outside))
    roots.check(PhysicalPath(f"{absolute(local_path(location), os.getcwd()).rstrip('/')}/"))
    sentence = roots.outside_notice()
    if sentence is not None:
        warn(f"Table {redact(location)}: {sentence}", OutsideTableWarning)


def load_table(
    location: PhysicalPath,
    storage: Storage,
    options: ReadOptions,
    *,
    format_hint: str | None,
    server: PlanServer | None = None,
) -> FormatTable:
    """Return the table at a location.

    Args:
        location: A table directory or, for Iceberg, a metadata file.
        storage: The storage of the table.
        options: The read options.
        format_hint: `iceberg` or `delta`. None to detect the format from the files at the location.
        server: The server that plans reads of the table, which is then an Iceberg table. None if harness plans them.

    Returns:
        The table with its current metadata.

    Raises:
        RequestError: There is no such format, or an option does not apply to the table's format.
        AmbiguousTableError: The location holds metadata of both formats.
        HarnessError: As for `harness.metadata.iceberg.table.load` and `harness.metadata.delta.table.load`.
    """
    if format_hint is not None and format_hint not in _FORMATS:
        expected = f"expected one of {', '.join(_FORMATS)}"
        raise RequestError(f"Invalid option format_hint={format_hint!r}: {expected}", options=("format_hint",))
    hint = "iceberg" if server is not None else format_hint
    table_format, log = (hint, None) if hint is not None else detect_format(location, storage)
    for name, other in _FORMAT_OF_OPTION.items():
        value = getattr(options, name)
        if other != table_format and value is not None and value is not False:
            raise _foreign_option_error(name, table_format, other)
    try:
        table: FormatTable
        if table_format == "delta":
            from harness.metadata.delta import table as delta

            table = delta.load(location, storage, options, listed=log)
        else:
            from harness.metadata.iceberg import table as iceberg

            if server is None:
                table = iceberg.load(location, storage, options)
            else:
                table = iceberg.load_from_server(location, server, storage, options)
    except TableNotFoundError as error:
        if error.cause != "MetadataNotFound" or format_hint is not None or storage.exists(location):
            raise
        names = (*storage.names(location), *storage.names(join(location, "metadata")))
        if any(name == "version-hint.text" or ".metadata.json" in name for name in names):
            raise
        from harness.metadata.catalogs.warehouse import no_table_error

        raise no_table_error(location, storage) from None
    sentence = None if storage.roots is None else storage.roots.outside_notice()
    if sentence is not None:
        warn(f"Table {redact(location)}: {sentence}", OutsideTableWarning)
    return table


def _foreign_option_error(name: str, table_format: str, other_format: str) -> RequestError:
    reason = f"the table is {table_format}, the option is for {other_format} tables"
    return RequestError(f"Invalid option {name}: {reason}", options=(name,))


def _change_mode(text: str) -> ChangeMode:
    try:
        return ChangeMode(text)
    except ValueError:
        expected = ", ".join(mode.value for mode in ChangeMode)
        raise RequestError(f"Invalid option mode={text!r}: expected one of {expected}", options=("mode",)) from None


def detect_format(location: PhysicalPath, storage: Storage) -> tuple[str, tuple[Entry, ...] | None]:
    """Detect the table format at a location: `delta` if there is a transaction log, else `iceberg`.

    In an object store, an empty log next to Iceberg metadata does not count as a log (delta L4), which saves one
    request for Iceberg tables.

    Args:
        location: The table's location.
        storage: The storage of the table.

    Returns:
        The format, and the listing of the log directory if the table is in an object store, so that it is not listed
            twice. The listing is None for local tables.

    Raises:
        AmbiguousTableError: There are both a transaction log and Iceberg metadata, as in tables that are written for
            readers of either format.
    """
    if location.endswith(".metadata.json") and not is_local(local_path(location)):
        return "iceberg", None  # No request is needed: only Iceberg tables are opened by a metadata file.
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
            "Cannot detect the table format: there are both a _delta_log and Iceberg metadata. "
            "Set format_hint='delta' or format_hint='iceberg'"
        )
        raise AmbiguousTableError(message, table=location, rule="delta U1", options=("format_hint",))
    return "delta", listed


def _has_iceberg_metadata(names: Iterable[str]) -> bool:
    """Return whether the file names of a directory include Iceberg metadata."""
    return any(name == "version-hint.text" or name.endswith(".metadata.json") for name in names)
