"""What shows that a feature occurs: the documents of the built table, and the plans of the scenario's reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import fastavro

from harness.engines.registry import find_engine
from harness.errors import HarnessError
from harness.forks import cached_property
from harness.plan.scan_plan import ScanPlan
from harness.table import open_table
from harness.testing.scenarios.model import Built, ResolvedExpectation


@dataclass(frozen=True)
class Evidence:
    """A built scenario and, by number of the expectation, what planning its reads came to: a plan or an error."""

    built: Built
    planning: Mapping[int, ScanPlan | HarnessError]

    @cached_property
    def plans(self) -> tuple[ScanPlan, ...]:
        """Those of the reads that can be planned."""
        return tuple(found for found in self.planning.values() if isinstance(found, ScanPlan))

    @cached_property
    def errors(self) -> tuple[HarnessError, ...]:
        """Those of the reads that cannot."""
        return tuple(found for found in self.planning.values() if isinstance(found, HarnessError))

    def plan_of(self, number: int) -> ScanPlan:
        """The plan of one read.

        Raises:
            HarnessError: it cannot be planned.
        """
        found = self.planning[number]
        if isinstance(found, HarnessError):
            raise found
        return found

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The newest Iceberg metadata document; empty for a Delta table, or where it cannot be read."""
        path = self.built.metadata_path
        if path is None:
            return {}
        try:
            content = path.read_bytes()
            return dict(json.loads(_plain(content)))
        except (OSError, ValueError, EOFError):
            return {}

    @cached_property
    def manifests(self) -> tuple[dict[str, Any], ...]:
        """What the manifest lists of all snapshots say of manifests, each once."""
        found: dict[str, dict[str, Any]] = {}
        for snapshot in self.metadata.get("snapshots", []):
            for entry in self._avro(snapshot.get("manifest-list")):
                found.setdefault(str(entry.get("manifest_path")), entry)
        return tuple(found.values())

    @cached_property
    def entries(self) -> tuple[dict[str, Any], ...]:
        """The manifest entries of all snapshots."""
        return tuple(entry for m in self.manifests for entry in self._avro(m.get("manifest_path")))

    @cached_property
    def files(self) -> tuple[dict[str, Any], ...]:
        """The `data_file` structs of all entries that are not deleted."""
        return tuple(e["data_file"] for e in self.entries if e.get("status") != 2 and "data_file" in e)

    @cached_property
    def list_headers(self) -> tuple[tuple[Any, str], ...]:
        """Avro schema and codec of every manifest list that can be read."""
        paths = (s.get("manifest-list") for s in self.metadata.get("snapshots", []))
        return tuple((schema, codec) for schema, codec, _ in map(self._header, paths) if schema is not None)

    @cached_property
    def manifest_schemas(self) -> tuple[tuple[Any, str], ...]:
        """Avro schema and codec of every manifest that can be read."""
        return tuple((schema, codec) for schema, codec, _ in self._manifest_headers if schema is not None)

    @cached_property
    def manifest_headers(self) -> tuple[dict[str, str], ...]:
        """The key-value metadata of every manifest that can be read."""
        return tuple(header for schema, _, header in self._manifest_headers if schema is not None)

    @cached_property
    def all_errors(self) -> Mapping[int, HarnessError]:
        """The errors of planning, and those of running what could be planned, by number of the expectation."""
        found = {}
        for number in self.planning:
            try:
                find_engine("duckdb").to_arrow(self.plan_of(number))
            except HarnessError as error:
                found[number] = error
        return found

    def numbered(self) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
        """Every live file of any snapshot: its data sequence number, what its list says of its manifest, the file."""
        for manifest in self.manifests:
            for entry in self._avro(manifest.get("manifest_path")):
                number = entry.get("sequence_number")
                if entry.get("status") != 2:
                    yield manifest.get("sequence_number", 0) if number is None else number, manifest, entry["data_file"]

    def planned(self) -> Iterator[tuple[ScanPlan, dict[str, Any]]]:
        """Every planned data file, a row of `plan.FILES`, with its plan."""
        for plan in self.plans:
            for row in plan.files.to_pylist():
                yield plan, row

    def file_of(self, recorded: str) -> Path:
        """Where a recorded path is on disk, though the table may have been moved."""
        path = Path(recorded.removeprefix("file://"))
        location = str(self.metadata.get("location", ""))
        if location and recorded.startswith(f"{location}/"):
            return self.built.location / recorded.removeprefix(f"{location}/")
        return path

    def _avro(self, recorded: Any) -> list[dict[str, Any]]:
        if not isinstance(recorded, str):
            return []
        try:
            with self.file_of(recorded).open("rb") as file:
                return [record for record in fastavro.reader(file) if isinstance(record, dict)]
        except (OSError, ValueError, EOFError, KeyError, TypeError):
            return []  # a broken file shows nothing

    @cached_property
    def _manifest_headers(self) -> tuple[tuple[Any, str, dict[str, str]], ...]:
        return tuple(self._header(m.get("manifest_path")) for m in self.manifests)

    def _header(self, recorded: Any) -> tuple[Any, str, dict[str, str]]:
        """Schema, codec and key-value metadata; the schema is None for a file that cannot be read."""
        try:
            with self.file_of(str(recorded)).open("rb") as file:
                reader = fastavro.reader(file)
                header = {str(key): str(value) for key, value in reader.metadata.items()}
                return json.loads(header["avro.schema"]), reader.codec, header
        except (OSError, ValueError, EOFError, KeyError, TypeError):
            return None, "", {}


Proof: TypeAlias = Callable[[Evidence], bool]


@dataclass(frozen=True, slots=True)
class Feature:
    """What a scenario may say that its table has. proof: whether it occurs; never looks at the scenario's text."""

    meaning: str
    proof: Proof


def evidence_of(built: Built) -> Evidence:
    """The plans of all reads of a built scenario, as harness makes them."""
    planning: dict[int, ScanPlan | HarnessError] = {}
    for expectation in built.expectations:
        try:
            planning[expectation.number] = _plan(built, expectation)
        except HarnessError as error:
            planning[expectation.number] = error
    return Evidence(built, planning)


def _plan(built: Built, expectation: ResolvedExpectation) -> ScanPlan:
    table = open_table(built.address, **expectation.opening)
    if expectation.at.changes is not None:
        return table.changes(*expectation.at.changes, columns=expectation.columns).plan
    return table.snapshot(**expectation.at.arguments()).plan(expectation.columns, expectation.where)


def _plain(content: bytes) -> bytes:
    import gzip

    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
