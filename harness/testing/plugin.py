"""The pytest plug-in: fixtures for tests of tables. pytest loads it by itself where lakeharness is installed.

    def test_deletes_are_applied(lake_table, assert_same_rows):
        orders = lake_table('''
            format: iceberg
            table: {format-version: 2, schema: {id: long, name: string}}
            history:
              - append: [{data: a, rows: [[1, x], [2, y]]}]
              - commit: {add: [{equality-deletes: [id], rows: [[1]]}]}
        ''')
        assert_same_rows(my_reader(orders.location), [(2, "y")])

Fixtures: `lake_table`, `harness_session`, `assert_same_rows`, `harness_engine` (the test runs once for each engine of
the test run), `harness_job`, a Spark session of the test's own in which a job finds its tables by name, and
`harness_spark`, one session for all tests of a process, started when it is first needed. To have harness use a session
of your own, define a session-scoped fixture `harness_spark` that returns it.

This module imports nothing but pytest, prints nothing, and does nothing around tests until a test or the configuration
uses a fixture, marker, option, or setting of it. `-p no:harness` turns it off.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from harness.testing.lake import LakeSource, LakeTable
    from harness.testing.session import HarnessSession
    from harness.testing.spark_job import SparkJobTest, SparkState

MARKER = "harness_spark"
TABLES = "harness_tables"
AUTO = "auto"
_AUTOMATIC = ("duckdb", "spark")
"""The engines of `auto`, as far as they can start."""
_PROBLEM: pytest.StashKey[str | None] = pytest.StashKey()
"""The reason why Spark cannot start; None: it can."""


class MakeLakeTable(Protocol):
    """The fixture `lake_table`."""

    def __call__(self, source: LakeSource, name: str = "t") -> LakeTable:
        """Make a table in the test's own directory, as `harness.testing.lake.make_table` does.

        Args:
            source: the text of a scenario, a mapping, a file, or one of `harness.suite.scenarios.loading.find`;
                without `title`, `clauses` and `expect` too.
            name: tells several tables of a test apart.

        Raises:
            RequestError: the scenario is wrong; the message names the key.
        """


class AssertSameRows(Protocol):
    """The fixture `assert_same_rows`."""

    def __call__(self, left: object, right: object, *, keys: Sequence[str] | None = None, **options: Any) -> None:
        """Fail unless both sides are the same rows, as `harness.testing.assert_same_rows` does.

        Tables are read by the engines of the test run, as in `HarnessSession.compare`.
        """


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options `--harness-…` and settings `harness_…`; the command line wins."""
    group = parser.getgroup("harness", "harness: Iceberg and Delta tables")
    about = "engines of the test run, such as duckdb,spark; auto: DuckDB, and Spark if it can start; default: duckdb"
    group.addoption("--harness-engines", metavar="A,B", help=about)
    group.addoption("--harness-spark-master", metavar="URL", help="where Spark runs, such as local[2]")
    parser.addini("harness_engines", about, default="")
    parser.addini("harness_spark_master", "where Spark runs; else here, on a worker's share of the cores", default="")
    parser.addini(
        "harness_allowed_roots",
        "directories that tables may be read from beside their own, a line each",
        type="linelist",
    )
    parser.addini("harness_spark_config", "settings of the Spark session, a line KEY=VALUE each", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, and refuses settings that are wrong before anything runs."""
    config.addinivalue_line(
        "markers", f"{MARKER}: needs Spark; if Spark cannot start, an error if the run names spark, and else skipped"
    )
    config.addinivalue_line(
        "markers",
        f"{TABLES}(name, rows, schema=None, formats='all', deletes='all'): the test runs once for each format and kind "
        "of deletes, with a table of these rows in harness_job",
    )
    if _engines_setting(config):
        engines_of(config)
    _spark_config_of(config)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return the engines of the test run, and those that `auto` leaves out; None if the run names no engines."""
    if not _engines_setting(config):
        return None
    import harness

    engines = engines_of(config)
    line = f"harness: {harness.__version__}, engines {', '.join(engines)}"
    is_left_out = _engines_setting(config) == AUTO and "spark" not in engines
    return f"{line}; skipped spark: {spark_problem(config)}" if is_left_out else line


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests that ask for Spark are marked, so that `-m "not harness_spark"` leaves them out."""
    if "harness_spark" in getattr(item, "fixturenames", ()):
        item.add_marker(MARKER)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start Spark for marked tests, before their fixtures."""
    if item.get_closest_marker(MARKER) is not None and isinstance(item, pytest.Function):
        item.fixturenames = ["harness_spark", *item.fixturenames]  # parametrized tests share the list


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes a test for each engine of one that asks for `harness_engine`."""
    if "harness_engine" in metafunc.fixturenames:
        engines = [
            pytest.param(name, marks=getattr(pytest.mark, MARKER)) if name == "spark" else name
            for name in engines_of(metafunc.config)
        ]
        metafunc.parametrize("harness_engine", engines, indirect=True)
    markers = list(metafunc.definition.iter_markers(TABLES))
    if markers:
        forms = _forms_of(markers, metafunc.definition.nodeid, metafunc.fixturenames)
        metafunc.parametrize("harness_job", forms, ids=["-".join(form) for form in forms], indirect=True)


@pytest.fixture
def harness_engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine, which was started; the test runs once for each engine of the test run."""
    if request.param == "spark":
        request.getfixturevalue("harness_spark")
    else:
        from harness.engines.registry import start_engines

        start_engines([request.param])
    return str(request.param)


@pytest.fixture
def harness_session(request: pytest.FixtureRequest) -> Iterator[HarnessSession]:
    """Opens, queries and compares tables; with a DuckDB connection of the test's own, and Spark when it is needed."""
    from harness.testing.session import HarnessSession

    config = request.config
    lines = (line.strip() for line in config.getini("harness_allowed_roots"))
    roots = tuple(root if "://" in root else str(config.rootpath / root) for root in lines if root)
    session = HarnessSession(engines_of(config), lambda: request.getfixturevalue("harness_spark"), allowed_roots=roots)
    yield session
    session.close()


@pytest.fixture
def lake_table(tmp_path: Path, harness_session: HarnessSession) -> MakeLakeTable:
    """Makes tables from scenarios, in the test's own directory: `lake_table(text)`."""
    from harness.testing.lake import make_table

    def make(source: LakeSource, name: str = "t") -> LakeTable:
        return make_table(source, tmp_path, name=name, engines=harness_session.engines, prepare=harness_session.prepare)

    return make


@pytest.fixture
def assert_same_rows(harness_session: HarnessSession) -> AssertSameRows:
    """Fails unless two results, or a result and a list of rows, are the same: see `harness.testing.same_rows`."""
    return harness_session.assert_same_rows


@pytest.fixture(scope="session")
def harness_spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The Spark session of this process, tuned for tests; one that runs already is taken as it is.

    If Spark cannot start, this is an error if the run names spark among its engines; else the test is skipped.
    """
    config = request.config
    problem = spark_problem(config)
    if problem is not None:
        if "spark" in engines_of(config):
            pytest.fail(problem, pytrace=False)
        pytest.skip(problem)
    from harness.engines.spark.session import running_session, spark_session

    running = running_session()
    if running is not None:
        yield running
        return
    session = spark_session(master=spark_master_of(config), config=_spark_config_of(config))
    keeper = SparkStateRestorer(session)
    config.pluginmanager.register(keeper)
    yield session
    config.pluginmanager.unregister(keeper)
    session.stop()


@pytest.fixture
def harness_job(request: pytest.FixtureRequest, harness_spark: SparkSession, tmp_path: Path) -> Iterator[SparkJobTest]:
    """A Spark session of the test's own, in which a job finds its tables by name: `.spark`, `.add`, `.written`."""
    from harness.testing.spark_job import SparkJobTest

    job = SparkJobTest(harness_spark, tmp_path)
    for marker in request.node.iter_markers(TABLES):
        job.add_same_rows(request.param, *marker.args, **marker.kwargs)
    yield job
    job.close()


class SparkStateRestorer:
    """Hooks that take away what each test leaves in a session: views, the current database, and what is cached.

    What fixtures of a wider scope than the test made before it stays.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._before: SparkState | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> None:
        """Note the state of the session before the first fixture of the test's own."""
        if fixturedef.scope == "function":
            self._note()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self) -> None:
        """Note the state of the session before a test that has no fixtures of its own."""
        self._note()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        """Bring the session back to the state before the test."""
        from harness.testing.spark_job import FRESH, restore

        try:
            return (yield)
        finally:
            before, self._before = self._before, None
            restore(self._session, FRESH if before is None else before)  # FRESH: it was started in the test itself

    def _note(self) -> None:
        if self._before is None:
            from harness.testing.spark_job import SparkState

            self._before = SparkState.capture(self._session)


def _forms_of(markers: list[pytest.Mark], test: str, fixtures: Sequence[str]) -> list[tuple[str, str]]:
    """Formats and kinds of deletes that a test runs for."""
    from harness.errors import RequestError
    from harness.testing.literals import all_forms

    if "harness_job" not in fixtures:
        raise pytest.UsageError(f"{test}: the marker {TABLES} wants the fixture harness_job")
    try:
        forms = [all_forms(**{k: v for k, v in m.kwargs.items() if k in ("formats", "deletes")}) for m in markers]
    except RequestError as error:
        raise pytest.UsageError(f"{test}: {error.message}") from None
    if any(other != forms[0] for other in forms):
        raise pytest.UsageError(f"{test}: its markers {TABLES} name different formats or deletes")
    return forms[0]


def engines_of(config: pytest.Config) -> tuple[str, ...]:
    """Return the engines of the test run, in the order given; for `auto`, those that can start.

    Raises:
        pytest.UsageError: there is no engine of that name.
    """
    from harness.engines.registry import engine_names

    text = _engines_setting(config) or "duckdb"
    if text == AUTO:
        return tuple(name for name in _AUTOMATIC if name != "spark" or spark_problem(config) is None)
    names = tuple(dict.fromkeys(re.split(r"[,\s]+", text)))
    unknown = [name for name in names if name not in engine_names()]
    if unknown:
        raise pytest.UsageError(
            f"harness_engines: unknown engine {unknown[0]!r}, there are {', '.join(engine_names())}; or {AUTO} alone"
        )
    return names


def _engines_setting(config: pytest.Config) -> str:
    """The option `--harness-engines`, else the setting; empty if there is neither."""
    return str(config.getoption("--harness-engines") or config.getini("harness_engines")).strip(", \t\n")


def spark_problem(config: pytest.Config) -> str | None:
    """Return the reason why Spark cannot start here, and what to do; None: it can, or it runs already."""
    if _PROBLEM not in config.stash:
        config.stash[_PROBLEM] = _spark_problem()
    return config.stash[_PROBLEM]


def _spark_problem() -> str | None:
    from harness.engines.registry import find_engine
    from harness.errors import RequestError

    try:
        find_engine("spark")
        from harness.engines.spark.java_runtime import usable_java
        from harness.engines.spark.session import check_pyspark, running_session

        check_pyspark()
        if running_session() is None:
            usable_java()
    except RequestError as error:
        return error.message
    return None


def _spark_config_of(config: pytest.Config) -> Mapping[str, str]:
    """Settings of the Spark session, from `harness_spark_config`."""
    lines = [line.partition("=") for line in config.getini("harness_spark_config")]
    for key, equals, _ in lines:
        if not (key.strip() and equals):
            raise pytest.UsageError(f"harness_spark_config: {key!r} is not KEY=VALUE")
    return {key.strip(): value.strip() for key, _, value in lines}


def spark_master_of(config: pytest.Config) -> str:
    """The master of Spark: as master, else this machine, whose cores workers of pytest-xdist share."""
    master = config.getoption("--harness-spark-master") or config.getini("harness_spark_master")
    workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
    if master:
        return str(master)
    return "local[*]" if workers == 1 else f"local[{max(1, (os.cpu_count() or 1) // workers)}]"
