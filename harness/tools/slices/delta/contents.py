"""The contents of a slice of a Delta table: versions, and of their files those that the filter needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import RequestError, UnsupportedError
from harness.metadata.delta.actions import DELETION_VECTOR, Commit, DeletionVectorDescriptor, Metadata, State
from harness.metadata.delta.deletion_vectors import vector_path
from harness.metadata.delta.replay import load_state
from harness.metadata.delta.segment import choose_segment
from harness.metadata.delta.table import DeltaSelection, DeltaTable
from harness.metadata.filters.predicate import Filter
from harness.metadata.model.schema import Field
from harness.metadata.plan.scan_plan import ScanPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaContents:
    """The contents of a slice.

    table: the source.
    root: the oldest version, with all that the log says of its files.
    commits: the versions after the root, ascending.
    info: the root's commitInfo; None: it has none.
    times_ms: the time of each version's commit, as far as the log tells.
    kept: the files that the slice holds, by their physical paths.
    plans, states: of each version, the filtered read, and the state of the log.
    """

    table: DeltaTable = field(repr=False)
    root: State
    commits: tuple[Commit, ...]
    info: Mapping[str, Any] | None
    times_ms: Mapping[int, int]
    kept: frozenset[str]
    plans: Mapping[int, ScanPlan]
    states: Mapping[int, State] = field(repr=False)

    def adds(self) -> Iterator[dict[str, Any]]:
        """The add actions of files that are kept, those of the root first; a file may come with several vectors."""
        for table in (self.root.files, *(commit.adds for commit in self.commits)):
            yield from self.rows(table)

    def rows(self, table: pa.Table) -> Iterator[dict[str, Any]]:
        """The file actions of the table whose files are kept, with their physical path as `physical`."""
        dropped = ["stats_row"] if "stats_row" in table.column_names else []
        located = table.append_column("physical", self.table.source.locator.physical(table.column("key")))
        for batch in located.drop_columns(dropped).to_batches(max_chunksize=10_000):
            yield from (row for row in batch.to_pylist() if row["physical"] in self.kept)

    def vectors(self) -> Iterator[tuple[str, DeletionVectorDescriptor]]:
        """The deletion vectors of files that are kept, with the file's physical path."""
        for row in self.adds():
            vector = DeletionVectorDescriptor.of(row)
            if vector is not None:
                yield row["physical"], vector

    def live_vectors(self, version: int) -> Iterator[tuple[str, str]]:
        """The physical paths of files that have a deletion vector at a version, and the vector's id."""
        files = self.states[version].files
        with_vector = files.filter(pc.is_valid(files.column("dv_storage_type")))
        physical = self.table.source.locator.physical(with_vector.column("key")).to_pylist()
        rows = with_vector.select([f.name for f in DELETION_VECTOR]).to_pylist()
        for path, vector in zip(physical, map(DeletionVectorDescriptor.of, rows), strict=True):
            assert vector is not None, "files without a vector were left out"
            yield path, vector.unique_id

    def vector_file(self, vector: DeletionVectorDescriptor) -> str | None:
        """The physical path of the file that holds a vector; None: it is in the log."""
        path = vector_path(vector, self.table.source.root)
        return None if path is None else self.table.source.path_map.physical(path)


def contents_of(table: DeltaTable, selection: DeltaSelection, where: str | Filter | None, last: int) -> DeltaContents:
    """The contents of a slice of a version and the `last` - 1 before it.

    Raises:
        UnsupportedError: a version between was redirected, or the versions have a gap.
        As planning a read of each of them does.
    """
    newest = selection.snapshot.id
    readable = next(part for part in table.readable() if newest in part)
    versions = range(max(readable.start, newest - last + 1), newest + 1)
    selections = {v: selection if v == newest else table.select(v, None, None) for v in versions}
    for version, chosen in selections.items():
        configuration = chosen.snapshot.state.metadata.configuration
        name = next((name for name in configuration if name.startswith("delta.redirect")), None)
        if name is not None:
            raise UnsupportedError(
                f"Cannot pull: the table's property {name} leads writers elsewhere; pull the table that it leads to",
                table=table.location,
                snapshot=version,
            )
    plans = {version: table.plan(chosen, None, where) for version, chosen in selections.items()}
    source = table.source
    root = load_state(choose_segment(table.log, versions[0]), source.storage, source.locator, statistics="any")
    reader = source.commits
    kept = {path for plan in plans.values() for path in plan.files.column("physical").to_pylist()}
    own = table.log.commits.get(versions[0])
    info = None if own is None else reader.read_info(own)
    times = {v: time for v, chosen in selections.items() if (time := chosen.snapshot.timestamp_ms) is not None}
    return DeltaContents(
        table=table,
        root=root,
        commits=tuple(reader.read_commit(table.log.commits[version]) for version in versions[1:]),
        info=None if info is None else info.values,
        times_ms=times,
        kept=frozenset(kept),
        plans=plans,
        states={version: chosen.snapshot.state for version, chosen in selections.items()},
    )


# A slice with fewer rows or columns: what it cannot do without, and what the metadata says without the others.


_SKIPPING = "delta.dataSkippingStatsColumns"
_EXPRESSIONS = ("delta.generationExpression", "delta.invariants")
_CONSTRAINT = "delta.constraints."
_CLUSTERING = "delta.clustering"


def check_rewritable(contents: DeltaContents, columns: tuple[Field, ...] | None) -> None:
    """Refuses what files cannot lose rows or columns of.

    Raises:
        UnsupportedError: the versions have files of changes.
        RequestError: a column is left out that the table needs.
    """
    if any(commit.cdc for commit in contents.commits):
        raise UnsupportedError(
            "Cannot cut rows or columns: the versions have files of changes, which would still have them; pull one "
            "version, or whole files",
            table=contents.table.location,
        )
    if columns is None:
        return
    for metadata in (contents.root.metadata, *(c.metadata for c in contents.commits if c.metadata is not None)):
        _check_columns(metadata, columns, contents)


def _check_columns(metadata: Metadata, columns: tuple[Field, ...], contents: DeltaContents) -> None:
    kept = {f.name for f in columns}
    schema = json.loads(metadata.schema_string)
    gone = [f for f in schema["fields"] if f["name"] not in kept]
    partition = {name.casefold() for name in metadata.partition_columns}
    needed = {f["name"]: "the table is partitioned by it" for f in gone if f["name"].casefold() in partition}
    texts = {
        f"the column {f['name']}": str(f["metadata"][key])
        for f in schema["fields"]
        if f["name"] in kept
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
    for f in gone:
        physical = f.get("metadata", {}).get("delta.columnMapping.physicalName", f["name"])
        for by, text in texts.items():
            words = "|".join(map(re.escape, (f["name"], physical)))
            if re.search(rf"(?<![\w])(?:{words})(?![\w])", text, re.IGNORECASE):
                needed[f["name"]] = f"{by} needs it"
        if f["name"] in needed:
            raise RequestError(
                f"Cannot leave out column {f['name']}: {needed[f['name']]}; name it in columns",
                table=contents.table.location,
                field=f["name"],
                options=("columns",),
            )


def narrowed(metadata: Metadata, columns: tuple[Field, ...]) -> Metadata:
    """The metadata with these columns alone; which columns have statistics is no longer said by name."""
    kept = {f.name for f in columns}
    schema: dict[str, Any] = json.loads(metadata.schema_string)
    schema["fields"] = [f for f in schema["fields"] if f["name"] in kept]
    configuration = {name: text for name, text in metadata.configuration.items() if name != _SKIPPING}
    return replace(metadata, schema_string=json.dumps(schema), configuration=configuration)
