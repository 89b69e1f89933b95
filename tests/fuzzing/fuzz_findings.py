"""A finding as a directory that shows it to somebody else.

table/           the table as it is read
scenario.yaml    makes it, where the subject is a scenario and a file of it is changed, and says that it must be refused
finding.json     subject, read and changed files, for `fuzz.py --again`
README.md        what happens, and the commands that show it
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fuzz_answers import target_of
from fuzz_judging import Verdict
from fuzz_protocol import packed, plain, read_of, unpacked
from fuzz_subjects import Changes, Image, Read, placed

from harness.testing.scenarios.loading import fixtures_directory, load
from harness.testing.scenarios.model import Expectation, ExpectedError, Scenario, Selector

sys.path.append(str(Path(__file__).parents[1]))

from scenario_text import dump

_PACKAGES = ("duckdb", "pyarrow", "fastavro", "pyroaring")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a mutant showed, made small. name: the mutant's. mutations: in words. image: the table before `changes`."""

    name: str
    subject: str
    read: Read
    mutations: tuple[str, ...]
    verdict: Verdict
    image: Image
    changes: Changes


def write(finding: Finding, directory: Path) -> Path:
    """The directory of a finding, made below another."""
    place = directory / finding.name
    place.mkdir(parents=True, exist_ok=True)
    for name, data in {**finding.image, **finding.changes}.items():
        if data is not None:
            path = place / "table" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    document = {
        "name": finding.name,
        "subject": finding.subject,
        "read": plain(finding.read),
        "verdict": [finding.verdict.kind.name, finding.verdict.detail, finding.verdict.signature],
        "changes": packed(finding.changes),
    }
    (place / "finding.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    if not finding.subject.startswith("corpus/") and target_of(finding.changes) is None:
        (place / "scenario.yaml").write_text(dump(scenario_of(finding)), encoding="utf-8")
    (place / "README.md").write_text(_readme(finding, place), encoding="utf-8")
    return place


def load_again(place: Path) -> tuple[str, Read, dict[str, bytes | None]]:
    """Subject, read and changes of a finding that was written."""
    document: Mapping[str, Any] = json.loads((place / "finding.json").read_text("utf-8"))
    return document["subject"], read_of(document["read"]), unpacked(document["changes"])


def scenario_of(finding: Finding) -> Scenario:
    """The scenario whose history ends with the changes, and whose one read must be refused.

    Names of files that the finding took away only to be small stay out of it: what is there does no harm.
    """
    original = placed(load(fixtures_directory() / f"{finding.subject}.yaml", finding.subject))
    removed = [{"break": {"delete": name}} for name, data in finding.changes.items() if data is None]
    written = [
        {"break": {"write": name, "bytes": data.hex()}} for name, data in finding.changes.items() if data is not None
    ]
    expectation = Expectation(
        at=_selector(finding.read),
        columns=finding.read.columns,
        where=finding.read.where,
        error=ExpectedError("HarnessError"),
    )
    return replace(
        original,
        name=finding.name,
        path=None,
        title=f"{original.title}, as mutant {finding.name}",
        features=(),
        history=(*original.history, *removed, *written),
        expectations=(expectation,),
    )


def _selector(read: Read) -> Selector:
    if read.changes is not None:
        return Selector("changes", read.changes)
    for name, value in read.at.items():
        return Selector("snapshot" if name == "snapshot_id" else name, value)  # type: ignore[arg-type]
    return Selector()


def _readme(finding: Finding, place: Path) -> str:
    versions = "\n".join(f"- {name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    changed = "\n".join(
        f"- `{name}`: {'gone' if data is None else f'{len(data)} bytes'}, was {len(finding.image.get(name, b''))}"
        for name, data in finding.changes.items()
    )
    target = finding.name.partition("-")[0]
    return (
        f"# {finding.verdict.kind.value}: {finding.name}\n\n{finding.verdict.detail}\n\n"
        f"Read: {finding.read}, of the table of `{finding.subject}`.\n"
        f"Mutations: {'; '.join(finding.mutations)}. Of them this is left:\n\n{changed}\n\n"
        f"    python tests/fuzzing/fuzz.py --again {place}\n\n"
        f"reads it again under limits, and this draws the mutant anew, of target `{target}`:\n\n"
        f"    python tests/fuzzing/fuzz.py --mutant {finding.name}\n\n"
        f"- Python {platform.python_version()}\n{versions}\n"
    )
