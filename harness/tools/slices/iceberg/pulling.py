"""A slice of an Iceberg table: what it needs, and the table that is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from harness.metadata.iceberg.manifest_entries import Content, ManifestEntry
from harness.metadata.iceberg.source import Selection
from harness.metadata.iceberg.table import IcebergTable
from harness.metadata.model.schema import METADATA, Field
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.stores import Storage
from harness.testing.writing.iceberg.avro import int_map
from harness.testing.writing.iceberg.files import statistics_of
from harness.tools.slices.copying import FetchedFile, SourceFile
from harness.tools.slices.iceberg.contents import Contents, FileKey, check_columns, contents_of, key_of, narrowed
from harness.tools.slices.iceberg.deletes import DeleteWriter
from harness.tools.slices.iceberg.manifests import ManifestWriter, left_out, read_document, schema_json, slice_document
from harness.tools.slices.iceberg.masking import Masking
from harness.tools.slices.place import ORIGINALS, Names, Place, writing
from harness.tools.slices.pseudonyms import Pseudonyms
from harness.tools.slices.request import KeptRows, SliceRequest
from harness.tools.slices.rewriting import Rewriter, Settled, ordinals

_BOUNDS_LENGTH = 16  # characters or bytes, as Iceberg's own writers cut bounds
_MAPS = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


@dataclass(frozen=True, slots=True)
class IcebergSlice:
    """A slice that is planned and not yet made.

    columns: those that it has; None: all. rows: that its data files keep; None: all.
    """

    table: IcebergTable
    contents: Contents
    names: Names
    request: SliceRequest
    columns: tuple[Field, ...] | None
    rows: KeptRows | None = field(default=None, repr=False)

    @staticmethod
    def planned(table: IcebergTable, selection: Selection, request: SliceRequest, refreshed: int) -> IcebergSlice:
        """The slice of a table that a request asks for."""
        columns = request.bound_columns(selection.schema)
        contents = contents_of(table, selection, request.where, request.last)
        if columns is not None:
            check_columns(contents, columns, compact=request.compact)
        names = Names((table.metadata.location,), refreshed, numbered=request.anonymise is not None)
        return IcebergSlice(table, contents, names, request, columns)

    def with_rows(self, rows: KeptRows) -> IcebergSlice:
        """The slice that has these rows of its files and no others."""
        return replace(self, rows=rows)

    @property
    def metadata_folder(self) -> str:
        """The folder that makes a table of the slice's files."""
        return "metadata"

    @property
    def storage(self) -> Storage:
        """Reads the source."""
        return self.contents.source.storage

    @property
    def points(self) -> tuple[int, ...]:
        """The ids of its snapshots, oldest first."""
        return tuple(snapshot.id for snapshot in self.contents.snapshots)

    @property
    def identity(self) -> str | None:
        """What tells the source from another table at its place."""
        return self.table.metadata.uuid

    def plans(self) -> Iterable[ScanPlan]:
        """How the filter reads each of its snapshots, oldest first."""
        return self.contents.plans.values()

    def files(self) -> tuple[SourceFile, ...]:
        """What is copied: data files, and delete files that name no data file."""
        found: dict[str, SourceFile] = {}
        for entry in self.contents.files(Content.DATA, *self._copied_deletes()):
            path = entry.file.path
            physical = self._physical(path)
            if entry.file.content is Content.DATA and self.rows is not None and physical not in self.rows:
                continue
            target = self._fetched_as(path, entry.file.content)
            found[path] = SourceFile(physical=physical, target=target, size=entry.file.size)
        return tuple(found.values())

    def rewritten_bytes(self) -> int:
        """The size of the delete files that are read, to be written anew."""
        sizes = {e.file.path: e.file.size or 0 for e in self.contents.files(Content.POSITION_DELETES)}
        return 0 if self.request.compact else sum(sizes.values())

    def write(self, place: Place, fetched: Mapping[str, FetchedFile]) -> list[str]:
        """Writes what makes a table of the fetched files, staged; what the table lacks of the source, a sentence each.

        fetched: by target.
        """
        location = str(place.directory)
        masking = self._masking()
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
                contents=self.contents,
                targets=targets,
                moved=moved,
                place=place,
                names=self.names,
                recorded=location,
            ).write()
        return self._write_metadata(place, written, masking)

    def _masking(self) -> Masking | None:
        key = self.request.anonymise
        return None if key is None else Masking(self.contents, Pseudonyms(key))

    def _masked_keys(self, masking: Masking, entry: ManifestEntry, place: Place) -> dict[str, Any]:
        path = entry.file.path
        original, target = (place.file(name(path, entry.file.content)) for name in (self._fetched_as, self._placed_as))
        with writing(target):
            return masking.equality_deletes(entry, original, target)

    def _write_metadata(
        self, place: Place, written: Mapping[FileKey, Mapping[str, Any]], masking: Masking | None
    ) -> list[str]:
        location = str(place.directory)
        source = read_document(self.table)
        kept, told = source, list[str]()
        if self.columns is not None:
            kept, told = narrowed(source, self.columns, self.contents)
        if masking is not None:
            kept = masking.document(kept)
        schema = self.contents.selection.schema
        folder = place.stage()
        writer = ManifestWriter(
            contents=self.contents if masking is None else masking.entries(),
            written=written,
            folder=folder,
            recorded=f"{location}/metadata",
            schema_json=schema_json(kept, schema),
        )
        with writing(folder):
            lists = writer.lists()
        document = slice_document(
            kept,
            location=location,
            schema=schema,
            snapshots=self.contents.snapshots,
            lists=lists,
            specs=self.contents.used_specs(),
            whole=not self.request.rewrites and self.request.where is None,
        )
        with writing(folder):
            (folder / "v1.metadata.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
            (folder / "version-hint.text").write_text("1", encoding="utf-8")
        return [*told, *left_out(source if masking is not None else kept, document)]

    def _settled(self, place: Place) -> dict[str, Settled]:
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
            for physical, ordinal in ordinals(plan).items():
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

    def _physical(self, path: str) -> str:
        return self.contents.source.path_map.physical(path)

    def _placed_as(self, path: str, content: Content) -> str:
        is_written = self._is_written(content)
        return self.names.written(path) if is_written else self.names.of(path)

    def _fetched_as(self, path: str, content: Content) -> str:
        name = self.names.of(path)
        return f"{ORIGINALS}/{name}" if self._is_written(content) else name

    def _is_written(self, content: Content) -> bool:
        """Whether files of that kind are the source's own no more."""
        return self.request.anonymise is not None or (self.request.rewrites and content is Content.DATA)


def _lineage(name: str) -> tuple[str, int]:
    return name, METADATA[name].id


def _statistics(values: pa.Table, fields: tuple[Field, ...]) -> dict[str, Any]:
    found = statistics_of(values, fields, only=None, bounds_length=_BOUNDS_LENGTH)
    return {name: int_map(getattr(found, name)) for name in _MAPS}


def _described(settled: Settled) -> dict[str, Any]:
    """What the entry of a data file says where it differs from the source's."""
    if settled.count is None:
        return {}
    own = {"file_size_in_bytes": settled.size, "record_count": settled.count}
    return {**own, "column_sizes": None, "split_offsets": None, **settled.said}
