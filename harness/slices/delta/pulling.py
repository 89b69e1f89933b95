"""A slice of a Delta table: what it needs, and the table that is made of it.

Versions keep their numbers. The root is a commit that says all of its version, and a checkpoint of the same, as a log
has them whose older part was cleaned up. Its files count as no change of data: a change feed of the slice begins after.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.delta.actions import Commit, DeletionVectorDescriptor
from harness.delta.table import DeltaTable, Selection
from harness.slices.copying import FetchedFile, SourceFile
from harness.slices.delta import actions
from harness.slices.delta.actions import Json
from harness.slices.delta.contents import Contents, contents_of
from harness.slices.names import Names
from harness.slices.place import Place
from harness.slices.request import SliceRequest
from harness.storage.stores import Storage
from harness.writing.delta.checkpoint import CheckpointOptions, hint_text, write_checkpoint
from harness.writing.delta.files import set_time
from harness.writing.delta.log import LogState
from harness.writing.delta.values import encoded_path, json_text
from harness.writing.delta.vectors import z85 as as_z85


@dataclass(frozen=True, slots=True)
class DeltaSlice:
    """A slice that is planned and not yet made."""

    table: DeltaTable
    contents: Contents
    names: Names

    @staticmethod
    def planned(table: DeltaTable, selection: Selection, request: SliceRequest) -> DeltaSlice:
        """The slice of a table that a request asks for."""
        return DeltaSlice(
            table,
            contents_of(table, selection, request.where, request.last),
            Names((table.source.root.path,)),
        )

    @property
    def metadata_folder(self) -> str:
        """The folder that makes a table of the slice's files."""
        return "_delta_log"

    @property
    def storage(self) -> Storage:
        """Reads the source."""
        return self.table.source.storage.for_read()

    @property
    def points(self) -> tuple[int, ...]:
        """Its versions, ascending."""
        return (self.contents.root.version, *(commit.version for commit in self.contents.commits))

    @property
    def identity(self) -> str | None:
        """What tells the source from another table at its place."""
        return self.contents.root.metadata.id

    def files(self) -> tuple[SourceFile, ...]:
        """What is copied: data files, files of deletion vectors, files of changes."""
        found: dict[str, SourceFile] = {}
        for row in self.contents.adds():
            path = row["physical"]
            found[path] = SourceFile(physical=path, target=self.names.of(path), size=row["size"])
        for vector in self.contents.vectors():
            file = self.contents.vector_file(vector)
            if file is not None:
                found[file] = SourceFile(physical=file, target=_vector_target(file), size=None)
        for commit in self.contents.commits:
            for change in commit.cdc:
                target = self.names.of(change.physical, folder="_change_data")
                found[change.physical] = SourceFile(physical=change.physical, target=target, size=change.size)
        return tuple(found.values())

    def rewritten_bytes(self) -> int:
        """Nothing is read to be written anew."""
        return 0

    def write(self, place: Place, fetched: Mapping[str, FetchedFile]) -> list[str]:
        """Writes what makes a table of the fetched files, staged; what the table lacks of the source, a sentence each.

        fetched: by target.
        """
        folder = place.stage()
        root = self.contents.root
        state = LogState(
            protocol=actions.protocol_json(root.protocol),
            metadata=actions.metadata_json(root.metadata),
            transactions={t.app_id: actions.transaction_json(t) for t in root.transactions.values()},
            domains={d.domain: actions.domain_json(d) for d in root.domains.values()},
        )
        for row in self.contents.rows(root.files):
            add = self._add(row, fetched, data_change=False)
            state.files[add["path"], None] = {"add": add}
            _set_time(place.file(self.names.of(row["physical"])), row["modification_time"])
        info = [] if self.contents.info is None else [{"commitInfo": dict(self.contents.info)}]
        self._write(folder, root.version, [*info, *state.metadata_actions(), *state.files.values()])
        for commit in self.contents.commits:
            self._write(folder, commit.version, list(self._actions(commit, fetched)))
        if root.version > 0:
            # A log that does not begin at version 0 needs one.
            time_ms = self.contents.times_ms.get(root.version, 0)
            written = write_checkpoint(folder, root.version, state, time_ms, CheckpointOptions())
            (folder / "_last_checkpoint").write_text(hint_text(written.hint), encoding="utf-8")
        if actions.is_managed(root.protocol):
            return ["Left out that a catalog manages the table: the slice has none"]
        return []

    def _actions(self, commit: Commit, fetched: Mapping[str, FetchedFile]) -> Iterator[Json]:
        if commit.info is not None:
            yield {"commitInfo": dict(commit.info.values)}
        if commit.protocol is not None:
            yield {"protocol": actions.protocol_json(commit.protocol)}
        if commit.metadata is not None:
            yield {"metaData": actions.metadata_json(commit.metadata)}
        yield from ({"txn": actions.transaction_json(t)} for t in commit.transactions)
        yield from ({"domainMetadata": actions.domain_json(d)} for d in commit.domains)
        for row in self.contents.rows(commit.removes):
            yield {"remove": actions.remove_json(row, self.names.of(row["physical"]), self._vector)}
        for row in self.contents.rows(commit.adds):
            yield {"add": self._add(row, fetched, data_change=row["data_change"])}
        for change in commit.cdc:
            target = fetched[self.names.of(change.physical, folder="_change_data")]
            yield {
                "cdc": {
                    "path": encoded_path(target.target),
                    "partitionValues": dict(change.partition_values),
                    "size": target.size,
                    "dataChange": False,
                }
            }

    def _add(self, row: Mapping[str, Any], fetched: Mapping[str, FetchedFile], *, data_change: bool) -> Json:
        file = fetched[self.names.of(row["physical"])]
        return actions.add_json(row, file.target, file.size, self._vector, data_change=data_change)

    def _vector(self, vector: DeletionVectorDescriptor) -> Json:
        """The descriptor in the slice: files of vectors lie in its directory, under names that it spells."""
        file = self.contents.vector_file(vector)
        found: Json = {"storageType": "i", "pathOrInlineDv": vector.path_or_inline}
        if file is not None:
            found = {"storageType": "u", "pathOrInlineDv": as_z85(_vector_id(file).bytes)}
            if vector.offset is not None:
                found["offset"] = vector.offset
        return {**found, "sizeInBytes": vector.size, "cardinality": vector.cardinality}

    def _write(self, folder: Path, version: int, content: list[Json]) -> None:
        path = folder / f"{version:020d}.json"
        path.write_text("".join(f"{json_text(action)}\n" for action in content), encoding="utf-8", newline="\n")
        _set_time(path, self.contents.times_ms.get(version))


def _vector_id(file: str) -> uuid.UUID:
    """What names a file of vectors in the slice; always the same for one file."""
    return uuid.uuid5(uuid.NAMESPACE_URL, file)


def _vector_target(file: str) -> str:
    return f"deletion_vector_{_vector_id(file)}.bin"


def _set_time(path: Path, time_ms: int | None) -> None:
    """Of a commit it is its time, where the log has no better one; of a data file, what the log says it is."""
    if time_ms is not None and 0 <= time_ms < 1 << 53:
        set_time(path, time_ms)
