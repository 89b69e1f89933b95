"""Test profiles, and the summaries of drawn tables and of the corpus run."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import duckdb
    from browsing import Browser
    from pyspark.sql import SparkSession
    from xdist.scheduler import LoadFileScheduling

# Told to write no bytecode, each of the processes that a run starts would compile the sources anew. It is written where
# Python always does, in directories that git ignores: elsewhere, that of installed packages would not be found either.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None) is not None:
    sys.dont_write_bytecode = False

import hypothesis  # pytest rewrites its modules, which takes seconds, and from here on they are kept

# A shared machine's pauses are no failures of a test. What CI draws must not depend on the day; nightly runs draw more.
_CI = {"derandomize": True, "database": None, "print_blob": True} if "CI" in os.environ else {}
hypothesis.settings.register_profile("harness", deadline=None, max_examples=25, **_CI)
hypothesis.settings.load_profile("harness")


# pytest loads the plug-in by its entry point, which a checkout on the path alone does not have.
pytest_plugins = [] if "harness.testing.plugin" in sys.modules else ["harness.testing.plugin"]


@pytest.fixture(scope="session")
def spark(harness_spark: SparkSession) -> SparkSession:
    """The one Spark session of the run."""
    return harness_spark


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    """A headless browser; the test is skipped where none is on PATH."""
    from browsing import BROWSERS, Browser

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser on PATH: none of {', '.join(BROWSERS)}")
    return Browser(program, tmp_path)


@pytest.fixture(scope="module")
def one_duckdb() -> Iterator[None]:
    """Every database in memory is a connection of one: starting one takes longer than the queries of most tests."""
    import duckdb

    from harness.engines.duckdb import instance as duckdb_instance

    for lossless in (True, False):
        duckdb_instance.cursor(lossless=lossless).close()  # harness's own, which lock their settings, are not of it
    start = duckdb.connect

    def connect(database: str = ":memory:", **how: Any) -> duckdb.DuckDBPyConnection:
        return instance.cursor() if database == ":memory:" else start(database, **how)

    with pytest.MonkeyPatch.context() as patch, start() as instance:
        patch.setattr(duckdb, "connect", connect)
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--harness-repro", metavar="DIR", help="where failures of property tests leave repro directories")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: looking for garbage in it takes a third of the collection, and more later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # extension modules count what they leave behind when Python ends


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    """Each file goes to one worker, which makes its fixtures once; all files with tests on Spark go to the same one."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "Spark" if _starts_spark(config.rootpath / file) else file

    return ByFile(config, log)


@cache
def _starts_spark(file: Path) -> bool:
    """Whether plain pytest runs some of its tests on Spark: a second JVM costs more than it wins."""
    return "@pytest.mark.smoke\n" in file.read_text("utf-8")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    kinds = ("passed", "xfailed", "failed")
    reports = {kind: [r for r in terminalreporter.getreports(kind) if _is_case(r)] for kind in kinds}
    groups = sorted({_group(report) for kind in kinds for report in reports[kind]}, reverse=True)
    if groups:
        terminalreporter.section("corpus")
    for group in groups:
        passed, excepted, failed = ([r for r in reports[kind] if _group(r) == group] for kind in kinds)
        errors = sum(_properties(report)["corpus_outcome"] == "error" for report in passed)
        terminalreporter.line(
            f"{' on '.join(group)}: {len(passed) + len(excepted) + len(failed)} cases, {len(passed)} as expected "
            f"({len(passed) - errors} rows, {errors} errors), {len(excepted)} exceptions, {len(failed)} failed"
        )
        for report in excepted:
            terminalreporter.line(f"  exception {_properties(report)['corpus_case']}: {report.wasxfail}")
        for report in failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = (crash.message if crash is not None else str(report.longrepr)).split("\n")[0]
            terminalreporter.line(f"  failed {_properties(report)['corpus_case']}: {reason}")


def _group(report: pytest.TestReport) -> tuple[str, str]:
    """The case's format, which is the first part of its id, and the engine that read it."""
    properties = _properties(report)
    return str(properties["corpus_case"]).split("/", 1)[0].capitalize(), str(properties["corpus_engine"])


def _properties(report: pytest.TestReport) -> dict[str, object]:
    return dict(report.user_properties)


def _is_case(report: object) -> bool:
    return isinstance(report, pytest.TestReport) and "corpus_case" in _properties(report)
