"""Delete files of a slice: those that name data files are written anew, with the new paths, for its data files only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from harness.metadata.iceberg.manifest_entries import Content, ManifestEntry
from harness.metadata.iceberg.position_deletes import open_puffin, read_deletion_vector, read_positions
from harness.metadata.model.arrow_values import from_numpy
from harness.testing.writing.iceberg.deletes import deletion_vector, position_columns, write_puffin
from harness.testing.writing.iceberg.files import FileOptions, write_file
from harness.tools.slices.iceberg.contents import Contents, FileKey, key_of
from harness.tools.slices.place import Names, Place, writing

Moved = Callable[[str, BitMap64], BitMap64]
"""From the recorded path of a data file and positions in it to where these rows are in the slice's file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteWriter:
    """Writes the position delete files and deletion vectors of a slice.

    targets: the new recorded path of each data file of the slice, by its old one.
    moved: where rows are now. recorded: what new paths begin with.
    """

    contents: Contents
    targets: Mapping[str, str]
    moved: Moved
    place: Place
    names: Names
    recorded: str

    def write(self) -> dict[FileKey, dict[str, Any]]:
        """Writes all; what their entries say. A file that deletes no row of the slice is left out."""
        written: dict[FileKey, dict[str, Any]] = {}
        vectors: dict[str, list[ManifestEntry]] = {}
        for entry in self.contents.files(Content.POSITION_DELETES):
            if entry.file.format == "puffin":
                vectors.setdefault(entry.file.path, []).append(entry)
            else:
                facts = self._position_file(entry)
                if facts is not None:
                    written[key_of(entry)] = facts
        for path, entries in vectors.items():
            written |= self._puffin(path, entries)
        return written

    def _position_file(self, entry: ManifestEntry) -> dict[str, Any] | None:
        source = self.contents.source
        physical = source.path_map.physical(entry.file.path)
        storage = source.storage
        storage.check(physical, entry.file.path)
        found = read_positions(storage, physical, entry.file, wanted=self.targets)
        moved = {self.targets[path]: self.moved(path, positions) for path, positions in found.items()}
        dead = sorted((path, positions) for path, positions in moved.items() if positions)
        if not dead:
            return None
        paths = pa.array([path for path, _ in dead])
        counts = [len(positions) for _, positions in dead]
        codes = from_numpy(np.repeat(np.arange(len(dead), dtype=np.int32), counts))
        rows = pa.table(
            {
                "file_path": pa.DictionaryArray.from_arrays(codes, paths).cast(pa.string()),
                "pos": pa.array([row for _, positions in dead for row in positions], pa.int64()),
            }
        )
        target = self.names.written(entry.file.path, ending=".parquet")
        file = self.place.file(target)
        with writing(file):
            facts = write_file(file, position_columns(None), rows, FileOptions())
        named = entry.file.referenced_data_file
        return {
            **facts,
            "file_path": f"{self.recorded}/{target}",
            "referenced_data_file": None if named is None else self.targets.get(named),
        }

    def _puffin(self, path: str, entries: list[ManifestEntry]) -> dict[FileKey, dict[str, Any]]:
        source = self.contents.source
        physical = source.path_map.physical(path)
        storage = source.storage
        storage.check(physical, path)
        puffin = open_puffin(storage, physical)
        dead: list[tuple[ManifestEntry, str, BitMap64]] = []
        for entry in entries:
            named = entry.file.referenced_data_file
            if named is None or named not in self.targets:
                continue
            positions = self.moved(named, read_deletion_vector(puffin, entry, data_record_count=None))
            if positions:
                dead.append((entry, self.targets[named], positions))
        if not dead:
            return {}
        target = self.names.written(path, ending=".puffin")
        file = self.place.file(target)
        with writing(file):
            places = _written(file, [(named, positions) for _, named, positions in dead])
        size = file.stat().st_size
        return {
            key_of(entry): {
                "file_path": f"{self.recorded}/{target}",
                "file_size_in_bytes": size,
                "record_count": len(positions),
                "referenced_data_file": named,
                "content_offset": offset,
                "content_size_in_bytes": length,
            }
            for (entry, named, positions), (offset, length) in zip(dead, places, strict=True)
        }


def _written(file: Path, vectors: list[tuple[str, BitMap64]]) -> list[tuple[int, int]]:
    file.parent.mkdir(parents=True, exist_ok=True)
    return write_puffin(file, [deletion_vector(named, positions) for named, positions in vectors])
