"""Plans a read of an Iceberg table, from its current metadata file and moved paths on (iceberg 1.1 to 1.14)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from harness.errors import (
    AmbiguousTableError,
    HarnessError,
    InvalidTableError,
    TableNotFoundError,
    UnknownColumnError,
)
from harness.testing.oracle.documents import mapping, needed, optional, parse_json
from harness.testing.oracle.iceberg_deletes import Positions, applying, check_data, check_deletes, key_columns
from harness.testing.oracle.iceberg_manifests import DATA, TableFiles, live_files, partition_fields
from harness.testing.oracle.iceberg_metadata import MetadataValues, read_metadata, read_with, select
from harness.testing.oracle.paths import Files, PathMap, directory_of, is_local, join, local_path
from harness.testing.oracle.scan import EqualityDelete, Request, Scan, asked
from harness.testing.oracle.types import METADATA, UNKNOWN, Field, MappedName, StructType

_SUFFIX = r"(?:\.(?:gz|gzip|zst|zstd))?\.metadata\.json(?:\.(?:gz|gzip|zst|zstd))?"
_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz", ".gzip.metadata.json", ".zstd.metadata.json")
_LEFT_OVER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}" + _SUFFIX, re.IGNORECASE)


def _current_metadata(location: str, files: Files) -> str:
    """The current metadata file: `location` itself, or by a version hint or version numbers (iceberg 1.4, 1.5)."""
    if not files.is_directory(location) and files.has_file(location):
        return location
    for directory in (join(location, "metadata"), location.rstrip("/") or "/"):
        if files.has_file(join(directory, "version-hint.text")):
            hint = files.read(join(directory, "version-hint.text")).decode("utf-8-sig", "replace").strip()
            if hint:
                return _hinted(directory, hint, files)
        names = [e.name for e in files.entries(directory) if re.fullmatch(f".+?{_SUFFIX}", e.name)]
        if names:
            names = [name for name in names if not _LEFT_OVER.fullmatch(name)]
            numbers = [(re.fullmatch(rf"v([0-9]+){_SUFFIX}", name), name) for name in names]
            if not names or any(match is None for match, _ in numbers):
                message = "Cannot tell the current metadata file: there is no version hint; name the file itself"
                raise AmbiguousTableError(message, cause="AmbiguousMetadata", file=directory, rule="iceberg 1.5")
            ordered = sorted((-int(match[1]), len(name), name) for match, name in numbers if match is not None)
            return join(directory, ordered[0][2])
    raise TableNotFoundError("There is no table metadata", cause="MetadataNotFound", table=location)


def path_map(metadata: MetadataValues, files: Files, prefixes: Mapping[str, str]) -> PathMap:
    """Maps recorded to physical paths: the caller's prefixes, then the table's own move (iceberg 1.12).

    The table was not moved if its metadata file was opened where metadata is recorded to be. It was moved as a whole
    if the directory opened ends like the recorded one does below the table's location. A metadata directory elsewhere
    counts as moved if its manifest list came along.
    """
    location = local_path(metadata.location).rstrip("/")
    opened = directory_of(os.path.abspath(local_path(metadata.file)) if is_local(metadata.file) else metadata.file)
    current = metadata.current
    lists: Sequence[str] = (
        () if current is None else [current.manifest_list] if current.manifest_list else current.manifests
    )
    recorded = [directory_of(path) for path in lists[:1]]
    if "write.metadata.path" in metadata.properties:
        recorded.append(local_path(metadata.properties["write.metadata.path"]).rstrip("/"))
    recorded.append(f"{location}/metadata")
    found = list(prefixes.items())
    if not location or opened in recorded:
        return PathMap(tuple(found))
    below = [directory[len(location) :] for directory in recorded if directory.startswith(location + "/")]
    if lists and not (recorded[0].startswith(location + "/") and opened.endswith(below[0])):
        name = lists[0].rsplit("/", 1)[-1]
        if files.has_file(join(opened, name)):
            found.append((recorded[0], opened))
    root = next((opened[: -len(end)] for end in below if opened.endswith(end)), None)
    return PathMap((*found, *([] if root is None else [(location, root or "/")])))


def _hinted(directory: str, hint: str, files: Files) -> str:
    """The file of the hinted version or of a later one; or the file that the hint names (iceberg 1.3, 1.6)."""
    number = re.fullmatch(r"v?([0-9]{1,18})", hint)
    found = None if number is None else _version(directory, int(number[1]), files)
    if number is None or found is None:
        stems = [hint, *(hint + suffix for suffix in _SUFFIXES)] if not {"/", "\\"} & set(hint) else []
        named = [join(directory, stem) for stem in stems if re.fullmatch(f".+?{_SUFFIX}", stem)]
        for path in named:
            if files.has_file(path):
                return path
        raise TableNotFoundError(f"There is no metadata of the version hint {hint!r:.80}", cause="MetadataNotFound")
    version = int(number[1])
    while (later := _version(directory, version + 1, files)) is not None:
        found, version = later, version + 1
    return found


def _version(directory: str, version: int, files: Files) -> str | None:
    paths = [join(directory, f"v{version}{suffix}") for suffix in _SUFFIXES]
    return next((path for path in paths if files.has_file(path)), None)


def scan_iceberg(request: Request, files: Files) -> Scan:
    """The scan of a read, with all live data files in it."""
    path = _current_metadata(request.location, files)
    try:
        metadata = read_metadata(files.read(path), file=path)
        snapshot, schema = select(metadata, request)
        metadata = read_with(metadata, schema)
        name_mapping = _name_mapping(metadata)
    except HarnessError as error:
        raise error.within(file=path) from error.__cause__
    columns, condition, used = asked(request, schema, lambda field: _typed(field, metadata))
    if "_row_commit_version" in used:
        raise UnknownColumnError("Only Delta tables have _row_commit_version", field="_row_commit_version")
    table = TableFiles(files, path_map(metadata, files, request.path_map))
    live = () if snapshot is None else live_files(metadata, snapshot, table)
    deletes = tuple(file for file in live if file.content != DATA)
    check_deletes(deletes, metadata)
    check_data(live)
    targets = [(file, applying(file, deletes)) for file in live if file.content == DATA]
    hitting = {id(delete): delete for _, found in targets for delete in found.equality}
    keys = {key: EqualityDelete(delete, *key_columns(delete, metadata)) for key, delete in hitting.items()}
    positions = Positions(targets, table)
    return Scan(
        table=request.location,
        format="iceberg",
        snapshot=None if snapshot is None else snapshot.id,
        columns=columns,
        filter=condition,
        data=tuple(
            replace(
                file,
                equality=tuple(keys[id(delete)] for delete in found.equality),
                positions=partial(positions.of, file, found),
            )
            for file, found in targets
        ),
        files=files,
        name_mapping=name_mapping,
    )


def _typed(column: Field, metadata: MetadataValues) -> Field:
    """`_partition` gets the struct that this table gives it (iceberg 5.17)."""
    if column.id != METADATA["_partition"].id:
        return column
    fields = partition_fields(metadata)
    return replace(column, type=StructType(fields) if fields else UNKNOWN)


def _name_mapping(metadata: MetadataValues) -> tuple[MappedName, ...] | None:
    """The property's mapping (iceberg 5.7)."""
    text = metadata.properties.get("schema.name-mapping.default")
    return None if text is None else _mapped(needed({"it": parse_json(text)}, "it", list), set())


def _mapped(level: list[object], ids: set[int]) -> tuple[MappedName, ...]:
    entries, seen = [], set[str]()
    for entry in map(mapping, level):
        names, field_id = optional(entry, "names", list) or [], optional(entry, "field-id", int)
        if seen & set(names) or len(set(names)) < len(names) or field_id in ids:
            raise InvalidTableError(f"The name mapping repeats {names} or {field_id}", rule="iceberg 5.7")
        seen |= set(names)
        ids |= set() if field_id is None else {field_id}
        fields = _mapped(optional(entry, "fields", list) or [], ids)
        entries.append(MappedName(names=tuple(names), field_id=field_id, fields=fields))
    return tuple(entries)
