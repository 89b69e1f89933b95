"""Parser of table metadata: one JSON document becomes typed, immutable values (iceberg 1.7 to 1.31).

Parsing is strict if a reader depends on the part (schemas, specs, snapshots, refs) and lenient otherwise (sort orders,
statistics files, metadata log). An error in a lenient part becomes a text in `TableMetadata.warnings`, and the table
stays readable.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import pyarrow as pa

from harness.errors import CorruptFileError, InvalidTableError, IsAViewError, TableNotFoundError, UnsupportedError
from harness.metadata.files.documents import (
    Json,
    TooLongError,
    check_document,
    decompress_streams,
    json_pointer,
    unzstd,
)
from harness.metadata.iceberg.model import (
    BlobMetadata,
    IcebergSnapshot,
    LogEntry,
    MetadataLogEntry,
    PartitionSpec,
    PartitionStatisticsFile,
    RefType,
    SnapshotRef,
    SortOrder,
    StatisticsFile,
    TableMetadata,
    parse_sort_order,
    parse_spec,
    parse_spec_fields,
)
from harness.metadata.iceberg.transforms import Void
from harness.metadata.iceberg.types import parse_schema
from harness.metadata.model.schema import Schema, check_nesting
from harness.metadata.plan.deletes import directory_of
from harness.storage.limits import DEFAULT, Limits, limit_error
from harness.storage.paths import PhysicalPath, RecordedPath, is_local, join, local_path, slashed
from harness.storage.stores import Storage

# Each parser raises InvalidTableError, with the place in the document, if a part is missing or has the wrong type.


def parse_snapshot(item: Json) -> IcebergSnapshot:
    """Parse an element of `snapshots` (iceberg 1.26, 1.28)."""
    manifest_list = item.optional_text("manifest-list")
    manifests = item.texts("manifests") if manifest_list is None and item.has("manifests") else None
    id_ = item.snapshot_id("snapshot-id")
    if manifest_list is None and manifests is None:
        raise item.error(f"Invalid snapshot {id_}: it has neither 'manifest-list' nor 'manifests'")
    summary = parse_texts(item.optional("summary"))
    return IcebergSnapshot(
        id=id_,
        parent_id=item.optional_snapshot_id("parent-snapshot-id"),
        sequence_number=item.optional_integer("sequence-number") or 0,
        timestamp_ms=item.integer("timestamp-ms"),
        manifest_list=None if manifest_list is None else RecordedPath(manifest_list),
        manifests=None if manifests is None else tuple(map(RecordedPath, manifests)),
        operation=summary.get("operation", "overwrite"),
        summary=summary,
        schema_id=item.optional_integer("schema-id", bits=32),
        first_row_id=item.optional_integer("first-row-id"),
        added_rows=item.optional_integer("added-rows"),
        key_id=item.optional_text("key-id"),
    )


def parse_ref(item: Json) -> SnapshotRef:
    """Parse a value of `refs` (iceberg 1.25, 1.37)."""
    return SnapshotRef(
        snapshot_id=item.snapshot_id("snapshot-id"),
        type=item.choice("type", RefType),
        min_snapshots_to_keep=item.optional_integer("min-snapshots-to-keep"),
        max_snapshot_age_ms=item.optional_integer("max-snapshot-age-ms"),
        max_ref_age_ms=item.optional_integer("max-ref-age-ms"),
    )


def parse_statistics_file(item: Json) -> StatisticsFile:
    """Parse an element of `statistics` (iceberg 1.29)."""
    return StatisticsFile(
        snapshot_id=item.snapshot_id("snapshot-id"),
        path=RecordedPath(item.text("statistics-path")),
        size=item.optional_integer("file-size-in-bytes"),
        footer_size=item.optional_integer("file-footer-size-in-bytes"),
        blobs=tuple(
            BlobMetadata(
                type=blob.text("type"),
                snapshot_id=blob.snapshot_id("snapshot-id"),
                sequence_number=blob.integer("sequence-number"),
                fields=blob.integers("fields"),
                properties=parse_texts(blob.optional("properties")),
            )
            for blob in item.elements("blob-metadata")
        ),
    )


def parse_texts(document: Json | None) -> dict[str, str]:
    """Parse a map of strings. Other values become their JSON text, and nulls are left out (iceberg 1.28)."""
    if document is None:
        return {}
    return {
        key: value if type(value) is str else json.dumps(value)
        for key, value in document.object().items()
        if value is not None
    }


SUPPORTED_VERSIONS = (1, 2, 3)
NO_SNAPSHOT = -1
OUT_OF_ORDER_MS = 60_000
# Required by the format but not needed by a reader: if they are missing, a warning is enough (iceberg 1.17).
_EXPECTED = ("last-column-id", "last-updated-ms")
_EXPECTED_V2 = (
    "table-uuid",
    "last-sequence-number",
    "default-spec-id",
    "last-partition-id",
    "sort-orders",
    "default-sort-order-id",
)
_EXPECTED_V3 = ("next-row-id",)

T = TypeVar("T")
Identified = TypeVar("Identified", Schema, PartitionSpec)


def parse_metadata(data: bytes, *, file: str, limits: Limits = DEFAULT) -> TableMetadata:
    """Parse the bytes of a metadata file. The bytes themselves show whether they are plain, gzip, or zstd.

    Args:
        data: The content of the file.
        file: The path of the file, for messages.
        limits: Bounds on the length, the number of values, and the nesting of types.

    Raises:
        CorruptFileError: The bytes are damaged or are not JSON.
        TableNotFoundError: The JSON is not table metadata; `IsAViewError` if it is a view's (iceberg 1.9).
        UnsupportedError: The format version is not 1, 2, or 3 (iceberg 1.15).
        InvalidTableError: The metadata breaks the specification in a part that a reader depends on.
        LimitError: The metadata exceeds `limits`.
    """
    try:
        plain = decompress(data, file=file, limits=limits)
        check_document(plain, file=file, limits=limits)
        value = json.loads(plain.decode("utf-8-sig"), parse_constant=_refuse_constant)
        return parse_metadata_document(value, file=file, limits=limits)
    except RecursionError as error:
        raise _corrupt("it is nested too deeply", file) from error
    except ValueError as error:
        raise _corrupt(f"it is not JSON ({error})", file) from error


def parse_metadata_document(value: object, *, file: str, limits: Limits = DEFAULT) -> TableMetadata:
    """Parse table metadata that is already decoded from JSON, for example from the response of a catalog.

    Raises the errors of `parse_metadata` except CorruptFileError.

    Args:
        value: The decoded JSON.
        file: The path of the metadata file, for messages.
        limits: As for `parse_metadata`.
    """
    document = Json(value, file, rule="iceberg 1.17")
    version = _format_version(document)
    ignored: list[str] = []
    expected = _EXPECTED + (_EXPECTED_V2 if version >= 2 else ()) + (_EXPECTED_V3 if version >= 3 else ())
    missing = tuple(key for key in expected if not document.has(key))
    schemas, current_schema_id = _schemas(document, version)
    for schema in schemas.values():
        check_nesting(schema.fields, limits, file=file)
    specs = _specs(document, version)
    default_spec_id = document.optional_integer("default-spec-id", bits=32)
    snapshots = _snapshots(document, ignored)
    sort_orders = _lenient(document, "sort-orders", parse_sort_order, ignored)
    current_snapshot_id = _current_snapshot_id(document, snapshots)
    metadata = TableMetadata(
        file=file,
        format_version=version,
        uuid=document.optional_text("table-uuid"),
        location=RecordedPath(document.text("location")),
        last_updated_ms=document.optional_integer("last-updated-ms"),
        last_sequence_number=document.optional_integer("last-sequence-number") or 0,
        schemas=schemas,
        current_schema_id=current_schema_id,
        specs=specs,
        default_spec_id=max(specs, default=0) if default_spec_id is None else default_spec_id,
        sort_orders={0: SortOrder(0, ())} | {order.id: order for order in sort_orders},  # order 0 always exists (1.18)
        default_sort_order_id=document.optional_integer("default-sort-order-id") or 0,
        snapshots=snapshots,
        current_snapshot_id=current_snapshot_id,
        refs=_refs(document, current_snapshot_id),
        snapshot_log=tuple(
            LogEntry(entry.integer("timestamp-ms"), entry.snapshot_id("snapshot-id"))
            for entry in document.with_rule("iceberg 1.33").elements("snapshot-log")
        ),
        metadata_log=_lenient(
            document,
            "metadata-log",
            lambda item: MetadataLogEntry(item.integer("timestamp-ms"), RecordedPath(item.text("metadata-file"))),
            ignored,
        ),
        statistics=_lenient(document, "statistics", parse_statistics_file, ignored),
        partition_statistics=_lenient(
            document,
            "partition-statistics",
            lambda item: PartitionStatisticsFile(
                snapshot_id=item.snapshot_id("snapshot-id"),
                path=RecordedPath(item.text("statistics-path")),
                size=item.optional_integer("file-size-in-bytes"),
            ),
            ignored,
        ),
        properties=parse_texts(document.optional("properties")),
        next_row_id=document.optional_integer("next-row-id"),
        encryption_keys=tuple(k.text("key-id") for k in document.with_rule("iceberg 1.31").elements("encryption-keys")),
        missing=missing,
        ignored=tuple(ignored),
        warnings=(),
    )
    return replace(metadata, warnings=tuple(_warnings(metadata)))


def _refuse_constant(name: str) -> object:
    raise ValueError(f"it holds {name}")


def _corrupt(reason: str, file: str) -> CorruptFileError:
    message = f"Cannot parse metadata file: {reason}"
    return CorruptFileError(message, cause="CorruptMetadata", file=file, rule="iceberg 1.7")


def _format_version(document: Json) -> int:
    """Return the format version, after checking that the document is table metadata that harness can read."""
    value = document.value
    if type(value) is not dict or not ("format-version" in value or "view-uuid" in value):
        message = "Cannot open table: the file is no Iceberg table metadata, it has no 'format-version'"
        raise TableNotFoundError(message, cause="NotATable", file=document.file, rule="iceberg 1.15")
    if value.get("view-uuid") is not None:
        texts = "; ".join(f"its SQL in {dialect} is {text}" for dialect, text in sorted(_view_texts(document).items()))
        message = f"Cannot open table: it is a view. Query the tables that it reads instead; {texts or 'it has no SQL'}"
        raise IsAViewError(message, file=document.file, rule="iceberg 1.9")
    version = document.with_rule("iceberg 1.15").integer("format-version")
    if version not in SUPPORTED_VERSIONS:
        raise UnsupportedError(
            f"Cannot read table of Iceberg format version {version}: supported are versions 1, 2 and 3",
            cause="UnsupportedVersion",
            file=document.file,
            field="/format-version",
            rule="iceberg 1.15",
        )
    return version


def _view_texts(document: Json) -> dict[str, str]:
    """Return the SQL of a view's current (or else last) version by dialect. Malformed parts are ignored."""
    try:
        versions = list(document.elements("versions"))
        current = [v for v in versions if v.value.get("version-id") == document.value.get("current-version-id")]
        return {
            representation.text("dialect"): " ".join(representation.text("sql").split())
            for version in (current or versions)[-1:]
            for representation in version.elements("representations")
            if representation.has("dialect") and representation.has("sql")
        }
    except (InvalidTableError, AttributeError):
        return {}


def _schemas(document: Json, version: int) -> tuple[dict[int, Schema], int]:
    """Return schemas by id and the id of the current schema. In v1, `schema` may replace `schemas` (iceberg 1.18)."""
    document = document.with_rule("iceberg 1.17" if version >= 2 else "iceberg 1.18")
    if document.has("schemas"):
        schemas = _by_id(document, "schemas", (parse_schema(item) for item in document.elements("schemas")))
        if not document.has("current-schema-id"):
            message = "Missing required field 'current-schema-id': the current schema is unknown"
            raise document.error(message, key="current-schema-id", cause="MissingSchema")
        current = document.integer("current-schema-id", bits=32)
    elif version == 1 and document.has("schema"):
        schema = parse_schema(document.child("schema"))
        schemas, current = {schema.id: schema}, schema.id
    else:
        raise document.error("Missing required field 'schemas'", key="schemas", cause="MissingSchema")
    if current not in schemas:
        schema_ids = ", ".join(map(str, schemas)) or "none"
        message = f"Invalid current schema: got id {current}, expected one of the table's schemas ({schema_ids})"
        raise document.error(message, key="current-schema-id", cause="MissingSchema")
    return schemas, current


def _specs(document: Json, version: int) -> dict[int, PartitionSpec]:
    """Return partition specs by id. In v1, `partition-spec` may replace `partition-specs`, as spec 0 (iceberg 1.18)."""
    if document.has("partition-specs"):
        return _by_id(document, "partition-specs", (parse_spec(item) for item in document.elements("partition-specs")))
    if version == 1 and document.has("partition-spec"):
        return {0: PartitionSpec(0, parse_spec_fields(document.child("partition-spec")))}
    raise document.error("Missing required field 'partition-specs'", key="partition-specs", cause="MissingSpec")


def _snapshots(document: Json, ignored: list[str]) -> dict[int, IcebergSnapshot]:
    """Return snapshots by id, in file order."""
    document = document.with_rule("iceberg 1.26")
    snapshots: dict[int, IcebergSnapshot] = {}
    without_operation = 0
    for item in document.elements("snapshots"):
        snapshot = parse_snapshot(item)
        if snapshot.id in snapshots:
            raise item.error(f"Invalid snapshots: id {snapshot.id} occurs twice", key="snapshot-id")
        snapshots[snapshot.id] = snapshot
        without_operation += bool(snapshot.summary) and "operation" not in snapshot.summary
    if without_operation:
        ignored.append(
            f"{without_operation} snapshot summaries have no operation and are read as overwrite [iceberg 1.28]"
        )
    return snapshots


def _current_snapshot_id(document: Json, snapshots: Mapping[int, IcebergSnapshot]) -> int | None:
    """Return the current snapshot's id.

    The result is None if the id is absent, null, or -1. The table then has no rows (iceberg 1.24).
    """
    document = document.with_rule("iceberg 1.24")
    current = document.optional_snapshot_id("current-snapshot-id")
    if current is None or current == NO_SNAPSHOT:
        return None
    if current not in snapshots:
        message = f"Invalid current snapshot: id {current} is not among the table's {len(snapshots)} snapshots"
        raise document.error(message, key="current-snapshot-id", cause="MissingSnapshot")
    return current


def _refs(document: Json, current: int | None) -> dict[str, SnapshotRef]:
    """Return branches and tags by name. `main` is added if the file leaves it out (iceberg 1.25)."""
    document = document.with_rule("iceberg 1.25")
    listed_refs = document.optional("refs")
    refs = (
        {}
        if listed_refs is None
        else {name: parse_ref(listed_refs.child(name)) for name in listed_refs.object() if listed_refs.has(name)}
    )
    main = refs.get("main")
    if main is not None and main.snapshot_id != (NO_SNAPSHOT if current is None else current):
        message = f"Invalid refs: main is at snapshot {main.snapshot_id}, but the current snapshot is {current}"
        raise document.error(message, key="refs", cause="MissingSnapshot")
    if main is None and current is not None:
        refs = {"main": SnapshotRef(snapshot_id=current, type=RefType.BRANCH)} | refs
    return {name: ref for name, ref in refs.items() if name != "main" or current is not None}


def _warnings(metadata: TableMetadata) -> Iterator[str]:
    """Yield a sentence for each gap or contradiction that does not affect readers."""
    if metadata.missing:
        lacks = ", ".join(metadata.missing)
        yield f"Metadata of format version {metadata.format_version} lacks {lacks} [iceberg 1.17]"
    yield from metadata.ignored
    if metadata.default_spec_id not in metadata.specs:
        yield f"The default partition spec {metadata.default_spec_id} is not among the table's specs [iceberg 1.17]"
    else:
        columns = metadata.current_schema.by_id()
        for field in metadata.specs[metadata.default_spec_id].fields:
            if not isinstance(field.transform, Void) and not all(source in columns for source in field.source_ids):
                yield f"Partition field '{field.name}' of the default spec reads a dropped column [iceberg 1.21]"
    if metadata.default_sort_order_id not in metadata.sort_orders:
        yield f"The default sort order {metadata.default_sort_order_id} is not among the table's orders [iceberg 1.17]"
    log = metadata.metadata_log
    if any(later.timestamp_ms < earlier.timestamp_ms - OUT_OF_ORDER_MS for earlier, later in pairwise(log)):
        yield "The metadata log is more than a minute out of order [iceberg 1.8]"


def _lenient(document: Json, key: str, parse: Callable[[Json], T], ignored: list[str]) -> tuple[T, ...]:
    """Return the elements of a list that reads do not depend on.

    Each element that cannot be parsed adds a sentence to `ignored`.
    """
    parsed: list[T] = []
    try:
        for item in document.elements(key):
            try:
                parsed.append(parse(item))
            except InvalidTableError as error:
                ignored.append(f"Ignored {json_pointer(item.path)}: {error.message}")
    except InvalidTableError as error:
        ignored.append(f"Ignored /{key}: {error.message}")
    return tuple(parsed)


def _by_id(document: Json, key: str, values: Iterable[Identified]) -> dict[int, Identified]:
    """Return values by id. A value may be listed twice, but two different values may not share an id."""
    by_id: dict[int, Identified] = {}
    for value in values:
        if by_id.setdefault(value.id, value) != value:
            raise document.error(f"Invalid {key}: id {value.id} has two meanings, expected unique ids", key=key)
    return by_id


# The first bytes of a metadata file decide how it is compressed, never its name (iceberg 1.7).


GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def decompress(data: bytes, *, file: str, limits: Limits) -> bytes:
    """Return the content of a metadata file, decompressed if it is gzip or zstd. zstd is outside the specification.

    Raises:
        CorruptFileError: The compressed bytes are damaged or truncated.
        LimitError: The content is longer than `limits.document_bytes`.
        UnsupportedError: The file is zstd, and the installed pyarrow does not support zstd.
    """
    most = limits.document_bytes
    try:
        if data.startswith(GZIP_MAGIC):
            return decompress_streams(data, codec="gzip", max_bytes=most)
        if data.startswith(ZSTD_MAGIC):
            if not pa.Codec.is_available("zstd"):
                message = "Cannot decompress metadata file: it is zstd, which the installed pyarrow cannot read"
                raise UnsupportedError(message, cause="UnsupportedCodec", file=file, rule="iceberg 1.7")
            return unzstd(data, max_bytes=most)
        return data
    except TooLongError as error:
        reason = f"its {len(data):,} bytes decompress to {error.length:,} or more, {most:,} are allowed"
        raise limit_error("document_bytes", reason, file=file) from error
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptFileError(
            f"Cannot decompress metadata file: {error}", cause="CorruptMetadata", file=file, rule="iceberg 1.7"
        ) from error


# If a table was copied or moved, the location in its metadata differs from the location at which the metadata file was
# opened. This difference is the move (iceberg 1.11 to 1.13). Cutting paths at `/data/` or `/metadata/` instead would
# break tables with directories of these names.


METADATA_PATH_PROPERTY = "write.metadata.path"


def default_prefixes(metadata: TableMetadata, storage: Storage) -> tuple[tuple[str, str], ...]:
    """Return (recorded prefix, physical prefix) pairs for a moved table, or nothing if the table was not moved.

    The recorded metadata directory is one of these: the directory of the current manifest list, the property
    `write.metadata.path`, or `metadata` in the table's location. If one of them is the directory that was opened, the
    table was not moved. Otherwise, take the part of each recorded directory below the recorded location, for example
    `/metadata`: if the path of the opened directory ends with it, the rest of that path is the new location. A metadata
    directory outside the location, or one that was renamed, counts as moved only if the current manifest list is in the
    opened directory. So a single copied metadata file still reads the table at its old location.
    """
    # An absolute path, so that a relative path like `v1.metadata.json` has a directory.
    file = metadata.file
    local = is_local(file)
    opened = PhysicalPath(slashed(os.path.dirname(os.path.abspath(local_path(file)))) if local else directory_of(file))
    location = slashed(local_path(metadata.location)).rstrip("/")
    snapshot = metadata.current_snapshot
    manifest_paths = () if snapshot is None else (snapshot.manifest_list, *(snapshot.manifests or ()))
    manifest_list = next((path for path in manifest_paths if path), None)
    candidates = [
        None if manifest_list is None else directory_of(manifest_list),
        metadata.properties.get(METADATA_PATH_PROPERTY),
        join(location, "metadata"),
    ]
    recorded = [slashed(local_path(candidate)).rstrip("/") for candidate in candidates if candidate is not None]
    if not location or opened in recorded:
        return ()
    list_prefixes: tuple[tuple[str, str], ...] = ()
    if manifest_list is not None:
        listed_in, name = directory_of(manifest_list), slashed(manifest_list).rsplit("/", 1)[-1]
        inside = listed_in == location or listed_in.startswith(location + "/")
        if (not inside or not _shares_end(opened, listed_in, location)) and storage.has_file(join(opened, name)):
            list_prefixes = ((listed_in, opened),)
    for directory in recorded:
        if _shares_end(opened, directory, location):
            root = opened[: len(opened) - len(directory[len(location) :])]
            return (*list_prefixes, (location, root or "/"))
    return list_prefixes


def _shares_end(opened: str, recorded: str, location: str) -> bool:
    """Return whether `opened` ends with the part of `recorded` below `location`, at a path-component boundary."""
    return recorded.startswith(location + "/") and opened.endswith(recorded[len(location) :])
