"""A slice of a Delta table: what it needs, and the table that is made of it.

Versions keep their numbers. The root is a commit that says all of its version, and a checkpoint of the same, as a log
has them whose older part was cleaned up. Its files count as no change of data: a change feed of the slice begins after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.metadata.delta.actions import Commit, DeletionVectorDescriptor, Metadata
from harness.metadata.delta.table import DeltaSelection, DeltaTable
from harness.metadata.delta.types import materialized_columns
from harness.metadata.model.schema import Field
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.stores import Storage
from harness.storage.threads import phase
from harness.testing.writing.delta.checkpoint import CheckpointOptions, hint_text, write_checkpoint
from harness.testing.writing.delta.log import LogState
from harness.testing.writing.delta.values import encoded_path, json_text
from harness.testing.writing.places import set_time
from harness.tools.anonymising.delta import DeltaMasking, commit_info
from harness.tools.anonymising.pseudonyms import Pseudonyms
from harness.tools.slices.delta import actions
from harness.tools.slices.delta.actions import Json, Vectors, copied_vector, file_statistics, vector_target
from harness.tools.slices.delta.contents import DeltaContents, check_rewritable, contents_of, narrowed
from harness.tools.slices.place import ORIGINALS, FetchedFile, SliceNames, SlicePlace, SourceFile, writing
from harness.tools.slices.request import KeptRows, SliceRequest
from harness.tools.slices.rewriting import Rewriter, Settled, ordinals


def planned_slice(table: DeltaTable, selection: DeltaSelection, request: SliceRequest, refreshed: int) -> _DeltaSlice:
    """The slice of a table that a request asks for."""
    columns = request.bound_columns(selection.schema)
    contents = contents_of(table, selection, request.where, request.last)
    if request.rewrites:
        check_rewritable(contents, columns)
    names = SliceNames((table.source.root.path,), refreshed, numbered=request.anonymise is not None)
    return _DeltaSlice(table, contents, names, request, columns)


@dataclass(frozen=True, slots=True)
class _DeltaSlice:
    """A slice that is planned and not yet made.

    columns: those that it has; None: all. rows: that its data files keep; None: all.
    """

    table: DeltaTable
    contents: DeltaContents
    names: SliceNames
    request: SliceRequest
    columns: tuple[Field, ...] | None
    rows: KeptRows | None = field(default=None, repr=False)

    def with_rows(self, rows: KeptRows) -> _DeltaSlice:
        return replace(self, rows=rows, contents=replace(self.contents, kept=self.contents.kept & rows.keys()))

    @property
    def metadata_folder(self) -> str:
        return "_delta_log"

    @property
    def storage(self) -> Storage:
        return self.table.source.storage.for_read()

    @property
    def points(self) -> tuple[int, ...]:
        return (self.contents.root.version, *(commit.version for commit in self.contents.commits))

    @property
    def identity(self) -> str | None:
        return self.contents.root.metadata.id

    def plans(self) -> Iterable[ScanPlan]:
        return self.contents.plans.values()

    def files(self) -> tuple[SourceFile, ...]:
        """The files to copy: data files, files of deletion vectors, files of changes."""
        found: dict[str, SourceFile] = {}
        for row in self.contents.adds():
            path = row["physical"]
            found[path] = SourceFile(physical=path, target=self._fetched_as(path), size=row["size"])
        for vector in () if self.request.rewrites_vectors else self.contents.vectors():
            file = self.contents.vector_file(vector)
            if file is not None:
                found[file] = SourceFile(physical=file, target=vector_target(file), size=None)
        for commit in self.contents.commits:
            for change in commit.cdc:
                target = self.names.of(change.physical, folder="_change_data")
                found[change.physical] = SourceFile(physical=change.physical, target=target, size=change.size)
        return tuple(found.values())

    def rewritten_bytes(self) -> int:
        return 0

    def write(self, place: SlicePlace, fetched: Mapping[str, FetchedFile]) -> list[str]:
        """Writes what makes a table of the fetched files, staged; what the table lacks of the source, a sentence each.

        fetched: by target.
        """
        settled = self._settled(place)
        folder = place.stage()
        root = self.contents.root
        writer = _Writer(self, fetched, settled, self._moved_vectors(place, settled))
        state = LogState(
            protocol=actions.protocol_json(root.protocol),
            metadata=writer.metadata(root.metadata),
            transactions={t.app_id: actions.transaction_json(t) for t in root.transactions.values()},
            domains={d.domain: actions.domain_json(d) for d in root.domains.values()},
        )
        masking = self._masking()
        told = [] if masking is None else masking.hide(state)
        for row in self.contents.rows(root.files):
            add = writer.add(row, data_change=False)
            if masking is not None:
                add["partitionValues"] = masking.partition_values(add["partitionValues"])
            state.files[add["path"], None] = {"add": add}
            _set_time(place.file(self.placed_as(row["physical"])), row["modification_time"])
        info = [] if self.contents.info is None else [{"commitInfo": dict(self.contents.info)}]
        if masking is not None:
            info = [{"commitInfo": commit_info(action["commitInfo"])} for action in info]
        self._write(folder, root.version, [*info, *state.metadata_actions(), *state.files.values()])
        for commit in self.contents.commits:
            self._write(folder, commit.version, list(writer.actions(commit)))
        if root.version > 0:
            # A log that does not begin at version 0 needs one.
            time_ms = self.contents.times_ms.get(root.version, 0)
            with writing(folder):
                written = write_checkpoint(folder, root.version, state, time_ms, CheckpointOptions())
                (folder / "_last_checkpoint").write_text(hint_text(written.hint), encoding="utf-8")
        if actions.is_managed(root.protocol):
            told.append("Left out that a catalog manages the table: the slice has none")
        return told

    def _masking(self) -> DeltaMasking | None:
        key = self.request.anonymise
        if key is None:
            return None
        root = self.contents.root
        return DeltaMasking(root.metadata, self.contents.plans[root.version].schema.fields, Pseudonyms(key))

    def _settled(self, place: SlicePlace) -> dict[str, Settled]:
        """Data files in their place, by physical path; empty, where they were fetched into it."""
        if not self.request.rewrites:
            return {}
        found: dict[str, Settled] = {}
        lineage = materialized_columns(self.contents.root.metadata.configuration)
        for plan in self.contents.plans.values():
            rewriter = Rewriter(
                plan=plan,
                columns=self.columns,
                row_ids=_named(lineage.get("_row_id")),
                row_versions=_named(lineage.get("_row_commit_version")),
                statistics=file_statistics,
                mask=self.request.mask(),
            )
            with phase("rewriting files", plan.files.num_rows, "files") as advance:
                for path, ordinal in ordinals(plan).items():
                    advance(1)
                    if path in found or path not in self.contents.kept:
                        continue
                    original = place.file(self._fetched_as(path))
                    target = place.file(self.placed_as(path))
                    rows = None if self.rows is None else self.rows[path]
                    with writing(target):
                        found[path] = rewriter.settle(ordinal, original, target, rows)
        return found

    def _moved_vectors(self, place: SlicePlace, settled: Mapping[str, Settled]) -> Vectors | None:
        """The deletion vectors of files that lost rows, written anew; None: files are as they were."""
        if not self.request.rewrites_vectors:
            return None
        return Vectors.written(self.contents, settled, place, self.names, compact=self.request.compact)

    def placed_as(self, path: str) -> str:
        """The path of a data file in the slice."""
        return self.names.written(path) if self.request.rewrites else self.names.of(path)

    def _fetched_as(self, path: str) -> str:
        name = self.names.of(path)
        return f"{ORIGINALS}/{name}" if self.request.rewrites else name

    def _write(self, folder: Path, version: int, content: list[Json]) -> None:
        path = folder / f"{version:020d}.json"
        with writing(path):
            path.write_text("".join(f"{json_text(action)}\n" for action in content), encoding="utf-8", newline="\n")
            _set_time(path, self.contents.times_ms.get(version))


@dataclass(frozen=True, slots=True)
class _Writer:
    """Makes the actions of a slice.

    fetched: by target. settled: by physical path. vectors: those written anew; None: files of vectors were copied.
    """

    slice: _DeltaSlice
    fetched: Mapping[str, FetchedFile]
    settled: Mapping[str, Settled]
    vectors: Vectors | None

    def actions(self, commit: Commit) -> Iterator[Json]:
        """The actions of a commit after the root's."""
        contents, names = self.slice.contents, self.slice.names
        if commit.info is not None:
            yield {"commitInfo": dict(commit.info.values)}
        if commit.protocol is not None:
            yield {"protocol": actions.protocol_json(commit.protocol)}
        if commit.metadata is not None:
            yield {"metaData": self.metadata(commit.metadata)}
        yield from ({"txn": actions.transaction_json(t)} for t in commit.transactions)
        yield from ({"domainMetadata": actions.domain_json(d)} for d in commit.domains)
        for row in contents.rows(commit.removes):
            yield {"remove": actions.remove_json(row, self.slice.placed_as(row["physical"]), self._vector(row))}
        for row in contents.rows(commit.adds):
            yield {"add": self.add(row, data_change=row["data_change"])}
        for change in commit.cdc:
            target = self.fetched[names.of(change.physical, folder="_change_data")]
            yield {
                "cdc": {
                    "path": encoded_path(target.target),
                    "partitionValues": dict(change.partition_values),
                    "size": target.size,
                    "dataChange": False,
                }
            }

    def metadata(self, metadata: Metadata) -> Json:
        """The metaData action, with the columns of the slice."""
        columns = self.slice.columns
        return actions.metadata_json(metadata if columns is None else narrowed(metadata, columns))

    def add(self, row: Mapping[str, Any], *, data_change: bool) -> Json:
        """The add action of a file."""
        path = row["physical"]
        settled = self.settled.get(path)
        target, vector = self.slice.placed_as(path), self._vector(row)
        size = settled.size if settled is not None else self.fetched[target].size
        found = actions.add_json(row, target, size, vector, data_change=data_change)
        if settled is not None and settled.count is not None:
            found["stats"] = json_text({**settled.said, "tightBounds": vector is None})
        return found

    def _vector(self, row: Mapping[str, Any]) -> Json | None:
        """The descriptor in the slice: files of vectors lie in its directory, under names that it spells."""
        vector = DeletionVectorDescriptor.of(row)
        if vector is None:
            return None
        if self.vectors is not None:
            return self.vectors.of(row["physical"], vector)
        return copied_vector(vector, self.slice.contents.vector_file(vector))


def _named(column: str | None) -> tuple[str, None] | None:
    return None if column is None else (column, None)


def _set_time(path: Path, time_ms: int | None) -> None:
    """Sets a file's time: of a commit the commit's own, of a data file the time in the log."""
    if time_ms is not None and 0 <= time_ms < 1 << 53:
        set_time(path, time_ms)
