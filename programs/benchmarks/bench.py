"""Measure harness, a floor, and other readers, and keep a history of the results: `nox -s bench -- …`.

    python programs/benchmarks/bench.py                      all figures; a line each in docs/bench/history.jsonl
    python programs/benchmarks/bench.py --compare            measure, and print what is slower than in the previous run
    python programs/benchmarks/bench.py --compare 8dd31722   the same, compared with the run of a commit
    python programs/benchmarks/bench.py --compare --newest   compare the newest run in the history; measure nothing
    python programs/benchmarks/bench.py --small              check in two minutes that everything works

An incomplete run (small tables, no peers, or some figures only) goes to build/bench/others.jsonl instead. Use an idle
machine. Tables are made once, below build/bench; peers are installed once, in .nox/bench.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import bench_reports
from bench_changed import changed
from bench_figures import ON_SPARK, figures, is_large, planning, spark_figures
from bench_made import FULL, SMALL, BenchTable, Scale, cached_table
from bench_planned import planned
from bench_records import BenchRun, FailedMeasurement, Record, from_lines, newest_run, to_line
from bench_rounds import SCRIPTS, ContenderFailed, Figure, measure
from bench_scanned import scanned
from bench_small import many, small

from harness.suite.readers import interpreters

ROOT = Path(__file__).parents[2]
HISTORY = ROOT / "docs/bench/history.jsonl"
PAGE = ROOT / "docs/bench/index.md"
BUILD = ROOT / "build/bench"
PEERS = ROOT / ".nox/bench"
OTHERS = BUILD / "others.jsonl"
"""Runs that do not belong to the history: at another scale, of some figures, or without peers."""
MAKERS = {"scanned": scanned, "small": small, "many": many, "planned": planned, "changed": changed}


def main(words: Sequence[str] | None = None) -> int:
    """Run the program. Return 1 if harness failed, returned a wrong answer, or became slower, and otherwise 0."""
    arguments = _arguments(words)
    scale = SMALL if arguments.small else FULL
    history = HISTORY if scale.name == FULL.name else OTHERS
    before = from_lines(history.read_text("utf-8")) if history.is_file() else []
    if arguments.newest:
        now = newest_run(before, scale.name)
    else:
        now = _measure(arguments, scale)
        whole = scale == FULL and not arguments.only and not arguments.alone
        _keep(now, HISTORY if whole else OTHERS)
        if whole:
            PAGE.write_text(bench_reports.put(PAGE.read_text("utf-8"), bench_reports.figures(now)), "utf-8")
    failing = [f"{record.figure}: {name}: {reason}" for record in now for name, reason in _failures(record)]
    for text in failing:
        print(text)
    if arguments.compare is None:
        return int(bool(failing))
    then = newest_run(before, scale.name, before=now[0].run.date, commit=arguments.compare) if now else []
    then = [record for record in then if _is_requested(record.figure, arguments, scale)]
    print(bench_reports.report(now, then))
    return int(bool(failing) or any(kind != "faster" for kind, _ in bench_reports.differences(now, then)))


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="small tables and few rounds")
    slower = "say what became slower than the run before, or than the run of a commit"
    parser.add_argument("--compare", metavar="COMMIT", nargs="?", const="", help=slower)
    parser.add_argument("--newest", action="store_true", help="measure nothing: take the newest run of the history")
    parser.add_argument("--only", metavar="REGEX", default="", help="only figures whose name matches")
    parser.add_argument("--alone", action="store_true", help="without peers: harness and the floors")
    parser.add_argument("--spark", action="store_true", help="Spark too, and the formats' own jars from Maven Central")
    parser.add_argument("--large", action="store_true", help="planning a million files too, which take minutes to make")
    return parser.parse_args(words)


def _measure(arguments: argparse.Namespace, scale: Scale) -> list[Record]:
    """Measure each requested figure, print it, and return its record."""
    run = BenchRun(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=_commit(),
        scale=scale.name,
        cores=os.cpu_count() or 1,
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
    )
    scripts = {} if arguments.alone else {n: s for n, s in SCRIPTS.items() if arguments.spark or "spark" not in n}
    pythons = {name: str(python) for name, python in interpreters(PEERS, scripts).items()}
    records = []
    for figure in _figures(scale, large=arguments.large):
        if _is_requested(figure.figure, arguments, scale):
            try:
                outcomes = measure(figure, scale, pythons)
            except ContenderFailed as error:
                sys.exit(str(error))
            record = Record(run=run, group=figure.group, figure=figure.figure, title=figure.title, outcomes=outcomes)
            print(bench_reports.line(record), flush=True)
            records.append(record)
    return records


def _is_requested(figure: str, arguments: argparse.Namespace, scale: Scale) -> bool:
    if (figure.startswith(ON_SPARK) and not arguments.spark) or (is_large(figure, scale) and not arguments.large):
        return False
    return re.search(arguments.only, figure) is not None


def _figures(scale: Scale, *, large: bool) -> Iterator[Figure]:
    tables: dict[str, dict[str, BenchTable]] = {}
    for name, maker in MAKERS.items():
        print(f"tables: {name}", flush=True)
        tables[name] = cached_table(maker, scale, BUILD)
    yield from figures(tables, scale)
    yield from spark_figures(tables)
    if large:
        print("tables: large", flush=True)
        largest = replace(scale, name=f"large {scale.name}", planned_files=(scale.large_files,))
        yield from planning(cached_table(planned, largest, BUILD), largest)


def _commit() -> str:
    """Return the commit, with `+` if the measured files have uncommitted changes."""
    commit = _git("rev-parse", "--short=10", "HEAD")
    return f"{commit}+" if _git("status", "--porcelain", "--", "harness") else commit


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True).stdout.strip()


def _keep(records: Sequence[Record], history: Path) -> None:
    history.parent.mkdir(parents=True, exist_ok=True)
    with history.open("a", encoding="utf-8") as lines:
        lines.writelines(f"{to_line(record)}\n" for record in records)


def _failures(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the failures of harness itself. Failures of peers are in the record."""
    for name, outcome in record.outcomes.items():
        if name.startswith(bench_reports.OURS) and isinstance(outcome, FailedMeasurement):
            yield name, outcome.reason


if __name__ == "__main__":
    sys.exit(main())
