"""Recall by backtest: runs the suite on releases of readers with known bugs that return wrong rows.

`python programs/backtest/backtest.py [ID ...]` makes an environment for each release in `bugs.toml`, runs the scenarios
and shapes of each bug on the broken and the fixed release, and writes `results.json` and the table of
`docs/suite/backtest.md`. A bug is found if the broken release returns wrong rows without an error, and the fixed
release passes the same read. The environments are in HARNESS_BACKTEST, by default `.nox/backtest-environments`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.errors import EngineError, RequestError
from harness.suite import readers
from harness.suite.readers import SERVER
from harness.suite.results import Outcome
from harness.suite.runner import EngineUnderTest, run
from harness.suite.scenarios.building import build
from harness.suite.scenarios.loading import find
from harness.suite.workers import Worker

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BUGS, RESULTS = HERE / "bugs.toml", HERE / "results.json"
PAGE = ROOT / "docs" / "suite" / "backtest.md"
_BEGIN, _END = "<!-- backtest: written by `nox -s readers -- backtest` -->", "<!-- backtest: end -->"
_TIME_LIMIT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A bug that a maintainer confirmed, in a release that can be installed.

    Attributes:
        reader: A name in `harness.suite.readers`.
        broken: The arguments of `pip install` for the broken release.
        report: The address of the report.
        topic: The topic in a few words.
        wrong: The wrong behavior in a sentence.
        fixed: The arguments of `pip install` for the fixed release. Empty if no release is fixed.
        packages: The Maven coordinates of jars, for Spark.
        fixed_packages: The Maven coordinates of jars of the fixed release.
        scenarios: Names or patterns of the scenarios that should find the bug.
        shapes: Texts `SHAPE of SCENARIO`, for `harness scenarios reread --shapes SHAPE` on the scenario's table.
        by_hand: The wrong rows that the report describes, for a bug without a fixed release.
        missed: The change that made the suite find the bug. Empty if it found the bug at first.
    """

    id: str
    reader: str
    broken: str
    report: str
    topic: str
    wrong: str
    fixed: str = ""
    packages: str = ""
    fixed_packages: str = ""
    scenarios: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    by_hand: str = ""
    missed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A bug's outcome. `broken` and `fixed` are the reported versions, `by` the reads that found the bug."""

    id: str
    broken: str
    fixed: str
    found: bool
    by: tuple[str, ...]
    message: str


def bugs() -> tuple[Bug, ...]:
    """Return the bugs of `bugs.toml`, in the file's order."""
    return tuple(
        Bug(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})
        for entry in _document()["bug"]
    )


def _document() -> dict[str, Any]:
    return tomllib.loads(BUGS.read_text("utf-8"))


def recorded() -> dict[str, Result]:
    """Return the results of the last runs, by bug."""
    if not RESULTS.exists():
        return {}
    entries = json.loads(RESULTS.read_text("utf-8"))
    return {entry["id"]: Result(**{**entry, "by": tuple(entry["by"])}) for entry in entries}


def table(results: Mapping[str, Result]) -> str:
    """Return the tables of the page: one with a line for each bug, one with the bugs that no release shows."""
    all_bugs = bugs()
    detected_bugs = [bug for bug in all_bugs if bug.id in results and results[bug.id].found]
    at_first = sum(not bug.missed for bug in detected_bugs)
    lines = [
        f"{len(detected_bugs)} of {len(all_bugs)} bugs are found, {at_first} of them without a change of the suite.",
        "",
        "| Reader | Report | Broken | Fixed | Topic | Wrong behavior | Found by | Change after a miss |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for bug in all_bugs:
        result = results.get(bug.id)
        by = "**missed**" if result is None or not result.by else "<br>".join(f"`{each}`" for each in result.by)
        broken, fixed = ("", "") if result is None else (result.broken, result.fixed or f"no release: {bug.by_hand}")
        cells = (bug.reader, f"[{bug.id}]({bug.report})", broken, fixed, bug.topic, bug.wrong, by, bug.missed)
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "These bugs were tried, and no available release shows them.",
        "",
        "| Report | Reason |",
        "| --- | --- |",
    ]
    lines += [f"| [{each['id']}]({each['report']}) | {each['why']} |" for each in _document()["tried"]]
    return "\n".join(lines)


def page(text: str, results: Mapping[str, Result]) -> str:
    """Return the page with its table replaced."""
    before, _, rest = text.partition(_BEGIN)
    return f"{before}{_BEGIN}\n{table(results)}\n{_END}{rest.partition(_END)[2]}"


def backtest(bug: Bug, environments: Path) -> Result:
    """Look for a bug: run its scenarios on both releases together, then its shapes."""
    scripts = [_script(bug, bug.broken, bug.packages, environments)]
    if bug.fixed:
        scripts.append(_script(bug, bug.fixed, bug.fixed_packages or bug.packages, environments))
    try:
        versions, by = _by_scenarios(bug, scripts)
    except (RequestError, EngineError) as error:
        return Result(id=bug.id, broken=bug.broken, fixed=bug.fixed, found=False, by=(), message=str(error))
    by += [f"reread: {shape}" for shape in bug.shapes if _found_by_shape(bug, shape, scripts)]
    fixed = versions[1] if bug.fixed else ""
    return Result(id=bug.id, broken=versions[0], fixed=fixed, found=bool(by), by=tuple(by), message="")


def _script(bug: Bug, pins: str, packages: str, environments: Path) -> tuple[Path, Path]:
    """Return the interpreter of a release and the script that serves it. Both are made if missing."""
    name = re.sub(r"[^\w.]+", "-", pins).strip("-")
    interpreters = readers.interpreters(environments, {name: readers.OtherReader(name, (), pins)})
    if name not in interpreters:
        raise SystemExit(f"{bug.id}: cannot install {pins}")
    if not packages:
        return interpreters[name], readers.SCRIPT
    format = bug.reader.removeprefix("spark-")
    folder = environments / re.sub(r"[^\w.]+", "-", packages)
    folder.mkdir(parents=True, exist_ok=True)
    pyspark = next(pin.partition("==")[2] for pin in pins.split() if pin.startswith("pyspark=="))
    pinned = {**readers.PINNED[format], "pyspark": pyspark, "packages": packages.split()}
    (folder / "jars.json").write_text(json.dumps({**readers.PINNED, format: pinned}), "utf-8")
    script = folder / readers.SCRIPT.name
    script.write_text(readers.SCRIPT.read_text("utf-8"), "utf-8")
    return interpreters[name], script


def _by_scenarios(bug: Bug, scripts: Sequence[tuple[Path, Path]]) -> tuple[list[str], list[str]]:
    """Return the versions, and the scenarios that only the broken release reads with wrong rows."""
    scenarios = [scenario for pattern in bug.scenarios for scenario in find(pattern)]
    workers = []
    try:
        for name, (python, script) in zip(("broken", "fixed"), scripts, strict=False):
            command = (str(python), str(SERVER), str(script), bug.reader)
            workers.append(Worker(name, command, time_limit_s=_TIME_LIMIT_S))
        engines = [EngineUnderTest(reader=worker, argument=worker.name) for worker in workers]
        outcomes: dict[tuple[str, int], dict[str, str]] = {}
        for case in run(scenarios, engines).cases:
            for check in case.checks:
                outcome = "WRONG" if check.wrong_rows else check.outcome.value
                outcomes.setdefault((case.scenario.name, check.number), {})[case.engine.name] = outcome
        for (name, number), each in outcomes.items():
            print(f"  {name}, read {number}: {each}", file=sys.stderr)
        fixed = {"fixed": Outcome.PASS.value} if bug.fixed else {}
        names = [name for (name, _), each in outcomes.items() if each == {"broken": "WRONG", **fixed}]
        return [worker.version() for worker in workers], list(dict.fromkeys(names))
    finally:
        for worker in workers:
            worker.close()


def _found_by_shape(bug: Bug, shape: str, scripts: Sequence[tuple[Path, Path]]) -> bool:
    """Return whether a shape shows a difference in the broken release and none in the fixed release."""
    kind, _, name = shape.partition(" of ")
    (scenario,) = find(name)
    with tempfile.TemporaryDirectory() as directory:
        built = build(scenario, Path(directory) / "table")
        place = str(built.metadata_path or built.location)
        differs = [_differs(bug, place, kind, python) for python, _ in scripts]
    print(f"  reread, {shape}: {differs}", file=sys.stderr)
    return differs[0] and not any(differs[1:])


def _differs(bug: Bug, place: str, kind: str, python: Path) -> bool:
    """Return whether a reader contradicts itself in a shape. A failed read is not a contradiction."""
    command = (sys.executable, "-m", "harness", "scenarios", "reread", place, "--engine", bug.reader)
    variable = "HARNESS_PYTHON_" + bug.reader.upper().replace("-", "_")
    arguments = (*command, "--shapes", kind, "--format", "json")
    environment = {**os.environ, variable: str(python)}
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # the reader cannot read the table at all
        print(f"  {done.stderr.strip()}", file=sys.stderr)
        return False
    return any(entry["outcome"] == "different" for entry in json.loads(done.stdout)["entries"])


def main() -> None:
    """Run the named bugs, or all bugs, and write their results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("ids", nargs="*")
    arguments = parser.parse_args()
    environments = Path(os.environ.get("HARNESS_BACKTEST", ROOT / ".nox" / "backtest-environments"))
    selected_bugs = [bug for bug in bugs() if not arguments.ids or bug.id in arguments.ids]
    for bug in selected_bugs:
        print(bug.id, file=sys.stderr)
        result = backtest(bug, environments)
        print(f"  found by {', '.join(result.by)}" if result.found else f"  missed {result.message}", file=sys.stderr)
        results = {**recorded(), bug.id: result}
        ordered = [asdict(results[each.id]) for each in bugs() if each.id in results]
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")
        PAGE.write_text(page(PAGE.read_text("utf-8"), results), "utf-8")


if __name__ == "__main__":
    main()
