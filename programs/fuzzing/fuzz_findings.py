"""Findings written to directories, so that others can reproduce them.

table/           the table as it is read
scenario.yaml    makes the table, if the subject is a scenario and one of its files is changed, and expects a refusal
finding.json     subject, read, and changed files, for `fuzz.py --again`
README.md        what happens, and the commands that reproduce it
"""

import importlib.metadata
import json
import platform
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fuzz_answers import target_of
from fuzz_assessment import Assessment
from fuzz_mutants import Mutant
from fuzz_subjects import Changes, Image, SubjectRead, placed

from harness.suite.scenarios.loading import fixtures_directory, load
from harness.suite.scenarios.model import Expectation, ExpectedError, ResolvedChanges, Scenario, Selector

sys.path.append(str(Path(__file__).parents[2] / "tests"))

from scenario_text import dump

_PACKAGES = ("duckdb", "pyarrow", "fastavro", "pyroaring")


@dataclass(frozen=True, slots=True)
class FuzzFinding:
    """A reduced fault that a mutant showed. `image` is the table before `changes`."""

    mutant: Mutant
    assessment: Assessment
    image: Image
    changes: Changes


def write(finding: FuzzFinding, directory: Path) -> Path:
    """Write a finding to a new directory below another, and return the new directory."""
    mutant = finding.mutant
    place = directory / mutant.name
    place.mkdir(parents=True, exist_ok=True)
    for name, data in {**finding.image, **finding.changes}.items():
        if data is not None:
            path = place / "table" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    changes = {name: None if data is None else data.hex() for name, data in finding.changes.items()}
    document = {"subject": mutant.subject, "read": asdict(mutant.read), "changes": changes}
    (place / "finding.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    if not mutant.subject.startswith("corpus/") and target_of(finding.changes) is None:
        (place / "scenario.yaml").write_text(dump(scenario_of(finding)), encoding="utf-8")
    (place / "README.md").write_text(_readme(finding, place), encoding="utf-8")
    return place


def load_again(place: Path) -> tuple[str, SubjectRead, Changes]:
    """Return the subject, read, and changes of a finding that was written."""
    document = json.loads((place / "finding.json").read_text("utf-8"))
    read = {name: tuple(value) if isinstance(value, list) else value for name, value in document["read"].items()}
    if read["changes"] is not None:
        read["changes"] = ResolvedChanges(**read["changes"])
    changes = {name: None if text is None else bytes.fromhex(text) for name, text in document["changes"].items()}
    return document["subject"], SubjectRead(**read), changes


def scenario_of(finding: FuzzFinding) -> Scenario:
    """Return the scenario whose history ends with the changes, and whose only read must be refused."""
    mutant, read = finding.mutant, finding.mutant.read
    original = placed(load(fixtures_directory() / f"{mutant.subject}.yaml", mutant.subject))
    broken: list[dict[str, Any]] = [
        {"delete": name} if data is None else {"write": name, "bytes": data.hex()}
        for name, data in finding.changes.items()
    ]
    at = Selector() if read.changes is None else Selector("changes", _range(read.changes, original.format))
    for name, value in read.at.items():
        at = Selector("snapshot" if name == "snapshot_id" else name, value)  # type: ignore[arg-type]
    expectation = Expectation(at=at, columns=read.columns, where=read.where, error=ExpectedError("HarnessError"))
    return replace(
        original,
        name=mutant.name,
        path=None,
        title=f"{original.title}, as mutant {mutant.name}",
        features=(),
        history=(*original.history, *({"break": change} for change in broken)),
        expectations=(expectation,),
    )


def _range(changes: ResolvedChanges, table_format: str) -> Any:
    """Return a range as a scenario writes it."""
    if table_format == "delta":
        return (changes.from_, changes.to)
    ends = {"from": changes.from_, "to": changes.to}
    written = {name: {"ref": at} if isinstance(at, str) else at for name, at in ends.items() if at is not None}
    keys = {} if changes.keys is None else {"keys": list(changes.keys)}
    return {**written, "from-inclusive": changes.from_inclusive, "mode": changes.mode, **keys}


def _readme(finding: FuzzFinding, place: Path) -> str:
    mutant = finding.mutant
    versions = "\n".join(f"- {name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    changed = "\n".join(
        f"- `{name}`: {'gone' if data is None else f'{len(data)} bytes'}, was {len(finding.image.get(name, b''))}"
        for name, data in finding.changes.items()
    )
    return (
        f"# {finding.assessment.kind.value}: {mutant.name}\n\n{finding.assessment.detail}\n\n"
        f"Read: {mutant.read}, of the table of `{mutant.subject}`.\n"
        f"Mutations: {mutant.words()}. Of them this is left:\n\n{changed}\n\n"
        f"    python programs/fuzzing/fuzz.py --again {place}\n\n"
        f"reads it again under limits, and this draws the mutant anew:\n\n"
        f"    python programs/fuzzing/fuzz.py --mutant {mutant.name}\n\n"
        f"- Python {platform.python_version()}\n{versions}\n"
    )
