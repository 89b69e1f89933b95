"""The evidence for features: the documents of the built table, and the plans of the scenario's reads."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from harness.engines.registry import find_engine
from harness.errors import HarnessError
from harness.metadata.planned_scan import PlannedScan
from harness.storage.threads import cached_property
from harness.suite.scenarios.model import BuiltScenario, ResolvedExpectation
from harness.table import open_table

AvroHeader: TypeAlias = tuple[Any, str, dict[str, str]]
"""The schema, codec, and key-value metadata of an Avro file."""


@dataclass(frozen=True)
class Evidence:
    """A built scenario, and the plan or error of each read by the number of its expectation."""

    built: BuiltScenario
    planning: Mapping[int, PlannedScan | HarnessError]

    @cached_property
    def plans(self) -> tuple[PlannedScan, ...]:
        """Return the plans of the reads that can be planned."""
        return tuple(outcome for outcome in self.planning.values() if isinstance(outcome, PlannedScan))

    @cached_property
    def errors(self) -> tuple[HarnessError, ...]:
        """Return the errors of the reads that cannot be planned."""
        return tuple(outcome for outcome in self.planning.values() if isinstance(outcome, HarnessError))

    def plan_of(self, number: int) -> PlannedScan:
        """Return the plan of a read.

        Raises:
            HarnessError: The read cannot be planned.
        """
        plan = self.planning[number]
        if isinstance(plan, HarnessError):
            raise plan
        return plan

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """Return the newest Iceberg metadata document. It is empty for Delta tables and if it cannot be read."""
        if self.built.metadata_path is None:
            return {}
        try:
            content = self.built.metadata_path.read_bytes()
            return dict(json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content))
        except (OSError, ValueError, EOFError):
            return {}

    @cached_property
    def manifests(self) -> tuple[dict[str, Any], ...]:
        """Return the entries of the manifest lists of all snapshots, each manifest once."""
        entries_by_path: dict[str, dict[str, Any]] = {}
        for snapshot in self.metadata.get("snapshots", []):
            for entry in self._avro(snapshot.get("manifest-list")):
                entries_by_path.setdefault(str(entry.get("manifest_path")), entry)
        return tuple(entries_by_path.values())

    @cached_property
    def entries(self) -> tuple[dict[str, Any], ...]:
        """Return the manifest entries of all snapshots."""
        return tuple(entry for m in self.manifests for entry in self._avro(m.get("manifest_path")))

    @cached_property
    def files(self) -> tuple[dict[str, Any], ...]:
        """Return the `data_file` structs of all entries that are not deleted."""
        return tuple(e["data_file"] for e in self.entries if e.get("status") != 2 and "data_file" in e)

    @cached_property
    def list_headers(self) -> tuple[AvroHeader, ...]:
        """Return the headers of all readable manifest lists."""
        paths = (s.get("manifest-list") for s in self.metadata.get("snapshots", []))
        return tuple(header for header in map(self._header, paths) if header is not None)

    @cached_property
    def manifest_headers(self) -> tuple[AvroHeader, ...]:
        """Return the headers of all readable manifests."""
        headers = (self._header(manifest.get("manifest_path")) for manifest in self.manifests)
        return tuple(header for header in headers if header is not None)

    @cached_property
    def all_errors(self) -> Mapping[int, HarnessError]:
        """Return the errors of planning and of executing the plans, by the number of the expectation."""
        errors_by_number = {}
        for number in self.planning:
            try:
                find_engine("duckdb").to_arrow(self.plan_of(number))
            except HarnessError as error:
                errors_by_number[number] = error
        return errors_by_number

    def numbered_files(self) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
        """Yield the live files of all snapshots: data sequence number, manifest list entry, file."""
        for manifest in self.manifests:
            for entry in self._avro(manifest.get("manifest_path")):
                number = entry.get("sequence_number")
                if entry.get("status") != 2:
                    yield manifest.get("sequence_number", 0) if number is None else number, manifest, entry["data_file"]

    def planned_files(self) -> Iterator[tuple[PlannedScan, dict[str, Any]]]:
        """Yield every planned data file, a row of `plan.FILES`, with its plan."""
        for plan in self.plans:
            for row in plan.files.to_pylist():
                yield plan, row

    def file_of(self, recorded: str) -> Path:
        """Return the physical path of a recorded path, also in a moved table."""
        path = Path(recorded.removeprefix("file://"))
        location = str(self.metadata.get("location", ""))
        if location and recorded.startswith(f"{location}/"):
            return self.built.location / recorded.removeprefix(f"{location}/")
        return path

    def _avro(self, recorded: object) -> list[dict[str, Any]]:
        if not isinstance(recorded, str):
            return []
        try:
            with self.file_of(recorded).open("rb") as file:
                return [record for record in fastavro.reader(file) if isinstance(record, dict)]
        except (OSError, ValueError, EOFError, KeyError, TypeError):
            return []  # a broken file is no evidence

    def _header(self, recorded: object) -> AvroHeader | None:
        try:
            with self.file_of(str(recorded)).open("rb") as file:
                reader = fastavro.reader(file)
                header = {str(key): str(value) for key, value in reader.metadata.items()}
                return json.loads(header["avro.schema"]), reader.codec, header
        except (OSError, ValueError, EOFError, KeyError, TypeError):
            return None


Proof: TypeAlias = Callable[[Evidence], bool]


def proved_by_plan(shows: Callable[[PlannedScan], bool]) -> Proof:
    """Return a proof that a feature occurs in at least one plan."""
    return lambda evidence: any(map(shows, evidence.plans))


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature that a scenario may declare.

    `proof` returns whether the feature occurs, without using the scenario's text.
    """

    meaning: str
    proof: Proof


def plan_read(address: str, expectation: ResolvedExpectation, **opening: Any) -> PlannedScan:
    """Return the plan of a read.

    Args:
        address: The address of the table.
        expectation: The read.
        opening: Arguments of `harness.open_table`, in addition to the catalog's answer.

    Raises:
        HarnessError: The read cannot be planned.
    """
    table, at = open_table(address, **opening, **expectation.opening), expectation.at
    if at.changes is not None:
        return table.changes(**at.changes.arguments(), **expectation.plan_arguments())._plan
    return table.snapshot(at.moment)._planned(**expectation.plan_arguments())


def collect_evidence(built: BuiltScenario) -> Evidence:
    """Return the plans of all reads of a built scenario, as harness makes them."""
    planning: dict[int, PlannedScan | HarnessError] = {}
    for expectation in built.expectations:
        try:
            planning[expectation.number] = plan_read(built.address, expectation)
        except HarnessError as error:
            planning[expectation.number] = error
    return Evidence(built, planning)


_COMMIT = re.compile(r"(\d{20})\.json")
_COMPACTION = re.compile(r"(\d{20})\.(\d{20})\.compacted\.json")
_CHECKPOINT = re.compile(
    r"(\d{20})\.checkpoint(?:\.(?P<part>\d{10})\.(?P<parts>\d{10})|\.(?P<uuid>[^.]+))?\.(parquet|json)"
)


@dataclass(frozen=True)
class _CheckpointFile:
    """A top-level file of a checkpoint.

    `part` is its number out of `parts`. Both are 0 for a checkpoint in one file.
    """

    version: int
    path: Path
    part: int
    parts: int
    rows: tuple[Mapping[str, Any], ...]

    @property
    def kind(self) -> str:
        """The kind of the checkpoint: `classic`, `multi-part`, `v2-json`, `v2-parquet`, or `unreadable`."""
        if not self.rows:
            return "unreadable"
        if self.path.suffix == ".json":
            return "v2-json"
        if self.parts > 0:
            return "multi-part"
        return "v2-parquet" if any(row.get("checkpointMetadata") for row in self.rows) else "classic"


@dataclass(frozen=True)
class DeltaLogOnDisk:
    """The files of `_delta_log`, read without the reader under test."""

    evidence: Evidence

    @property
    def directory(self) -> Path:
        """The `_delta_log` folder."""
        return self.evidence.built.location / "_delta_log"

    @cached_property
    def commits(self) -> dict[int, list[dict[str, Any]]]:
        """Return the actions of every commit by version, including ratified commits.

        Lines that are not JSON are skipped.
        """
        contents = {int(m[1]): path.read_bytes() for path in self._files() if (m := _COMMIT.fullmatch(path.name))}
        for expectation in self.evidence.built.expectations:
            for commit in expectation.opening.get("ratified", ()):
                if not isinstance(commit, str):
                    contents[commit[0]] = commit[1]
                elif (staged := self.directory / "_staged_commits" / commit).is_file():
                    contents[int(commit[:20])] = staged.read_bytes()
        return {version: list(_json_lines(contents[version])) for version in sorted(contents)}

    @property
    def latest(self) -> int:
        """The newest version with a file, or -1 if there is none."""
        return max(self.commits, default=-1)

    @cached_property
    def versions_read(self) -> tuple[int, ...]:
        """Return the versions of the scenario's planned reads. Reads that fail count as the newest version."""
        planned = {plan.snapshot for plan in self.evidence.plans if plan.snapshot is not None}
        return tuple(sorted(planned | ({self.latest} if self.evidence.errors else set())))

    @cached_property
    def checkpoints(self) -> tuple[_CheckpointFile, ...]:
        """Return the files of checkpoints, sorted by version and name."""
        files = []
        for path in self._files():
            name = _CHECKPOINT.fullmatch(path.name)
            if name is not None:
                rows = tuple(_json_lines(path.read_bytes()) if path.suffix == ".json" else _parquet_rows(path))
                part, parts = int(name["part"] or 0), int(name["parts"] or 0)
                files.append(_CheckpointFile(int(name[1]), path, part, parts, rows))
        return tuple(files)

    def is_whole(self, checkpoint: _CheckpointFile) -> bool:
        """Return whether all parts of a checkpoint exist."""
        parts = [c for c in self.checkpoints if (c.version, c.parts) == (checkpoint.version, checkpoint.parts)]
        return checkpoint.parts == 0 or len(parts) == checkpoint.parts

    @cached_property
    def compactions(self) -> tuple[tuple[int, int], ...]:
        """Return the first and last version of every compacted log file that is not empty."""
        matches = [(path, m) for path in self._files() if (m := _COMPACTION.fullmatch(path.name))]
        return tuple((int(m[1]), int(m[2])) for path, m in matches if path.stat().st_size > 0)

    @cached_property
    def actions(self) -> tuple[tuple[int, str, dict[str, Any]], ...]:
        """Return the version, kind, and content of every action in commits and checkpoints, commits first."""
        committed = [(v, a) for v, actions in self.commits.items() for a in actions]
        checkpointed = [(c.version, row) for c in self.checkpoints for row in c.rows]
        checkpointed += [
            (self.latest, row) for path in sorted(self.directory.glob("_sidecars/*")) for row in _parquet_rows(path)
        ]
        every = (*committed, *checkpointed)
        return tuple((v, kind, body) for v, a in every for kind, body in a.items() if isinstance(body, dict))

    def actions_of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the contents of all actions of a kind."""
        return [body for _, action_kind, body in self.actions if action_kind == kind]

    def newest_action(self, kind: str, version: int) -> dict[str, Any]:
        """Return the newest protocol or metaData action up to a version, or an empty dict if there is none."""
        matches = [(v, body) for v, name, body in self.actions if name == kind and v <= version]
        return max(matches, key=lambda entry: entry[0], default=(0, {}))[1]

    @cached_property
    def schemas(self) -> tuple[dict[str, Any], ...]:
        """Return the schema documents of all metaData actions, oldest first."""
        metadata = sorted(
            ((v, body) for v, kind, body in self.actions if kind == "metaData"), key=lambda entry: entry[0]
        )
        return tuple(_parse_json(body.get("schemaString")) for _, body in metadata)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Return the recorded paths of all added files."""
        return tuple(str(body.get("path")) for body in self.actions_of_kind("add"))

    def orphans(self) -> list[Path]:
        """Return the Parquet files below the table that no action names."""
        names = {unquote(str(body.get("path"))).removeprefix("./") for _, _, body in self.actions if "path" in body}
        root = self.evidence.built.location
        files = (p.relative_to(root).as_posix() for p in root.rglob("*.parquet") if self.directory not in p.parents)
        return [root / name for name in files if name not in names]

    def _files(self) -> list[Path]:
        return sorted(p for p in self.directory.glob("*") if p.is_file())


def all_fields(document: object, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield every struct field of a schema document with its path of names."""
    if not isinstance(document, dict):
        return
    for f in document.get("fields", []):
        path = (*place, f["name"])
        yield path, f
        yield from all_fields(f.get("type"), path)
    for part in ("elementType", "keyType", "valueType"):
        yield from all_fields(document.get(part), (*place, part))


def identities(document: object) -> dict[Any, tuple[tuple[str, ...], dict[str, Any]]]:
    """Return the fields of a schema by an identity that renaming keeps: the column mapping id, otherwise their path."""
    return {f.get("metadata", {}).get("delta.columnMapping.id", path): (path, f) for path, f in all_fields(document)}


def footers(evidence: Evidence) -> Iterator[tuple[dict[str, Any], pq.FileMetaData]]:
    """Yield every planned file with a readable footer: its row of the plan, and the footer."""
    for _, row in evidence.planned_files():
        try:
            yield row, pq.read_metadata(row["physical"].removeprefix("file://"))
        except (OSError, pa.ArrowException):
            continue


def has_legacy_form(evidence: Evidence) -> bool:
    """Return whether a planned file has a list of two levels, an older form of map, or a decimal in bytes.

    A map in the older form is recognized by the name of its repeated group, because pyarrow shows both annotations
    alike.
    """
    columns = (footer.schema.column(i) for _, footer in footers(evidence) for i in range(footer.num_columns))
    return any(
        re.search(r"\.(array|map)(\.|$)", column.path)
        or (column.physical_type == "BYTE_ARRAY" and column.logical_type.type == "DECIMAL")
        for column in columns
    )


LEGACY_FORM = "a file has a list of two levels, a map annotated as MAP_KEY_VALUE, or a decimal in bytes of any length"


def _json_lines(data: bytes) -> Iterator[dict[str, object]]:
    for line in data.splitlines():
        document = _parse_json(line)
        if document:
            yield document


def _parse_json(text: Any) -> dict[str, object]:
    try:
        document = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _parquet_rows(path: Path) -> Iterator[dict[str, object]]:
    try:
        rows = pq.read_table(path).to_pylist(maps_as_pydicts="strict")
    except (OSError, pa.ArrowException):
        return
    for row in rows:
        yield {name: value for name, value in row.items() if value is not None}
