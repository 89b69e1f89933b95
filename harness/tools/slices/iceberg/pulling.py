"""A slice of an Iceberg table: what it needs, and the table that is made of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from harness.errors import UnsupportedError
from harness.metadata.iceberg.manifests import Content, ManifestEntry
from harness.metadata.iceberg.position_deletes import open_puffin, read_deletion_vector, read_positions
from harness.metadata.iceberg.source import IcebergSelection
from harness.metadata.iceberg.table import IcebergTable
from harness.metadata.model.arrow_values import from_numpy
from harness.metadata.model.schema import METADATA, Field
from harness.metadata.plan.projection import find_stored
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.stores import Storage
from harness.storage.threads import phase
from harness.testing.writing.iceberg.files import (
    FileOptions,
    deletion_vector,
    position_columns,
    statistics_of,
    write_file,
    write_puffin,
)
from harness.tools.anonymising.iceberg import IcebergMasking
from harness.tools.anonymising.pseudonyms import Mask, Pseudonyms
from harness.tools.slices.iceberg.contents import FileKey, IcebergContents, check_columns, contents_of, key_of, narrowed
from harness.tools.slices.iceberg.manifests import ManifestWriter, left_out, read_document, schema_json, slice_document
from harness.tools.slices.place import ORIGINALS, FetchedFile, SliceNames, SlicePlace, SourceFile, writing
from harness.tools.slices.request import KeptRows, SliceRequest
from harness.tools.slices.rewriting import Cut, Rewriter, Settled, cut_file, ordinals, read_footer

# Delete files of a slice: those that name data files are written anew, with the new paths, for its data files only.


Moved = Callable[[str, BitMap64], BitMap64]
"""Maps the recorded path of a data file and positions in it to the rows' positions in the slice's file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteWriter:
    """Writes the position delete files and deletion vectors of a slice.

    targets: the new recorded path of each data file of the slice, by its old one.
    moved: where rows are now. recorded: what new paths begin with.
    """

    contents: IcebergContents
    targets: Mapping[str, str]
    moved: Moved
    place: SlicePlace
    names: SliceNames
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
            file.parent.mkdir(parents=True, exist_ok=True)
            places = write_puffin(file, [deletion_vector(named, positions) for _, named, positions in dead])
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


_BOUNDS_LENGTH = 16  # characters or bytes, as Iceberg's own writers cut bounds


def planned_slice(
    table: IcebergTable, selection: IcebergSelection, request: SliceRequest, refreshed: int
) -> _IcebergSlice:
    """The slice of a table that a request asks for."""
    columns = request.bound_columns(selection.schema)
    contents = contents_of(table, selection, request.where, request.last)
    if columns is not None:
        check_columns(contents, columns, compact=request.compact)
    names = SliceNames((table.metadata.location,), refreshed, numbered=request.anonymise is not None)
    return _IcebergSlice(table, contents, names, request, columns)


@dataclass(frozen=True, slots=True)
class _IcebergSlice:
    """A slice that is planned and not yet made.

    columns: those that it has; None: all. rows: that its data files keep; None: all.
    """

    table: IcebergTable
    contents: IcebergContents
    names: SliceNames
    request: SliceRequest
    columns: tuple[Field, ...] | None
    rows: KeptRows | None = field(default=None, repr=False)

    def with_rows(self, rows: KeptRows) -> _IcebergSlice:
        return replace(self, rows=rows)

    @property
    def metadata_folder(self) -> str:
        return "metadata"

    @property
    def storage(self) -> Storage:
        return self.contents.source.storage

    @property
    def points(self) -> tuple[int, ...]:
        return tuple(snapshot.id for snapshot in self.contents.snapshots)

    @property
    def identity(self) -> str | None:
        return self.table.metadata.uuid

    def plans(self) -> Iterable[ScanPlan]:
        return self.contents.plans.values()

    def files(self) -> tuple[SourceFile, ...]:
        """The files to copy: data files, and delete files that name no data file."""
        found: dict[str, SourceFile] = {}
        for entry in self.contents.files(Content.DATA, *self._copied_deletes()):
            path = entry.file.path
            physical = self.contents.source.path_map.physical(path)
            if entry.file.content is Content.DATA and self.rows is not None and physical not in self.rows:
                continue
            target = self._fetched_as(path, entry.file.content)
            found[path] = SourceFile(physical=physical, target=target, size=entry.file.size)
        return tuple(found.values())

    def rewritten_bytes(self) -> int:
        sizes = {e.file.path: e.file.size or 0 for e in self.contents.files(Content.POSITION_DELETES)}
        return 0 if self.request.compact else sum(sizes.values())

    def write(self, place: SlicePlace, fetched: Mapping[str, FetchedFile]) -> list[str]:
        """Writes what makes a table of the fetched files, staged; what the table lacks of the source, a sentence each.

        fetched: by target.
        """
        location = str(place.directory)
        key = self.request.anonymise
        source, schema = self.contents.source.metadata, self.contents.selection.schema
        masking = None if key is None else IcebergMasking(source, schema, Pseudonyms(key))
        settled = self._settled(place)
        written: dict[FileKey, dict[str, Any]] = {}
        targets: dict[str, str] = {}
        for entry in self.contents.files(Content.DATA, *self._copied_deletes()):
            found = fetched.get(self._fetched_as(entry.file.path, entry.file.content))
            if found is None:
                continue
            path = f"{location}/{self._placed_as(entry.file.path, entry.file.content)}"
            written[key_of(entry)] = {"file_path": path, "file_size_in_bytes": found.size}
            if masking is not None and entry.file.content is Content.EQUALITY_DELETES:
                written[key_of(entry)] |= self._masked_keys(masking, entry, place)
            if entry.file.content is Content.DATA:
                targets[entry.file.path] = path
                if entry.file.path in settled:
                    written[key_of(entry)] |= _described(settled[entry.file.path])

        def moved(path: str, positions: BitMap64) -> BitMap64:
            return settled[path].moved(positions) if path in settled else positions

        if not self.request.compact:
            written |= DeleteWriter(
                contents=self.contents, targets=targets, moved=moved, place=place, names=self.names, recorded=location
            ).write()
        return self._write_metadata(place, written, masking)

    def _masked_keys(self, masking: IcebergMasking, entry: ManifestEntry, place: SlicePlace) -> dict[str, Any]:
        """Writes the keys of an equality delete file anew; what its entry says.

        Raises:
            UnsupportedError: it has no column of a key, or one whose values have no others.
        """
        table, path = self.contents.source.metadata.location, entry.file.path
        if entry.file.format != "parquet":
            raise UnsupportedError(
                f"Cannot anonymise an equality delete: its format is {entry.file.format}; use compact",
                table=table,
                file=path,
            )
        original, target = (place.file(name(path, entry.file.content)) for name in (self._fetched_as, self._placed_as))
        footer = read_footer(original, path, table)
        known = self.contents.selection.schema.by_id()
        masked = {}
        for id_ in entry.file.equality_ids or ():
            stored = find_stored(id_, footer.schema)
            if stored is None or id_ not in known:
                raise UnsupportedError(
                    f"Cannot anonymise an equality delete: its file has no column, or the table none, of id {id_}; "
                    "use compact",
                    table=table,
                    file=path,
                )
            masked[stored.place] = known[id_][1]
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            cut_file(
                original, target, Cut(places=sorted(masked), mask=Mask(masking.pseudonyms), masked=masked), name=path
            )
        return {"file_size_in_bytes": target.stat().st_size, "split_offsets": None}

    def _write_metadata(
        self, place: SlicePlace, written: Mapping[FileKey, Mapping[str, Any]], masking: IcebergMasking | None
    ) -> list[str]:
        location = str(place.directory)
        source = read_document(self.table)
        kept, told = source, list[str]()
        if self.columns is not None:
            kept, told = narrowed(source, self.columns, self.contents)
        contents = self.contents
        if masking is not None:
            kept = masking.document(kept)
            entries = {path: tuple(map(masking.entry, of_path)) for path, of_path in contents.entries.items()}
            contents = replace(contents, entries=entries)
        schema = self.contents.selection.schema
        folder = place.stage()
        writer = ManifestWriter(
            contents=contents,
            written=written,
            folder=folder,
            recorded=f"{location}/metadata",
            schema_json=schema_json(kept, schema),
        )
        with writing(folder):
            lists = writer.lists()
        specs = self.contents.source.metadata.specs
        document = slice_document(
            kept,
            location=location,
            schema=schema,
            snapshots=self.contents.snapshots,
            lists=lists,
            specs={i: specs[i] for i in {entry.file.spec_id for entry in self.contents.files(*Content)}},
            whole=not self.request.rewrites and self.request.where is None,
        )
        with writing(folder):
            (folder / "v1.metadata.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
            (folder / "version-hint.text").write_text("1", encoding="utf-8")
        return [*told, *left_out(source if masking is not None else kept, document)]

    def _settled(self, place: SlicePlace) -> dict[str, Settled]:
        """Data files in their place, by recorded path; empty, where they were fetched into it."""
        if not self.request.rewrites:
            return {}
        found: dict[str, Settled] = {}
        for plan in self.contents.plans.values():
            rewriter = Rewriter(
                plan=plan,
                columns=self.columns,
                row_ids=_lineage("_row_id"),
                row_versions=_lineage("_last_updated_sequence_number"),
                statistics=_statistics,
                mask=self.request.mask(),
            )
            with phase("rewriting files", plan.files.num_rows, "files") as advance:
                for physical, ordinal in ordinals(plan).items():
                    advance(1)
                    path = plan.files.column("path")[ordinal].as_py()
                    if path in found or (self.rows is not None and physical not in self.rows):
                        continue
                    original = place.file(self._fetched_as(path, Content.DATA))
                    target = place.file(self._placed_as(path, Content.DATA))
                    rows = None if self.rows is None else self.rows[physical]
                    with writing(target):
                        found[path] = rewriter.settle(ordinal, original, target, rows)
        return found

    def _copied_deletes(self) -> tuple[Content, ...]:
        return () if self.request.compact else (Content.EQUALITY_DELETES,)

    def _placed_as(self, path: str, content: Content) -> str:
        is_written = self._is_written(content)
        return self.names.written(path) if is_written else self.names.of(path)

    def _fetched_as(self, path: str, content: Content) -> str:
        name = self.names.of(path)
        return f"{ORIGINALS}/{name}" if self._is_written(content) else name

    def _is_written(self, content: Content) -> bool:
        """True if the slice writes files of that kind anew."""
        return self.request.anonymise is not None or (self.request.rewrites and content is Content.DATA)


def _lineage(name: str) -> tuple[str, int]:
    return name, METADATA[name].id


def _statistics(values: pa.Table, fields: tuple[Field, ...]) -> dict[str, Any]:
    return statistics_of(values, fields, only=None, bounds_length=_BOUNDS_LENGTH)


def _described(settled: Settled) -> dict[str, Any]:
    """The values of a data file's entry that differ from the source's."""
    if settled.count is None:
        return {}
    own = {"file_size_in_bytes": settled.size, "record_count": settled.count}
    return {**own, "column_sizes": None, "split_offsets": None, **settled.said}
