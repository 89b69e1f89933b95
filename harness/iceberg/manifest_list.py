"""Manifest lists: the manifests of a snapshot, with what can be known of each without opening it."""

from __future__ import annotations

from typing import Any

from harness.errors import CorruptFileError, EncryptedTableError
from harness.files.avro_numbers import DAMAGE
from harness.iceberg.avro import open_container
from harness.iceberg.avro_decoding import BOOLEAN, BYTES, LONG, TEXT, ListOf, Wanted, decode_error
from harness.limits import DEFAULT, Limits
from harness.records import dataclass


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """What a manifest's partition tuples have in one partition field. Bounds are encoded by the transform's result.

    contains_nan: None is unknown. lower, upper: None where there is no non-null value, or none was written.
    """

    contains_null: bool
    contains_nan: bool | None = None
    lower: bytes | None = None
    upper: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One manifest of a snapshot, as its list describes it.

    path: as recorded. length: bytes, informative only (iceberg 2.3); None: not recorded.
    spec_id: None: not recorded (a v1 snapshot with an inline list), the manifest's header says it (iceberg 1.27).
    is_deletes: whether its entries are delete files.
    counts: None is unknown and must be taken as "some".
    partitions: one summary per field of the spec, in order; None: unknown.
    key_metadata: None or non-empty; a manifest with it is encrypted.
    first_row_id: None: the files have no row ids.
    """

    path: str
    length: int | None = None
    spec_id: int | None = None
    is_deletes: bool = False
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None


# In the order in which `_manifest_file` takes a row apart. Names serve fields without ids only (iceberg 2.1).
_SUMMARY = (
    Wanted(509, ("contains_null",), kinds=BOOLEAN),
    Wanted(518, ("contains_nan",), kinds=BOOLEAN),
    Wanted(510, ("lower_bound",), kinds=BYTES),
    Wanted(511, ("upper_bound",), kinds=BYTES),
)
_WANTED = (
    Wanted(500, ("manifest_path",), kinds=TEXT),
    Wanted(502, ("partition_spec_id",), kinds=LONG),
    Wanted(501, ("manifest_length",), kinds=LONG),
    Wanted(517, ("content",), kinds=LONG),
    Wanted(515, ("sequence_number",), kinds=LONG),
    Wanted(516, ("min_sequence_number",), kinds=LONG),
    Wanted(503, ("added_snapshot_id",), kinds=LONG),
    Wanted(504, ("added_files_count", "added_data_files_count"), kinds=LONG),
    Wanted(505, ("existing_files_count", "existing_data_files_count"), kinds=LONG),
    Wanted(506, ("deleted_files_count", "deleted_data_files_count"), kinds=LONG),
    Wanted(512, ("added_rows_count",), kinds=LONG),
    Wanted(513, ("existing_rows_count",), kinds=LONG),
    Wanted(514, ("deleted_rows_count",), kinds=LONG),
    Wanted(507, ("partitions",), ListOf(_SUMMARY)),
    Wanted(519, ("key_metadata",), kinds=BYTES),
    Wanted(520, ("first_row_id",), kinds=LONG),
)


def parse_manifest_list(data: bytes, *, file: str, limits: Limits = DEFAULT) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot, in the list's order. `file` is the list's path, for messages.

    Raises:
        CorruptFileError: the bytes are damaged, or a manifest's path or spec id is missing (iceberg 2.2).
        EncryptedTableError: the list, or a manifest in it, is encrypted (iceberg 2.19).
        LimitError: it asks for more than `limits` allow.
    """
    container = open_container(data, file=file, limits=limits)
    try:
        return tuple(_manifest_file(row, file) for row in container.records(_WANTED))
    except DAMAGE as error:  # a field of another type than it must have
        raise decode_error(error, file=file) from error


def _manifest_file(row: list[Any], file: str) -> ManifestFile:
    path, spec_id, length, content, sequence_number, min_sequence_number, added_snapshot_id, *rest = row
    *counts, summaries, key_metadata, first_row_id = rest
    for name, value in (("manifest_path", path), ("partition_spec_id", spec_id)):
        if value is None:
            raise _corrupt(f"a manifest has no {name}", file, name)
    if content not in (None, 0, 1):
        raise _corrupt(f"got content {content!r}, expected 0 (data) or 1 (deletes)", file, "content")
    if key_metadata:
        raise EncryptedTableError(
            f"Cannot read manifest {path}: it is encrypted, and harness holds no keys",
            cause="EncryptedTable",
            file=file,
            field="key_metadata",
            rule="iceberg 2.19",
        )
    return ManifestFile(
        path=path,
        length=length,
        spec_id=spec_id,
        is_deletes=content == 1,
        sequence_number=sequence_number or 0,
        min_sequence_number=min_sequence_number or 0,
        added_snapshot_id=added_snapshot_id,
        added_files_count=_known(counts[0]),
        existing_files_count=_known(counts[1]),
        deleted_files_count=_known(counts[2]),
        added_rows_count=_known(counts[3]),
        existing_rows_count=_known(counts[4]),
        deleted_rows_count=_known(counts[5]),
        partitions=_summaries(summaries),
        first_row_id=first_row_id,
    )


def _known(count: int | None) -> int | None:
    """A negative count is a writer's way to say unknown."""
    return None if count is None or count < 0 else count


def _summaries(rows: list[list[Any]] | None) -> tuple[FieldSummary, ...] | None:
    # A summary without contains_null is read as "may contain nulls".
    return None if rows is None else tuple(FieldSummary(null is not False, *rest) for null, *rest in rows)


def _corrupt(reason: str, file: str, field: str) -> CorruptFileError:
    return CorruptFileError(
        f"Invalid manifest list: {reason}", cause="CorruptManifest", file=file, field=field, rule="iceberg 2.2"
    )
