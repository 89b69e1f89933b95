"""Recall by backtest: real wrong-row bugs of released readers, each looked for in the release that has it.

`python programs/backtest/backtest.py [ID ...]` makes an environment for each release that `bugs.toml` names,
runs the scenarios and shapes that the bug names on the broken and on the mended release, and writes `results.json` and
the table of `docs/suite/backtest.md`. A bug is found where the broken release gives wrong rows, silently, and the
mended one passes the same read. Environments lie in the folder that HARNESS_BACKTEST names,
by default `.nox/backtest-environments`.
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

    reader: a name of `harness.suite.readers`. broken, fixed: words for `pip install`; no `fixed`: no
    release is mended. packages, fixed_packages: Maven coordinates of jars, for Spark. settings: of Spark.
    scenarios: names or patterns of those that should find it. shapes: texts `SHAPE of SCENARIO`, for
    `harness scenarios reread --shapes SHAPE` on the scenario's table. by_hand: for a bug without a mended release,
    the wrong rows that the report describes. note: what was missing before, and what was added.
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
    """A bug's outcome. broken, fixed: the versions that the readers said. by: the reads that found it."""

    id: str
    broken: str
    fixed: str
    found: bool
    by: tuple[str, ...]
    message: str


def bugs() -> tuple[Bug, ...]:
    """The bugs of `bugs.toml`, in the file's order."""
    return tuple(
        Bug(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})
        for entry in _document()["bug"]
    )


def _document() -> dict[str, Any]:
    return tomllib.loads(BUGS.read_text("utf-8"))


def recorded() -> dict[str, Result]:
    """The results of the last runs, by bug."""
    if not RESULTS.exists():
        return {}
    entries = json.loads(RESULTS.read_text("utf-8"))
    return {entry["id"]: Result(**{**entry, "by": tuple(entry["by"])}) for entry in entries}


def table(results: Mapping[str, Result]) -> str:
    """The tables of the page: a line a bug under the number of those found, and the bugs that no release shows."""
    known = bugs()
    found = [bug for bug in known if bug.id in results and results[bug.id].found]
    at_first = sum(not bug.missed for bug in found)
    lines = [
        f"{len(found)} of {len(known)} bugs are found, {at_first} of them by the suite as it stood.",
        "",
        "| Reader | Report | Broken | Mended | Topic | What goes wrong | Found by | Missed at first |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for bug in known:
        result = results.get(bug.id)
        by = "**missed**" if result is None or not result.by else "<br>".join(f"`{each}`" for each in result.by)
        broken, fixed = ("", "") if result is None else (result.broken, result.fixed or f"by none: {bug.by_hand}")
        cells = (bug.reader, f"[{bug.id}]({bug.report})", broken, fixed, bug.topic, bug.wrong, by, bug.missed)
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "These were tried, and no release at hand shows them.", "", "| Report | Why |", "| --- | --- |"]
    lines += [f"| [{each['id']}]({each['report']}) | {each['why']} |" for each in _document()["tried"]]
    return "\n".join(lines)


def page(text: str, results: Mapping[str, Result]) -> str:
    """The page with its table made anew."""
    before, _, rest = text.partition(_BEGIN)
    return f"{before}{_BEGIN}\n{table(results)}\n{_END}{rest.partition(_END)[2]}"


def backtest(bug: Bug, environments: Path) -> Result:
    """Looks for a bug: its scenarios on both releases at once, then its shapes."""
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
    """The interpreter of a release and the script that serves it; made where they are not there yet."""
    name = re.sub(r"[^\w.]+", "-", pins).strip("-")
    made = readers.interpreters(environments, {name: readers.OtherReader(name, (), pins)})
    if name not in made:
        raise SystemExit(f"{bug.id}: cannot install {pins}")
    if not packages:
        return made[name], readers.SCRIPT
    format = bug.reader.removeprefix("spark-")
    folder = environments / re.sub(r"[^\w.]+", "-", packages)
    folder.mkdir(parents=True, exist_ok=True)
    pyspark = next(pin.partition("==")[2] for pin in pins.split() if pin.startswith("pyspark=="))
    pinned = {**readers.PINNED[format], "pyspark": pyspark, "packages": packages.split()}
    (folder / "jars.json").write_text(json.dumps({**readers.PINNED, format: pinned}), "utf-8")
    script = folder / readers.SCRIPT.name
    script.write_text(readers.SCRIPT.read_text("utf-8"), "utf-8")
    return made[name], script


def _by_scenarios(bug: Bug, scripts: Sequence[tuple[Path, Path]]) -> tuple[list[str], list[str]]:
    """The versions, and the reads that the broken release gives wrong rows for and the mended one none."""
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
                said = "WRONG" if check.wrong_rows else check.outcome.value
                outcomes.setdefault((case.scenario.name, check.number), {})[case.engine.name] = said
        for (name, number), each in outcomes.items():
            print(f"  {name}, read {number}: {each}", file=sys.stderr)
        mended = {"fixed": Outcome.PASS.value} if bug.fixed else {}
        found = [name for (name, _), each in outcomes.items() if each == {"broken": "WRONG", **mended}]
        return [worker.version() for worker in workers], list(dict.fromkeys(found))
    finally:
        for worker in workers:
            worker.close()


def _found_by_shape(bug: Bug, shape: str, scripts: Sequence[tuple[Path, Path]]) -> bool:
    """Tells whether the broken release reads a scenario's table otherwise in a shape, and the mended one alike."""
    kind, _, name = shape.partition(" of ")
    (scenario,) = find(name)
    with tempfile.TemporaryDirectory() as directory:
        built = build(scenario, Path(directory) / "table")
        place = str(built.metadata_path or built.location)
        differs = [_differs(bug, place, kind, python) for python, _ in scripts]
    print(f"  reread, {shape}: {differs}", file=sys.stderr)
    return differs[0] and not any(differs[1:])


def _differs(bug: Bug, place: str, kind: str, python: Path) -> bool:
    """Tells whether a reader against itself gives other rows in one kind of shape. A failed read is none."""
    command = (sys.executable, "-m", "harness", "scenarios", "reread", place, "--engine", bug.reader)
    variable = "HARNESS_PYTHON_" + bug.reader.upper().replace("-", "_")
    asked = (*command, "--shapes", kind, "--format", "json")
    environment = {**os.environ, variable: str(python)}
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # it does not read the table at all
        print(f"  {done.stderr.strip()}", file=sys.stderr)
        return False
    return any(entry["outcome"] == "different" for entry in json.loads(done.stdout)["entries"])


def main() -> None:
    """Runs the named bugs, or all, and writes what came of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("ids", nargs="*")
    arguments = parser.parse_args()
    environments = Path(os.environ.get("HARNESS_BACKTEST", ROOT / ".nox" / "backtest-environments"))
    chosen = [bug for bug in bugs() if not arguments.ids or bug.id in arguments.ids]
    for bug in chosen:
        print(bug.id, file=sys.stderr)
        result = backtest(bug, environments)
        print(f"  found by {', '.join(result.by)}" if result.found else f"  missed {result.message}", file=sys.stderr)
        results = {**recorded(), bug.id: result}
        ordered = [asdict(results[each.id]) for each in bugs() if each.id in results]
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")
        PAGE.write_text(page(PAGE.read_text("utf-8"), results), "utf-8")


if __name__ == "__main__":
    main()
