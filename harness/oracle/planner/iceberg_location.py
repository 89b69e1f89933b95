"""Where an Iceberg table's current metadata is, and where its recorded paths are now (iceberg 1.1 to 1.14)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from harness.errors import AmbiguousTableError, TableNotFoundError
from harness.oracle.planner.iceberg_metadata import Metadata
from harness.storage.paths import PathMap, is_local, join, local_path
from harness.storage.stores import Storage

_SUFFIX = r"(?:\.(?:gz|gzip|zst|zstd))?\.metadata\.json(?:\.(?:gz|gzip|zst|zstd))?"
_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz", ".gzip.metadata.json", ".zstd.metadata.json")
_LEFT_OVER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}" + _SUFFIX, re.IGNORECASE)


def current_metadata(location: str, storage: Storage) -> str:
    """The path of the current metadata file: `location` itself, or what a version hint or version numbers say.

    Raises:
        TableNotFoundError: there is none. AmbiguousTableError: it cannot be told which (iceberg 1.4, 1.5).
    """
    if storage.exists(location):
        return location
    for directory in (join(location, "metadata"), location.rstrip("/") or "/"):
        if storage.has_file(join(directory, "version-hint.text")):
            hint = storage.read(join(directory, "version-hint.text")).decode("utf-8-sig", "replace").strip()
            if hint:
                return _hinted(directory, hint, storage)
        names = [name for name in storage.names(directory) if re.fullmatch(f".+?{_SUFFIX}", name)]
        if names:
            return _highest(directory, [name for name in names if not _LEFT_OVER.fullmatch(name)])
    raise TableNotFoundError("There is no table metadata", cause="MetadataNotFound", table=location)


def path_map(metadata: Metadata, storage: Storage, prefixes: Mapping[str, str]) -> PathMap:
    """From recorded to physical paths: the caller's prefixes, then those of the table's own move (iceberg 1.12).

    The table was not moved if its metadata file was opened where metadata is recorded to be. It was moved as a whole
    if the directory opened ends like the recorded one does below the table's location. A metadata directory elsewhere
    counts as moved if its manifest list came along.
    """
    location = local_path(metadata.location).rstrip("/")
    opened = _directory(os.path.abspath(local_path(metadata.file)) if is_local(metadata.file) else metadata.file)
    lists = _manifest_lists(metadata)
    recorded = [_directory(path) for path in lists[:1]]
    if "write.metadata.path" in metadata.properties:
        recorded.append(local_path(metadata.properties["write.metadata.path"]).rstrip("/"))
    recorded.append(f"{location}/metadata")
    found = list(prefixes.items())
    if not location or opened in recorded:
        return PathMap(tuple(found))
    below = [directory[len(location) :] for directory in recorded if directory.startswith(location + "/")]
    if lists and not (recorded[0].startswith(location + "/") and opened.endswith(below[0])):
        name = lists[0].rsplit("/", 1)[-1]
        if storage.has_file(join(opened, name)):
            found.append((recorded[0], opened))
    root = next((opened[: -len(end)] for end in below if opened.endswith(end)), None)
    return PathMap((*found, *([] if root is None else [(location, root or "/")])))


def _manifest_lists(metadata: Metadata) -> list[str]:
    """The current snapshot's manifest list, or the manifests that stand for one."""
    if metadata.current is None:
        return []
    return [metadata.current.manifest_list] if metadata.current.manifest_list else [*metadata.current.manifests]


def _directory(path: str) -> str:
    plain = local_path(path)
    return plain.rpartition("/")[0] if "/" in plain else "."


def _hinted(directory: str, hint: str, storage: Storage) -> str:
    """The file of the hinted version or of a later one; or the file that the hint names (iceberg 1.3, 1.6)."""
    number = re.fullmatch(r"v?([0-9]{1,18})", hint)
    found = None if number is None else _version(directory, int(number[1]), storage)
    if number is None or found is None:
        stems = [hint, *(hint + suffix for suffix in _SUFFIXES)] if not {"/", "\\"} & set(hint) else []
        named = [join(directory, stem) for stem in stems if re.fullmatch(f".+?{_SUFFIX}", stem)]
        for path in named:
            if storage.has_file(path):
                return path
        raise TableNotFoundError(f"There is no metadata of the version hint {hint!r:.80}", cause="MetadataNotFound")
    version = int(number[1])
    while (later := _version(directory, version + 1, storage)) is not None:
        found, version = later, version + 1
    return found


def _version(directory: str, version: int, storage: Storage) -> str | None:
    paths = [join(directory, f"v{version}{suffix}") for suffix in _SUFFIXES]
    return next((path for path in paths if storage.has_file(path)), None)


def _highest(directory: str, names: list[str]) -> str:
    numbers = [(re.fullmatch(rf"v([0-9]+){_SUFFIX}", name), name) for name in names]
    if not names or any(match is None for match, _ in numbers):
        message = "Cannot tell the current metadata file: there is no version hint; name the file itself"
        raise AmbiguousTableError(message, cause="AmbiguousMetadata", file=directory, rule="iceberg 1.5")
    ordered = sorted((-int(match[1]), len(name), name) for match, name in numbers if match is not None)
    return join(directory, ordered[0][2])
