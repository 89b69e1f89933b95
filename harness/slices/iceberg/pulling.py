"""A slice of an Iceberg table: its files, and the metadata that makes a table of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from harness.errors import UnsupportedError
from harness.metadata.deletes.position_files import read_positions
from harness.metadata.deletes.puffin import open_puffin, read_deletion_vector
from harness.metadata.iceberg.delete_scope import vector_of
from harness.metadata.iceberg.manifests import Content, ManifestEntry
from harness.metadata.iceberg.table import IcebergTable
from harness.metadata.iceberg.time_travel import IcebergSelection
from harness.metadata.model.arrow_values import from_numpy
from harness.metadata.model.schema import METADATA, Field
from harness.metadata.plan.projection import find_stored
from harness.slices.anonymising.iceberg import IcebergMasking
from harness.slices.directory import FetchedFile, Slice, SliceDirectory, SlicePaths, SourceFile, translate_write_errors
from harness.slices.iceberg.manifests import (
    FileKey,
    IcebergContents,
    ManifestWriter,
    check_columns,
    choose_contents,
    file_key,
    narrow_document,
    omission_notes,
    read_document,
    schema_json,
    slice_document,
)
from harness.slices.request import RowSelection, SliceRequest, select_rows
from harness.slices.rewriting import FileCut, Rewriter, SliceFile, cut_file, read_footer
from harness.storage.paths import PhysicalPath, RecordedPath
from harness.writing.iceberg import files as writer

_UNKNOWN = {"column_sizes": None, "split_offsets": None}
_BOUNDS_LENGTH = 16  # characters or bytes, as in Iceberg's own writers


def plan_slice(table: IcebergTable, selection: IcebergSelection, request: SliceRequest, refreshed: int) -> Slice:
    """Plan the slice that a request describes."""
    columns = request.bound_columns(selection.schema)
    contents = choose_contents(table, selection, request.where, request.last)
    if columns is not None:
        check_columns(contents, columns)
    if request.reverse:
        contents = contents.in_reverse_order()
    rows = select_rows(contents.plans.values(), request)
    names = SlicePaths(table.metadata.location, refreshed, numbered=request.anonymise is not None)
    planned = _IcebergSlice(table, contents, names, request, columns, rows)
    deletes = contents.files(Content.POSITION_DELETES)
    return Slice(
        points=tuple(snapshot.id for snapshot in contents.snapshots),
        storage=contents.source.storage,
        files=planned.files(),
        rewritten_bytes=sum({e.file.path: e.file.size or 0 for e in deletes}.values()),
        write=planned.write,
    )


@dataclass(frozen=True, slots=True)
class _IcebergSlice:
    """A planned slice.

    Attributes:
        columns: The slice's columns. None: all columns.
        rows: The rows to keep in data files. None: all rows.
        settled: The rewritten data files, by recorded path.
        targets: The new recorded paths of data files, by old recorded path.
    """

    table: IcebergTable
    contents: IcebergContents
    names: SlicePaths
    request: SliceRequest
    columns: tuple[Field, ...] | None
    rows: RowSelection | None = field(repr=False)
    settled: Mapping[str, SliceFile] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)

    def files(self) -> tuple[SourceFile, ...]:
        """Return the files to copy: data files and equality delete files."""
        result: dict[str, SourceFile] = {}
        for entry in self._copied_entries():
            path = entry.file.path
            physical = self.contents.source.path_map.physical(path)
            if entry.file.content is Content.DATA and self.rows is not None and physical not in self.rows:
                continue
            result[path] = SourceFile(physical=physical, target=self._fetched_path(entry), size=entry.file.size)
        return tuple(result.values())

    def write(self, place: SliceDirectory, fetched: Mapping[str, FetchedFile]) -> list[str]:
        """Write the metadata to the staging folder, and return a sentence for each thing that the slice lacks.

        Args:
            place: The slice's directory.
            fetched: The fetched files, by target.
        """
        source, schema = self.contents.source.metadata, self.contents.selection.schema
        pseudonyms = self.request.pseudonyms()
        masking = None if pseudonyms is None else IcebergMasking(source, schema, pseudonyms)
        rewriter = Rewriter(
            columns=self.columns,
            rows=self.rows,
            row_ids=_metadata_column("_row_id"),
            row_versions=_metadata_column("_last_updated_sequence_number"),
            statistics=partial(writer.statistics_of, only=None, bounds_length=_BOUNDS_LENGTH),
            pseudonyms=pseudonyms,
        )
        plans = self.contents.plans.values() if self.request.rewrites else ()
        slice_files = rewriter.rewrite_files(plans, "path", place, self.names)
        written: dict[FileKey, dict[str, object]] = {}
        targets: dict[str, str] = {}
        for entry in self._copied_entries():
            path, result = entry.file.path, fetched.get(self._fetched_path(entry))
            if result is None:
                continue
            target = f"{place.directory}/{self._slice_path(entry)}"
            facts: dict[str, object] = {"file_path": target, "file_size_in_bytes": result.size}
            written[file_key(entry)] = facts
            if masking is not None and entry.file.content is Content.EQUALITY_DELETES:
                facts |= self._mask_equality_deletes(masking, entry, place)
            if entry.file.content is Content.DATA:
                targets[path] = target
                slice_file = slice_files.get(path)
                if slice_file is not None and slice_file.count is not None:
                    facts |= {
                        "file_size_in_bytes": slice_file.size,
                        "record_count": slice_file.count,
                        **_UNKNOWN,
                        **slice_file.statistics,
                    }
        written |= replace(self, settled=slice_files, targets=targets)._write_deletes(place)
        return self._write_metadata(place, written, masking)

    def _write_deletes(self, place: SliceDirectory) -> dict[FileKey, dict[str, object]]:
        """Write the position deletes of the slice's data files, and return the new values of their manifest entries."""
        written: dict[FileKey, dict[str, object]] = {}
        vectors: dict[RecordedPath, list[ManifestEntry]] = {}
        for entry in self.contents.files(Content.POSITION_DELETES):
            if entry.file.format == "puffin":
                vectors.setdefault(entry.file.path, []).append(entry)
            else:
                written |= self._write_position_file(entry, place)
        for path, entries in vectors.items():
            written |= self._write_puffin(path, entries, place)
        return written

    def _translate_positions(self, path: str, positions: BitMap64) -> BitMap64:
        """Return the new positions of rows, given their positions in the source's data file."""
        return self.settled[path].translate_positions(positions) if path in self.settled else positions

    def _checked_path(self, path: RecordedPath) -> PhysicalPath:
        source = self.contents.source
        physical = source.path_map.physical(path)
        source.storage.check(physical, path)
        return physical

    def _write_position_file(self, entry: ManifestEntry, place: SliceDirectory) -> dict[FileKey, dict[str, object]]:
        physical = self._checked_path(entry.file.path)
        result = read_positions(
            self.contents.source.storage,
            path=entry.file.path,
            physical=physical,
            format=entry.file.format,
            record_count=entry.file.record_count,
            data_files=self.targets,
        )
        slice_positions = {
            self.targets[path]: self._translate_positions(path, positions) for path, positions in result.items()
        }
        deletes = sorted((path, positions) for path, positions in slice_positions.items() if positions)
        if not deletes:
            return {}
        paths = pa.array([path for path, _ in deletes])
        codes = np.repeat(np.arange(len(deletes), dtype=np.int32), [len(positions) for _, positions in deletes])
        rows = pa.table(
            {
                "file_path": pa.DictionaryArray.from_arrays(from_numpy(codes), paths).cast(pa.string()),
                "pos": pa.array([row for _, positions in deletes for row in positions], pa.int64()),
            }
        )
        target = self.names.written_path(entry.file.path, ending=".parquet")
        file = place.file(target)
        with translate_write_errors(file):
            facts = writer.write_file(file, writer.position_columns(None), rows, writer.IcebergFileOptions())
        data_file = entry.file.referenced_data_file
        return {
            file_key(entry): {
                **facts,
                "file_path": f"{place.directory}/{target}",
                "referenced_data_file": None if data_file is None else self.targets.get(data_file),
            }
        }

    def _write_puffin(
        self, path: RecordedPath, entries: list[ManifestEntry], place: SliceDirectory
    ) -> dict[FileKey, dict[str, object]]:
        physical = self._checked_path(path)
        puffin = open_puffin(self.contents.source.storage, physical)
        deletes: list[tuple[ManifestEntry, str, BitMap64]] = []
        for entry in entries:
            data_file = entry.file.referenced_data_file
            if data_file is not None and data_file in self.targets:
                vector = vector_of(entry.file, physical)
                result = read_deletion_vector(puffin, vector, target=data_file, data_record_count=None)
                if positions := self._translate_positions(data_file, result):
                    deletes.append((entry, self.targets[data_file], positions))
        if not deletes:
            return {}
        target = self.names.written_path(path, ending=".puffin")
        file = place.file(target)
        with translate_write_errors(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            blobs = [writer.deletion_vector(data_file, positions) for _, data_file, positions in deletes]
            places = writer.write_puffin(file, blobs)
        return {
            file_key(entry): {
                "file_path": f"{place.directory}/{target}",
                "file_size_in_bytes": file.stat().st_size,
                "record_count": len(positions),
                "referenced_data_file": data_file,
                "content_offset": offset,
                "content_size_in_bytes": length,
            }
            for (entry, data_file, positions), (offset, length) in zip(deletes, places, strict=True)
        }

    def _mask_equality_deletes(
        self, masking: IcebergMasking, entry: ManifestEntry, place: SliceDirectory
    ) -> dict[str, object]:
        """Rewrite an equality delete file with pseudonyms, and return the new values of its manifest entry.

        Raises:
            UnsupportedError: The file lacks a key column, or values of a key column have no pseudonyms.
        """
        table, path = self.contents.source.metadata.location, entry.file.path
        if entry.file.format != "parquet":
            raise UnsupportedError(
                f"Cannot anonymise an equality delete: its format is {entry.file.format}; apply the "
                "deletes in the source first",
                table=table,
                file=path,
            )
        original, target = (place.file(name(entry)) for name in (self._fetched_path, self._slice_path))
        footer = read_footer(original, path, table)
        fields_by_id = self.contents.selection.schema.by_id()
        masked = {}
        for id_ in entry.file.equality_ids or ():
            stored = find_stored(id_, footer.schema)
            if stored is None or id_ not in fields_by_id:
                raise UnsupportedError(
                    f"Cannot anonymise an equality delete: its file or the table has no column with id {id_}; "
                    "apply the deletes in the source first",
                    table=table,
                    file=path,
                )
            masked[stored.place] = fields_by_id[id_][1]
        cut = FileCut(places=sorted(masked), pseudonyms=masking.pseudonyms, masked=masked)
        with translate_write_errors(target):
            cut_file(original, target, cut, name=path)
        return {"file_size_in_bytes": target.stat().st_size, "split_offsets": None}

    def _write_metadata(
        self, place: SliceDirectory, written: Mapping[FileKey, Mapping[str, object]], masking: IcebergMasking | None
    ) -> list[str]:
        location = str(place.directory)
        source = read_document(self.table)
        base_document, notes = source, list[str]()
        if self.columns is not None:
            base_document, notes = narrow_document(source, self.columns, self.contents)
        contents = self.contents
        if masking is not None:
            base_document = masking.document(base_document)
            entries = {path: tuple(map(masking.entry, path_entries)) for path, path_entries in contents.entries.items()}
            contents = replace(contents, entries=entries)
        schema = self.contents.selection.schema
        folder = place.stage()
        with translate_write_errors(folder):
            lists = ManifestWriter(
                contents=contents,
                written=written,
                folder=folder,
                recorded=f"{location}/metadata",
                schema_json=schema_json(base_document, schema),
                statistics=self.request.statistics,
            ).write_lists()
        specs = self.contents.source.metadata.specs
        document = slice_document(
            base_document,
            location=location,
            schema=schema,
            snapshots=self.contents.snapshots,
            lists=lists,
            specs={i: specs[i] for i in {entry.file.spec_id for entry in self.contents.files(*Content)}},
            whole=not self.request.rewrites and self.request.where is None,
        )
        with translate_write_errors(folder):
            (folder / "v1.metadata.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
            (folder / "version-hint.text").write_text("1", encoding="utf-8")
        return [*notes, *omission_notes(source if masking is not None else base_document, document)]

    def _copied_entries(self) -> Iterator[ManifestEntry]:
        return self.contents.files(Content.DATA, Content.EQUALITY_DELETES)

    def _slice_path(self, entry: ManifestEntry) -> str:
        return self.names.written_path(entry.file.path, is_rewritten=self._is_rewritten(entry))

    def _fetched_path(self, entry: ManifestEntry) -> str:
        return self.names.fetched_path(entry.file.path, is_rewritten=self._is_rewritten(entry))

    def _is_rewritten(self, entry: ManifestEntry) -> bool:
        is_cut = self.request.rewrites and entry.file.content is Content.DATA
        return is_cut or self.request.anonymise is not None


def _metadata_column(name: str) -> tuple[str, int]:
    return name, METADATA[name].id
