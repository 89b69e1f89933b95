"""A slice of a Delta table: its files, and the log that makes a table of them.

Versions keep their numbers. The oldest version, the root, has a commit with the whole state of the table and a
checkpoint of this state, as in a log whose older part was cleaned up. The root's files have `dataChange` false, so that
a change feed of the slice begins after the root.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import RequestError, UnsupportedError
from harness.metadata.delta.actions import DELETION_VECTOR, Commit, DeletionVectorDescriptor, Metadata, State
from harness.metadata.delta.replay import load_state
from harness.metadata.delta.scan import vector_path
from harness.metadata.delta.segment import choose_segment
from harness.metadata.delta.table import DeltaSelection, DeltaTable
from harness.metadata.delta.types import materialized_columns
from harness.metadata.model.schema import Field
from harness.metadata.planned_scan import PlannedScan
from harness.slices.anonymising.delta import DeltaMasking, commit_info
from harness.slices.delta import actions
from harness.slices.delta.actions import copied_vector, file_statistics, vector_name, vector_target
from harness.slices.directory import FetchedFile, Slice, SliceDirectory, SlicePaths, SourceFile, translate_write_errors
from harness.slices.request import RowSelection, SliceRequest, select_rows
from harness.slices.rewriting import Rewriter, SliceFile
from harness.storage.paths import PhysicalPath
from harness.writing.delta.checkpoint import CheckpointOptions, hint_text, write_checkpoint
from harness.writing.delta.files import write_vectors
from harness.writing.delta.log import LogState
from harness.writing.delta.types import JsonObject
from harness.writing.delta.values import encoded_path, json_text
from harness.writing.local_files import set_time


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaContents:
    """The contents of a slice.

    Attributes:
        table: The source.
        root: The oldest version, with all that the log records about its files.
        commits: The versions after the root, in ascending order.
        info: The root's commitInfo, or None if it has none.
        times_ms: The time of each version's commit, if the log records it.
        kept: The physical paths of the files that the slice holds.
        plans: The filtered read of each version.
        states: The state of the log at each version.
    """

    table: DeltaTable = field(repr=False)
    root: State
    commits: tuple[Commit, ...]
    info: Mapping[str, Any] | None
    times_ms: Mapping[int, int]
    kept: frozenset[str]
    plans: Mapping[int, PlannedScan]
    states: Mapping[int, State] = field(repr=False)

    def adds(self) -> Iterator[dict[str, Any]]:
        """Yield the add actions of the kept files. Actions of the root come first.

        A file with several deletion vectors is listed several times.
        """
        for table in (self.root.files, *(commit.adds for commit in self.commits)):
            yield from self.rows(table)

    def rows(self, table: pa.Table) -> Iterator[dict[str, Any]]:
        """Yield the actions in a table that are about kept files, with the file's physical path as `physical`."""
        dropped = ["stats_row"] if "stats_row" in table.column_names else []
        files = table.append_column("physical", self.table.locator.physical(table.column("key")))
        for batch in files.drop_columns(dropped).to_batches(max_chunksize=10_000):
            yield from (row for row in batch.to_pylist() if row["physical"] in self.kept)

    def vectors(self) -> Iterator[tuple[str, DeletionVectorDescriptor]]:
        """Yield the deletion vectors of kept files, with the file's physical path."""
        for row in self.adds():
            vector = DeletionVectorDescriptor.from_row(row)
            if vector is not None:
                yield row["physical"], vector

    def live_vectors(self, version: int) -> Iterator[tuple[str, str]]:
        """Yield the physical path and the vector's id for each file with a deletion vector at a version."""
        files = self.states[version].files
        with_vector = files.filter(pc.is_valid(files.column("dv_storage_type")))
        physical = self.table.locator.physical(with_vector.column("key")).to_pylist()
        rows = with_vector.select([f.name for f in DELETION_VECTOR]).to_pylist()
        for path, vector in zip(physical, map(DeletionVectorDescriptor.from_row, rows), strict=True):
            assert vector is not None, "files without a vector were left out"
            yield path, vector.unique_id

    def vector_file(self, vector: DeletionVectorDescriptor) -> PhysicalPath | None:
        """Return the physical path of a deletion vector's file, or None if the vector is inline in the log."""
        path = vector_path(vector.storage_type, vector.path_or_inline, self.table.root)
        return None if path is None else self.table.path_map.physical(path)


def choose_contents(table: DeltaTable, selection: DeltaSelection, where: str | None, last: int) -> DeltaContents:
    """Return the contents of a slice with a version and the `last - 1` versions before it.

    Raises:
        UnsupportedError: A version is redirected to another table, or a version is missing.
        HarnessError: As for planning a read of each version.
    """
    newest = selection.snapshot.id
    readable = next(part for part in table.readable() if newest in part)
    versions = range(max(readable.start, newest - last + 1), newest + 1)
    selections = {v: selection if v == newest else table.select(v) for v in versions}
    for version, version_selection in selections.items():
        configuration = version_selection.snapshot.state.metadata.configuration
        name = next((name for name in configuration if name.startswith("delta.redirect")), None)
        if name is not None:
            raise UnsupportedError(
                f"Cannot pull: the table's property {name} redirects to another table; pull that table",
                table=table.location,
                snapshot=version,
            )
    plans = {version: table.plan(version_selection, None, where) for version, version_selection in selections.items()}
    root = load_state(choose_segment(table.log, versions[0]), table.storage, table.locator, statistics="any")
    reader = table.commits
    physical_paths = {path for plan in plans.values() for path in plan.files.column("physical").to_pylist()}
    commit = table.log.commits.get(versions[0])
    info = None if commit is None else reader.read_info(commit)
    times = {
        v: time
        for v, version_selection in selections.items()
        if (time := version_selection.snapshot.timestamp_ms) is not None
    }
    return DeltaContents(
        table=table,
        root=root,
        commits=tuple(reader.read_commit(table.log.commits[version]) for version in versions[1:]),
        info=None if info is None else info.values,
        times_ms=times,
        kept=frozenset(physical_paths),
        plans=plans,
        states={version: version_selection.snapshot.state for version, version_selection in selections.items()},
    )


_SKIPPING = "delta.dataSkippingStatsColumns"
_EXPRESSIONS = ("delta.generationExpression", "delta.invariants")
_CONSTRAINT = "delta.constraints."
_CLUSTERING = "delta.clustering"


def check_rewritable(contents: DeltaContents, columns: tuple[Field, ...] | None) -> None:
    """Raise an error if the table's files cannot lose rows or columns.

    Raises:
        UnsupportedError: The versions have change data files.
        RequestError: The table needs a column that is left out.
    """
    if any(commit.cdc for commit in contents.commits):
        raise UnsupportedError(
            "Cannot cut rows or columns: the versions have change data files, which would keep them; pull one "
            "version, or whole files",
            table=contents.table.location,
        )
    if columns is None:
        return
    for metadata in (contents.root.metadata, *(c.metadata for c in contents.commits if c.metadata is not None)):
        _check_columns(metadata, columns, contents)


def _check_columns(metadata: Metadata, columns: tuple[Field, ...], contents: DeltaContents) -> None:
    column_names = {f.name for f in columns}
    schema = json.loads(metadata.schema_string)
    omissions = [f for f in schema["fields"] if f["name"] not in column_names]
    partition = {name.casefold() for name in metadata.partition_columns}
    reasons = {f["name"]: "the table is partitioned by it" for f in omissions if f["name"].casefold() in partition}
    texts = {
        f"the column {f['name']}": str(f["metadata"][key])
        for f in schema["fields"]
        if f["name"] in column_names
        for key in _EXPRESSIONS
        if key in f.get("metadata", {})
    }
    texts |= {
        f"the constraint {key.removeprefix(_CONSTRAINT)}": text
        for key, text in metadata.configuration.items()
        if key.startswith(_CONSTRAINT)
    }
    domain = contents.root.domains.get(_CLUSTERING)
    texts |= {} if domain is None else {"the clustering": domain.configuration}
    for f in omissions:
        physical = f.get("metadata", {}).get("delta.columnMapping.physicalName", f["name"])
        for source, text in texts.items():
            words = "|".join(map(re.escape, (f["name"], physical)))
            if re.search(rf"(?<![\w])(?:{words})(?![\w])", text, re.IGNORECASE):
                reasons[f["name"]] = f"{source} needs it"
        if f["name"] in reasons:
            raise RequestError(
                f"Cannot leave out column {f['name']}: {reasons[f['name']]}; name it in columns",
                table=contents.table.location,
                field=f["name"],
                options=("columns",),
            )


def narrow_metadata(metadata: Metadata, columns: tuple[Field, ...]) -> Metadata:
    """Return the metadata with only these columns, and without the property that lists the columns with statistics."""
    column_names = {f.name for f in columns}
    schema: dict[str, Any] = json.loads(metadata.schema_string)
    schema["fields"] = [f for f in schema["fields"] if f["name"] in column_names]
    configuration = {name: text for name, text in metadata.configuration.items() if name != _SKIPPING}
    return replace(metadata, schema_string=json.dumps(schema), configuration=configuration)


def _write_vectors(
    contents: DeltaContents, slice_files: Mapping[str, SliceFile], place: SliceDirectory, refreshed: int
) -> dict[tuple[str, str], JsonObject]:
    """Write the deletion vectors of the slice's files into one file.

    Returns:
        Their descriptors, by the physical path of the data file and the id of the old vector.
    """
    vector_keys = {(path, vector.unique_id) for path, vector in contents.vectors()}
    positions_by_key = {}
    for version, plan in contents.plans.items():
        places = {path: ordinal for ordinal, path in enumerate(plan.files.column("physical").to_pylist())}
        keys_by_path = {
            key[0]: key for key in contents.live_vectors(version) if key in vector_keys and key[0] in places
        }
        source_positions = plan.load_positions([places[path] for path in keys_by_path])
        for path, key in keys_by_path.items():
            positions = source_positions.get(places[path])
            if (
                positions
                and path in slice_files
                and (slice_positions := slice_files[path].translate_positions(positions))
            ):
                positions_by_key[key] = slice_positions
    if not positions_by_key:
        return {}
    with translate_write_errors(place.directory):
        descriptors = write_vectors(
            place.directory, vector_name(f"vectors of a slice {refreshed}"), 0, positions_by_key.values()
        )
    return dict(zip(positions_by_key, descriptors, strict=True))


def plan_slice(table: DeltaTable, selection: DeltaSelection, request: SliceRequest, refreshed: int) -> Slice:
    """Plan the slice that a request describes."""
    columns = request.bound_columns(selection.schema)
    contents = choose_contents(table, selection, request.where, request.last)
    if request.rewrites:
        check_rewritable(contents, columns)
    rows = select_rows(contents.plans.values(), request)
    if rows is not None:
        contents = replace(contents, kept=contents.kept & rows.keys())
    names = SlicePaths(table.root.path, refreshed, numbered=request.anonymise is not None)
    planned = _DeltaSlice(contents, names, request, columns, rows)
    return Slice(
        points=(contents.root.version, *(commit.version for commit in contents.commits)),
        storage=table.storage.for_read(),
        files=planned.files(),
        write=planned.write,
    )


@dataclass(frozen=True, slots=True)
class _DeltaSlice:
    """A planned slice.

    Attributes:
        columns: The slice's columns. None: all columns.
        rows: The rows to keep in data files. None: all rows.
        fetched: The fetched files, by target.
        settled: The rewritten data files, by physical path.
        vectors: Descriptors of rewritten deletion vectors, see `_write_vectors`. None: deletion vector files were
            copied.
    """

    contents: DeltaContents
    names: SlicePaths
    request: SliceRequest
    columns: tuple[Field, ...] | None
    rows: RowSelection | None = field(repr=False)
    fetched: Mapping[str, FetchedFile] = field(default_factory=dict)
    settled: Mapping[str, SliceFile] = field(default_factory=dict)
    vectors: Mapping[tuple[str, str], JsonObject] | None = None

    def files(self) -> tuple[SourceFile, ...]:
        """Return the files to copy: data files, deletion vector files and change data files."""
        result: dict[str, SourceFile] = {}
        for row in self.contents.adds():
            path = row["physical"]
            target = self.names.fetched_path(path, is_rewritten=self.request.rewrites)
            result[path] = SourceFile(physical=path, target=target, size=row["size"])
        for _, vector in () if self.request.rewrites_vectors else self.contents.vectors():
            file = self.contents.vector_file(vector)
            if file is not None:
                result[file] = SourceFile(physical=file, target=vector_target(file), size=None)
        for commit in self.contents.commits:
            for change in commit.cdc:
                target = self.names.path_of(change.physical, folder="_change_data")
                result[change.physical] = SourceFile(physical=change.physical, target=target, size=change.size)
        return tuple(result.values())

    def write(self, place: SliceDirectory, fetched: Mapping[str, FetchedFile]) -> list[str]:
        """Write the log to the staging folder, and return a sentence for each thing that the slice lacks.

        Args:
            place: The slice's directory.
            fetched: The fetched files, by target.
        """
        root, request = self.contents.root, self.request
        lineage = materialized_columns(root.metadata.configuration)
        rewriter = Rewriter(
            columns=self.columns,
            rows=self.rows,
            row_ids=_column_reference(lineage.get("_row_id")),
            row_versions=_column_reference(lineage.get("_row_commit_version")),
            statistics=file_statistics,
            pseudonyms=request.pseudonyms(),
        )
        plans = self.contents.plans.values() if request.rewrites else ()
        slice_files = rewriter.rewrite_files(plans, "physical", place, self.names)
        vectors: Mapping[tuple[str, str], JsonObject] | None = {} if request.rewrites_vectors else None
        if request.rewrites_vectors:
            vectors = _write_vectors(self.contents, slice_files, place, self.names.refreshed)
        return replace(self, fetched=fetched, settled=slice_files, vectors=vectors)._write_log(place)

    def _write_log(self, place: SliceDirectory) -> list[str]:
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
        notes = [] if masking is None else masking.mask(state)
        for row in self._rows(root.files):
            add = self._add(row, data_change=False)
            if masking is not None:
                add["partitionValues"] = masking.partition_values(add["partitionValues"])
            state.files[add["path"], None] = {"add": add}
            _set_time(place.file(self._slice_path(row["physical"])), row["modification_time"])
        info = [] if self.contents.info is None else [{"commitInfo": dict(self.contents.info)}]
        if masking is not None:
            info = [{"commitInfo": commit_info(action["commitInfo"])} for action in info]
        self._write_commit(folder, root.version, [*info, *state.metadata_actions(), *state.files.values()])
        for commit in self.contents.commits:
            self._write_commit(folder, commit.version, list(self._actions(commit)))
        if root.version > 0:
            # A log that does not begin at version 0 needs a checkpoint.
            time_ms = self.contents.times_ms.get(root.version, 0)
            with translate_write_errors(folder):
                written = write_checkpoint(folder, root.version, state, time_ms, CheckpointOptions())
                (folder / "_last_checkpoint").write_text(hint_text(written.hint), encoding="utf-8")
        if actions.is_managed(root.protocol):
            notes.append("Left out the catalog's management of the table: the slice has no catalog")
        return notes

    def _slice_path(self, path: str) -> str:
        return self.names.written_path(path, is_rewritten=self.request.rewrites)

    def _write_commit(self, folder: Path, version: int, content: list[JsonObject]) -> None:
        path = folder / f"{version:020d}.json"
        with translate_write_errors(path):
            path.write_text("".join(f"{json_text(action)}\n" for action in content), encoding="utf-8", newline="\n")
            _set_time(path, self.contents.times_ms.get(version))

    def _actions(self, commit: Commit) -> Iterator[JsonObject]:
        """Yield the actions of a commit after the root."""
        if commit.info is not None:
            yield {"commitInfo": dict(commit.info.values)}
        if commit.protocol is not None:
            yield {"protocol": actions.protocol_json(commit.protocol)}
        if commit.metadata is not None:
            yield {"metaData": self._metadata(commit.metadata)}
        yield from ({"txn": actions.transaction_json(t)} for t in commit.transactions)
        yield from ({"domainMetadata": actions.domain_json(d)} for d in commit.domains)
        for row in self._rows(commit.removes):
            yield {"remove": actions.remove_json(row, self._slice_path(row["physical"]), self._vector(row))}
        for row in self._rows(commit.adds):
            yield {"add": self._add(row, data_change=row["data_change"])}
        for change in commit.cdc:
            target = self.fetched[self.names.path_of(change.physical, folder="_change_data")]
            yield {
                "cdc": {
                    "path": encoded_path(target.target),
                    "partitionValues": dict(change.partition_values),
                    "size": target.size,
                    "dataChange": False,
                }
            }

    def _rows(self, table: pa.Table) -> list[dict[str, Any]]:
        rows = list(self.contents.rows(table))
        return rows[::-1] if self.request.reverse else rows

    def _metadata(self, metadata: Metadata) -> JsonObject:
        return actions.metadata_json(metadata if self.columns is None else narrow_metadata(metadata, self.columns))

    def _add(self, row: Mapping[str, Any], *, data_change: bool) -> JsonObject:
        path = row["physical"]
        file = self.settled.get(path)
        target, vector = self._slice_path(path), self._vector(row)
        size = file.size if file is not None else self.fetched[target].size
        result = actions.add_json(row, target, size, vector, data_change=data_change)
        if file is not None and file.count is not None:
            result["stats"] = json_text({**file.statistics, "tightBounds": vector is None})
        return result if self.request.statistics else actions.without_statistics(result)

    def _vector(self, row: Mapping[str, Any]) -> JsonObject | None:
        """Return the descriptor of a file's deletion vector in the slice, or None if no row of the file is deleted."""
        vector = DeletionVectorDescriptor.from_row(row)
        if vector is None:
            return None
        if self.vectors is not None:
            return self.vectors.get((row["physical"], vector.unique_id))
        return copied_vector(vector, self.contents.vector_file(vector))


def _column_reference(column: str | None) -> tuple[str, None] | None:
    return None if column is None else (column, None)


def _set_time(path: Path, time_ms: int | None) -> None:
    """Set a file's modification time to the commit's time or to the time that the log records for the data file."""
    if time_ms is not None and 0 <= time_ms < 1 << 53:
        set_time(path, time_ms)
