"""A slice of an Iceberg table: what it needs, and the table that is made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyroaring import BitMap64

from harness.iceberg.manifests import Content
from harness.iceberg.snapshots import Selection
from harness.iceberg.table import IcebergTable
from harness.slices.copying import FetchedFile, SourceFile
from harness.slices.iceberg.contents import Contents, FileKey, contents_of, key_of
from harness.slices.iceberg.deletes import DeleteWriter
from harness.slices.iceberg.document import left_out, read_document, schema_json, slice_document
from harness.slices.iceberg.manifests import ManifestWriter
from harness.slices.names import Names
from harness.slices.place import Place
from harness.slices.request import SliceRequest
from harness.storage.stores import Storage


@dataclass(frozen=True, slots=True)
class IcebergSlice:
    """A slice that is planned and not yet made."""

    table: IcebergTable
    contents: Contents
    names: Names

    @staticmethod
    def planned(table: IcebergTable, selection: Selection, request: SliceRequest) -> IcebergSlice:
        """The slice of a table that a request asks for."""
        contents = contents_of(table, selection, request.where, request.last)
        return IcebergSlice(table, contents, Names((table.metadata.location,)))

    @property
    def metadata_folder(self) -> str:
        """The folder that makes a table of the slice's files."""
        return "metadata"

    @property
    def storage(self) -> Storage:
        """Reads the source."""
        return self.contents.source.storage.for_read()

    @property
    def points(self) -> tuple[int, ...]:
        """The ids of its snapshots, oldest first."""
        return tuple(snapshot.id for snapshot in self.contents.snapshots)

    @property
    def identity(self) -> str | None:
        """What tells the source from another table at its place."""
        return self.table.metadata.uuid

    def files(self) -> tuple[SourceFile, ...]:
        """What is copied: data files, and delete files that name no data file."""
        path_map = self.contents.source.path_map
        found: dict[str, SourceFile] = {}
        for entry in self.contents.files(Content.DATA, Content.EQUALITY_DELETES):
            path = entry.file.path
            found[path] = SourceFile(physical=path_map.physical(path), target=self.names.of(path), size=entry.file.size)
        return tuple(found.values())

    def rewritten_bytes(self) -> int:
        """The size of the delete files that are read, to be written anew."""
        sizes = {e.file.path: e.file.size or 0 for e in self.contents.files(Content.POSITION_DELETES)}
        return sum(sizes.values())

    def write(self, place: Place, fetched: Mapping[str, FetchedFile]) -> list[str]:
        """Writes what makes a table of the fetched files, staged; what the table lacks of the source, a sentence each.

        fetched: by target.
        """
        location = str(place.directory)
        written: dict[FileKey, dict[str, Any]] = {}
        targets: dict[str, str] = {}
        for entry in self.contents.files(Content.DATA, Content.EQUALITY_DELETES):
            file = fetched[self.names.of(entry.file.path)]
            path = f"{location}/{file.target}"
            written[key_of(entry)] = {"file_path": path, "file_size_in_bytes": file.size}
            if entry.file.content is Content.DATA:
                targets[entry.file.path] = path
            elif entry.file.referenced_data_file is not None:
                written[key_of(entry)]["referenced_data_file"] = None
        written |= DeleteWriter(
            contents=self.contents,
            targets=targets,
            moved=_unmoved,
            place=place,
            names=self.names,
            recorded=location,
        ).write()
        source = read_document(self.table)
        schema = self.contents.selection.schema
        folder = place.stage()
        writer = ManifestWriter(
            contents=self.contents,
            written=written,
            folder=folder,
            recorded=f"{location}/metadata",
            schema_json=schema_json(source, schema),
        )
        document = slice_document(
            source,
            location=location,
            schema=schema,
            snapshots=self.contents.snapshots,
            lists=writer.lists(),
            specs=self.contents.source.metadata.specs,
            whole=all(plan.filter is None for plan in self.contents.plans.values()),
        )
        (folder / "v1.metadata.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
        (folder / "version-hint.text").write_text("1", encoding="utf-8")
        return left_out(source, document)


def _unmoved(path: str, positions: BitMap64) -> BitMap64:
    return positions
