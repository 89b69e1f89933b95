"""Paths of a table's files: the move of a copied table, and physical paths of recorded ones.

The metadata file of a copied table is where the caller opened it, and its recorded place follows from the metadata. The
difference is the move (iceberg 1.11 to 1.13). Cutting paths at `/data/` or `/metadata/` would break tables that have
directories of these names.
"""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.deletes.matching import directory_of
from harness.metadata.iceberg.model import TableMetadata
from harness.metadata.model.arrow_values import array_of, scalar_of
from harness.storage.gate import is_name
from harness.storage.paths import PathMap, absolute, is_local, join, local_path, slashed
from harness.storage.stores import Storage

METADATA_PATH_PROPERTY = "write.metadata.path"
_URI = "^[A-Za-z][A-Za-z0-9+.-]*://"


def default_prefixes(metadata: TableMetadata, storage: Storage) -> tuple[tuple[str, str], ...]:
    """(recorded prefix, physical prefix) pairs for the table that `metadata` was read from; none if it was not moved.

    The recorded metadata directory is one of: that of the current manifest list, the property `write.metadata.path`,
    `metadata` in the table's location. If one of them is the directory opened, nothing was moved. Otherwise, if the
    directory opened ends like one of them ends below the location, the location is what comes before that end. A
    metadata directory outside the location, or opened under another name, counts as moved only if the current manifest
    list lies in the directory opened: so a lone copy of a metadata file still reads the table where it was.
    """
    # Absolute, so that a path such as `v1.metadata.json` has a directory.
    file = metadata.file
    opened = slashed(os.path.dirname(os.path.abspath(local_path(file)))) if is_local(file) else directory_of(file)
    location = slashed(local_path(metadata.location)).rstrip("/")
    snapshot = metadata.current_snapshot
    listed = () if snapshot is None else (snapshot.manifest_list, *(snapshot.manifests or ()))
    manifest_list = next((path for path in listed if path), None)
    candidates = [
        None if manifest_list is None else directory_of(manifest_list),
        metadata.properties.get(METADATA_PATH_PROPERTY),
        join(location, "metadata"),
    ]
    recorded = [slashed(local_path(candidate)).rstrip("/") for candidate in candidates if candidate is not None]
    if not location or opened in recorded:
        return ()
    beside: tuple[tuple[str, str], ...] = ()
    if manifest_list is not None:
        listed_in, name = directory_of(manifest_list), slashed(manifest_list).rsplit("/", 1)[-1]
        inside = listed_in == location or listed_in.startswith(location + "/")
        if (not inside or not _shares_end(opened, listed_in, location)) and storage.has_file(join(opened, name)):
            beside = ((listed_in, opened),)
    for directory in recorded:
        if _shares_end(opened, directory, location):
            root = opened[: len(opened) - len(directory[len(location) :])]
            return (*beside, (location, root or "/"))
    return beside


def _shares_end(opened: str, recorded: str, location: str) -> bool:
    """True if `opened` ends with the part of `recorded` below `location`, at a path-component boundary."""
    return recorded.startswith(location + "/") and opened.endswith(recorded[len(location) :])


def physical_paths(path_map: PathMap, recorded: pa.ChunkedArray) -> pa.ChunkedArray:
    """`PathMap.physical` of many paths at once."""
    plain = pc.or_(pc.starts_with(recorded, "/"), pc.match_substring_regex(recorded, _URI))
    plain = pc.and_not(plain, pc.match_substring_regex(recorded, "^[fF][iI][lL][eE]:"))
    if pc.all(plain).as_py() is False or any(not new.rstrip("/") for _, new in path_map.prefixes):
        return pa.chunked_array([array_of([path_map.physical(p) for p in recorded.to_pylist()], pa.string())])
    found, open_ = recorded, None
    for old, new in path_map.prefixes:
        prefix = local_path(old).rstrip("/")
        if not prefix or not is_name(prefix):  # no recorded path begins with what is not UTF-8
            continue
        hit = pc.or_(pc.equal(recorded, scalar_of(prefix, pa.string())), pc.starts_with(recorded, prefix + "/"))
        hit = hit if open_ is None else pc.and_(hit, open_)
        open_ = pc.invert(hit) if open_ is None else pc.and_not(open_, hit)
        if pc.any(hit).as_py():
            head = absolute(new.rstrip("/"), path_map.base)
            rest = pc.utf8_slice_codeunits(recorded, len(prefix))
            moved = pc.binary_join_element_wise(scalar_of(head, pa.string()), rest, scalar_of("", pa.string()))
            found = pc.if_else(hit, moved, found)
    return found
