"""A slice of a Delta table: its files, and the log that makes a table of them.

Versions keep their numbers. The root is a commit that says all of its version, and a checkpoint of the same, as in a
log whose older part was cleaned up. Its files count as no change of data: a change feed of the slice begins after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.metadata.delta.actions import Commit, DeletionVectorDescriptor, Metadata
from harness.metadata.delta.table import DeltaSelection, DeltaTable
from harness.metadata.delta.types import materialized_columns
from harness.metadata.model.schema import Field
from harness.testing.writing.delta.checkpoint import CheckpointOptions, hint_text, write_checkpoint
from harness.testing.writing.delta.log import LogState
from harness.testing.writing.delta.values import encoded_path, json_text
from harness.testing.writing.places import set_time
from harness.tools.anonymising.delta import DeltaMasking, commit_info
from harness.tools.slices.delta import actions
from harness.tools.slices.delta.actions import Json, copied_vector, file_statistics, moved_vectors, vector_target
from harness.tools.slices.delta.contents import DeltaContents, check_rewritable, contents_of, narrowed
from harness.tools.slices.place import FetchedFile, Slice, SliceNames, SlicePlace, SourceFile, writing
from harness.tools.slices.request import KeptRows, SliceRequest, kept_rows
from harness.tools.slices.rewriting import Rewriter, Settled


def planned_slice(table: DeltaTable, selection: DeltaSelection, request: SliceRequest, refreshed: int) -> Slice:
    """The slice of a table that a request asks for."""
    columns = request.bound_columns(selection.schema)
    contents = contents_of(table, selection, request.where, request.last)
    if request.rewrites:
        check_rewritable(contents, columns)
    rows = kept_rows(contents.plans.values(), request)
    if rows is not None:
        contents = replace(contents, kept=contents.kept & rows.keys())
    names = SliceNames((table.source.root.path,), refreshed, numbered=request.anonymise is not None)
    planned = _DeltaSlice(contents, names, request, columns, rows)
    return Slice(
        points=(contents.root.version, *(commit.version for commit in contents.commits)),
        storage=table.source.storage.for_read(),
        files=planned.files(),
        write=planned.write,
    )


@dataclass(frozen=True, slots=True)
class _DeltaSlice:
    """Makes a slice.

    columns: those that it has; None: all. rows: those that its data files keep; None: all.
    fetched: files by target. settled: data files written anew, by physical path.
    vectors: descriptors of vectors written anew, see `moved_vectors`; None: files of vectors were copied.
    """

    contents: DeltaContents
    names: SliceNames
    request: SliceRequest
    columns: tuple[Field, ...] | None
    rows: KeptRows | None = field(repr=False)
    fetched: Mapping[str, FetchedFile] = field(default_factory=dict)
    settled: Mapping[str, Settled] = field(default_factory=dict)
    vectors: Mapping[tuple[str, str], Json] | None = None

    def files(self) -> tuple[SourceFile, ...]:
        """The files to copy: data files, files of deletion vectors, files of changes."""
        found: dict[str, SourceFile] = {}
        for row in self.contents.adds():
            path = row["physical"]
            target = self.names.fetched(path, anew=self.request.rewrites)
            found[path] = SourceFile(physical=path, target=target, size=row["size"])
        for _, vector in () if self.request.rewrites_vectors else self.contents.vectors():
            file = self.contents.vector_file(vector)
            if file is not None:
                found[file] = SourceFile(physical=file, target=vector_target(file), size=None)
        for commit in self.contents.commits:
            for change in commit.cdc:
                target = self.names.of(change.physical, folder="_change_data")
                found[change.physical] = SourceFile(physical=change.physical, target=target, size=change.size)
        return tuple(found.values())

    def write(self, place: SlicePlace, fetched: Mapping[str, FetchedFile]) -> list[str]:
        """Writes the log, staged; a sentence for each lack of the slice. fetched: by target."""
        root, request = self.contents.root, self.request
        lineage = materialized_columns(root.metadata.configuration)
        rewriter = Rewriter(
            columns=self.columns,
            rows=self.rows,
            row_ids=_named(lineage.get("_row_id")),
            row_versions=_named(lineage.get("_row_commit_version")),
            statistics=file_statistics,
            pseudonyms=request.pseudonyms(),
        )
        plans = self.contents.plans.values() if request.rewrites else ()
        settled = rewriter.settled(plans, "physical", place, self.names)
        vectors: Mapping[tuple[str, str], Json] | None = {} if request.rewrites_vectors else None
        if request.rewrites_vectors and not request.compact:
            vectors = moved_vectors(self.contents, settled, place, self.names.refreshed)
        return replace(self, fetched=fetched, settled=settled, vectors=vectors)._write_log(place)

    def _write_log(self, place: SlicePlace) -> list[str]:
        folder = place.stage()
        root = self.contents.root
        state = LogState(
            protocol=actions.protocol_json(root.protocol),
            metadata=self._metadata(root.metadata),
            transactions={t.app_id: actions.transaction_json(t) for t in root.transactions.values()},
            domains={d.domain: actions.domain_json(d) for d in root.domains.values()},
        )
        pseudonyms, masking = self.request.pseudonyms(), None
        if pseudonyms is not None:
            masking = DeltaMasking(root.metadata, self.contents.plans[root.version].schema.fields, pseudonyms)
        told = [] if masking is None else masking.hide(state)
        for row in self.contents.rows(root.files):
            add = self._add(row, data_change=False)
            if masking is not None:
                add["partitionValues"] = masking.partition_values(add["partitionValues"])
            state.files[add["path"], None] = {"add": add}
            _set_time(place.file(self._placed_as(row["physical"])), row["modification_time"])
        info = [] if self.contents.info is None else [{"commitInfo": dict(self.contents.info)}]
        if masking is not None:
            info = [{"commitInfo": commit_info(action["commitInfo"])} for action in info]
        self._write(folder, root.version, [*info, *state.metadata_actions(), *state.files.values()])
        for commit in self.contents.commits:
            self._write(folder, commit.version, list(self._actions(commit)))
        if root.version > 0:
            # A log that does not begin at version 0 needs one.
            time_ms = self.contents.times_ms.get(root.version, 0)
            with writing(folder):
                written = write_checkpoint(folder, root.version, state, time_ms, CheckpointOptions())
                (folder / "_last_checkpoint").write_text(hint_text(written.hint), encoding="utf-8")
        if actions.is_managed(root.protocol):
            told.append("Left out that a catalog manages the table: the slice has none")
        return told

    def _placed_as(self, path: str) -> str:
        return self.names.written(path, anew=self.request.rewrites)

    def _write(self, folder: Path, version: int, content: list[Json]) -> None:
        path = folder / f"{version:020d}.json"
        with writing(path):
            path.write_text("".join(f"{json_text(action)}\n" for action in content), encoding="utf-8", newline="\n")
            _set_time(path, self.contents.times_ms.get(version))

    def _actions(self, commit: Commit) -> Iterator[Json]:
        """The actions of a commit after the root's."""
        if commit.info is not None:
            yield {"commitInfo": dict(commit.info.values)}
        if commit.protocol is not None:
            yield {"protocol": actions.protocol_json(commit.protocol)}
        if commit.metadata is not None:
            yield {"metaData": self._metadata(commit.metadata)}
        yield from ({"txn": actions.transaction_json(t)} for t in commit.transactions)
        yield from ({"domainMetadata": actions.domain_json(d)} for d in commit.domains)
        for row in self.contents.rows(commit.removes):
            yield {"remove": actions.remove_json(row, self._placed_as(row["physical"]), self._vector(row))}
        for row in self.contents.rows(commit.adds):
            yield {"add": self._add(row, data_change=row["data_change"])}
        for change in commit.cdc:
            target = self.fetched[self.names.of(change.physical, folder="_change_data")]
            yield {
                "cdc": {
                    "path": encoded_path(target.target),
                    "partitionValues": dict(change.partition_values),
                    "size": target.size,
                    "dataChange": False,
                }
            }

    def _metadata(self, metadata: Metadata) -> Json:
        return actions.metadata_json(metadata if self.columns is None else narrowed(metadata, self.columns))

    def _add(self, row: Mapping[str, Any], *, data_change: bool) -> Json:
        path = row["physical"]
        settled = self.settled.get(path)
        target, vector = self._placed_as(path), self._vector(row)
        size = settled.size if settled is not None else self.fetched[target].size
        found = actions.add_json(row, target, size, vector, data_change=data_change)
        if settled is not None and settled.count is not None:
            found["stats"] = json_text({**settled.said, "tightBounds": vector is None})
        return found

    def _vector(self, row: Mapping[str, Any]) -> Json | None:
        """The descriptor in the slice; None: no row of the file is deleted."""
        vector = DeletionVectorDescriptor.of(row)
        if vector is None:
            return None
        if self.vectors is not None:
            return self.vectors.get((row["physical"], vector.unique_id))
        return copied_vector(vector, self.contents.vector_file(vector))


def _named(column: str | None) -> tuple[str, None] | None:
    return None if column is None else (column, None)


def _set_time(path: Path, time_ms: int | None) -> None:
    """Sets a file's time: of a commit the commit's own, of a data file the time in the log."""
    if time_ms is not None and 0 <= time_ms < 1 << 53:
        set_time(path, time_ms)
