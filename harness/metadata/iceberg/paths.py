"""Paths of a table's files: the move of a copied table, recorded to physical paths, and paths of unequal spelling.

The metadata file of a copied table is where the caller opened it, and its recorded place follows from the metadata. The
difference is the move (iceberg 1.11 to 1.13). Cutting paths at `/data/` or `/metadata/` would break tables that have
directories of these names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import distrusted, warn
from harness.metadata.iceberg.model import TableMetadata
from harness.metadata.model.arrow_values import array_of, scalar_of
from harness.storage.gate import is_name
from harness.storage.paths import (
    PathMap,
    PhysicalPath,
    RecordedPath,
    absolute,
    is_local,
    join,
    local_path,
    shown,
    slashed,
)
from harness.storage.records import dataclass
from harness.storage.stores import Storage

METADATA_PATH_PROPERTY = "write.metadata.path"
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")
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
    opened = slashed(os.path.dirname(os.path.abspath(local_path(file)))) if is_local(file) else _directory(file)
    location = slashed(local_path(metadata.location)).rstrip("/")
    snapshot = metadata.current_snapshot
    listed = () if snapshot is None else (snapshot.manifest_list, *(snapshot.manifests or ()))
    manifest_list = next((path for path in listed if path), None)
    candidates = [
        None if manifest_list is None else _directory(manifest_list),
        metadata.properties.get(METADATA_PATH_PROPERTY),
        join(location, "metadata"),
    ]
    recorded = [slashed(local_path(candidate)).rstrip("/") for candidate in candidates if candidate is not None]
    if not location or opened in recorded:
        return ()
    beside: tuple[tuple[str, str], ...] = ()
    if manifest_list is not None:
        listed_in, name = _directory(manifest_list), slashed(manifest_list).rsplit("/", 1)[-1]
        inside = listed_in == location or listed_in.startswith(location + "/")
        if (not inside or not _shares_end(opened, listed_in, location)) and storage.has_file(
            PhysicalPath(join(opened, name))
        ):
            beside = ((listed_in, opened),)
    for directory in recorded:
        if _shares_end(opened, directory, location):
            root = opened[: len(opened) - len(directory[len(location) :])]
            return (*beside, (location, root or "/"))
    return beside


def _shares_end(opened: str, recorded: str, location: str) -> bool:
    """True if `opened` ends with the part of `recorded` below `location`, at a path-component boundary."""
    return recorded.startswith(location + "/") and opened.endswith(recorded[len(location) :])


def _directory(path: str) -> str:
    plain = slashed(local_path(path))
    return plain.rsplit("/", 1)[0] if "/" in plain else "."


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


@dataclass(frozen=True, slots=True)
class Spellings:
    """Paths in deletes that are not the text of a data file's path, and so name none (iceberg 1.14).

    Some writers give a data file `/wh/t/f` in the manifest, and `hdfs://host:port/wh/t/f` in the delete. The caller
    says that both are one file with a `path_map` that leads both to one place; nothing else joins them.

    location: the table's, as its metadata says. table: as the caller says, for messages.
    untrusted: whether a doubt is an error.
    """

    path_map: PathMap
    location: RecordedPath
    table: str
    untrusted: bool

    def joined(self, path: RecordedPath, live: Container[str]) -> RecordedPath | None:
        """The only live data file that the caller's path map equates with `path`, which is no live data file."""
        physical = self.path_map.physical(path) if self.path_map.said else path
        if not any(_is_below(path, old) for old, _ in self.path_map.prefixes[: self.path_map.said]):
            return None
        heads = [(old.rstrip("/"), new.rstrip("/")) for old, new in self.path_map.prefixes]
        others = {physical, *(old + physical[len(new) :] for old, new in heads if _is_below(physical, new))}
        known = [RecordedPath(other) for other in others if other in live]
        found = [other for other in known if self.path_map.physical(other) == physical]
        return found[0] if len(found) == 1 else None

    def alike(self, paths: Iterable[str], authorities: Iterable[str]) -> dict[str, str]:
        """The paths of deletes, by a name of a data file that differs from them by scheme or authority alone.

        authorities: of the data files.
        """
        known = tuple(authorities)
        found: dict[str, str] = {}
        for path in paths:
            authority = authority_of(path)
            found |= {other + path[len(authority) :]: path for other in known if other != authority}
        return found

    def tell(self, delete: str, path: str, data: str) -> None:
        """Warns of a delete file that hits no data file, but for the scheme or authority of a path in it.

        Raises InvalidTableError: the table is untrusted.
        """
        below = self.location.rstrip("/")[len(authority_of(self.location)) :]
        folder, target = authority_of(path) + below, authority_of(data) + below
        if not below or not path.startswith(folder + "/") or not data.startswith(target + "/"):
            folder, target = _directory(path), _directory(data)
        sentence = (
            f"Position delete file {delete} deletes no row: it names {path}, and the data file is {data}, another path "
            f"by its scheme or authority (iceberg 1.14). If both are one file, say path_map={{{folder!r}: "
            f"{self.path_map.physical(RecordedPath(target))!r}}}"
        )
        if self.untrusted:
            raise distrusted(sentence, self.table)
        warn(f"Table {shown(self.table)}: {sentence}")


def authority_of(path: str) -> str:
    """The scheme and authority that a path begins with; empty: it has none."""
    match = _AUTHORITY.match(path)
    return "" if match is None else match[0]


def authorities(paths: pa.ChunkedArray) -> frozenset[str]:
    """The schemes and authorities of many paths, which mostly have one."""
    if not len(paths):
        return frozenset()
    first = authority_of(paths[0].as_py())
    if pc.all(pc.starts_with(paths, first + "/")).as_py():
        return frozenset([first])
    return frozenset(map(authority_of, paths.to_pylist()))


def _is_below(path: str, prefix: str) -> bool:
    plain = prefix.rstrip("/")
    return bool(plain) and path.startswith(plain + "/")
