"""The pytest plug-in: fixtures for tests of tables. pytest loads it automatically if lakeharness is installed.

    def test_deletes_are_applied(lake_table, assert_same_rows):
        orders = lake_table('''
            format: iceberg
            table: {format-version: 2, schema: {id: long, name: string}}
            history:
              - append: [{data: a, rows: [[1, x], [2, y]]}]
              - commit: {add: [{equality-deletes: [id], rows: [[1]]}]}
        ''')
        assert_same_rows(my_reader(orders.location), [(2, "y")])

The fixtures are `lake_table`, `lake_catalog` (an Iceberg REST catalog that plans scans), `harness_session`,
`assert_same_rows`, `harness_engine` (runs the test once for each engine of the test run), `harness_job` (a separate
Spark session in which a job finds its tables by name), and `harness_spark` (one session for all tests of a process,
started when it is first needed). To make harness use your own session, define a session-scoped fixture `harness_spark`
that returns it.

This module imports only pytest, prints nothing, and does nothing around tests until a test or the configuration uses
one of its fixtures, markers, options, or settings. `-p no:harness` disables it.
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
    from harness.testing.lake_catalog import LakeCatalog
    from harness.testing.session import HarnessSession
    from harness.testing.spark_job import SparkJobTest, SparkState

MARKER = "harness_spark"
TABLES = "harness_tables"
AUTO = "auto"
_AUTOMATIC = ("duckdb", "spark")
"""The engines of `auto`, if they can start."""
_PROBLEM: pytest.StashKey[str | None] = pytest.StashKey()
"""The reason why Spark cannot start, or None if it can."""


class MakeLakeTable(Protocol):
    """The function that the fixture `lake_table` returns."""

    def __call__(self, source: LakeSource, name: str = "t") -> LakeTable:
        """Make a table in the test's own directory.

        Args:
            source: The text of a scenario, a mapping, a file, or a result of `harness.suite.scenarios.loading.find`.
                `title`, `clauses`, and `expect` may be left out.
            name: The table's name, which must differ between tables of one test.

        Returns:
            The table, with its location and its expected rows.

        Raises:
            RequestError: The scenario is wrong. The message names the wrong key.
        """


class AssertSameRows(Protocol):
    """The function that the fixture `assert_same_rows` returns."""

    def __call__(self, left: object, right: object, *, keys: Sequence[str] | None = None, **options: Any) -> None:
        """Fail unless both sides are the same rows, as for `harness.testing.assert_same_rows`.

        Tables are read by the engines of the test run, as in `HarnessSession.compare`.

        Args:
            left: A table, a result, or a list of rows.
            right: A table, a result, or a list of rows.
            keys: The columns that identify a row. None: rows are counted.
            options: Keyword arguments of `harness.compare`.

        Raises:
            AssertionError: The rows differ. The message is the report of the comparison.
        """


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options `--harness-…` and the settings `harness_…`. An option overrides its setting."""
    group = parser.getgroup("harness", "harness: Iceberg and Delta tables")
    about = "engines of the test run, such as duckdb,spark; auto: DuckDB, and Spark if it can start; default: duckdb"
    group.addoption("--harness-engines", metavar="A,B", help=about)
    group.addoption("--harness-spark-master", metavar="URL", help="where Spark runs, such as local[2]")
    parser.addini("harness_engines", about, default="")
    parser.addini(
        "harness_spark_master", "where Spark runs; default: here, on a worker's share of the cores", default=""
    )
    parser.addini(
        "harness_allowed_roots",
        "directories that tables may read in addition to their own, one per line",
        type="linelist",
    )
    parser.addini("harness_spark_config", "settings of the Spark session, one KEY=VALUE per line", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and reject wrong settings before anything runs."""
    config.addinivalue_line(
        "markers", f"{MARKER}: needs Spark; if it cannot start: an error if the run names spark, otherwise skipped"
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
    """Return the engines of the test run, and the engines that `auto` left out. None if the run names no engines."""
    if not _engines_setting(config):
        return None
    import harness

    engines = engines_of(config)
    line = f"harness: {harness.__version__}, engines {', '.join(engines)}"
    is_left_out = _engines_setting(config) == AUTO and "spark" not in engines
    return f"{line}; skipped spark: {spark_problem(config)}" if is_left_out else line


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests that use Spark, so that `-m "not harness_spark"` deselects them."""
    if "harness_spark" in getattr(item, "fixturenames", ()):
        item.add_marker(MARKER)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start Spark for marked tests, before their fixtures."""
    if item.get_closest_marker(MARKER) is not None and isinstance(item, pytest.Function):
        # parametrized tests share the list, so it is replaced
        item.fixturenames = ["harness_spark", *item.fixturenames]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a test for each engine if it uses `harness_engine`, and for each table form if it has that marker."""
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
    """Return the name of an engine, which has been started. The test runs once for each engine of the test run."""
    if request.param == "spark":
        request.getfixturevalue("harness_spark")
    else:
        from harness.engines.registry import start_engines

        start_engines([request.param])
    return str(request.param)


@pytest.fixture
def harness_session(request: pytest.FixtureRequest) -> Iterator[HarnessSession]:
    """Return a session that opens, queries, and compares tables, with a separate DuckDB connection.

    Spark is started by the first call that needs it.
    """
    from harness.testing.session import HarnessSession

    config = request.config
    lines = (line.strip() for line in config.getini("harness_allowed_roots"))
    roots = tuple(root if "://" in root else str(config.rootpath / root) for root in lines if root)
    session = HarnessSession(engines_of(config), lambda: request.getfixturevalue("harness_spark"), allowed_roots=roots)
    yield session
    session.close()


@pytest.fixture
def lake_table(tmp_path: Path, harness_session: HarnessSession) -> MakeLakeTable:
    """Return a function that makes tables from scenarios in the test's own directory: `lake_table(text)`."""
    from harness.testing.lake import make_table

    def make(source: LakeSource, name: str = "t") -> LakeTable:
        return make_table(source, tmp_path, name=name, engines=harness_session.engines, prepare=harness_session.prepare)

    return make


@pytest.fixture
def lake_catalog() -> Iterator[LakeCatalog]:
    """Return a running Iceberg REST catalog without tables, which plans scans: `lake_catalog.add(name, table)`."""
    from harness.testing.lake_catalog import LakeCatalog

    with LakeCatalog() as server:
        yield server


@pytest.fixture
def assert_same_rows(harness_session: HarnessSession) -> AssertSameRows:
    """Return a function that fails unless two sides are the same rows. One of them can be a list of rows.

    See `harness.testing.same_rows`.
    """
    return harness_session.assert_same_rows


@pytest.fixture(scope="session")
def harness_spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """Return the Spark session of this process, tuned for tests. A session that already runs is used unchanged.

    If Spark cannot start, this is an error if the test run names Spark as an engine. Otherwise the test is skipped.
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
    """Return a separate Spark session in which a job finds its tables by name: `.spark`, `.add`, `.written`."""
    from harness.testing.spark_job import SparkJobTest

    job = SparkJobTest(harness_spark, tmp_path)
    for marker in request.node.iter_markers(TABLES):
        job.add_same_rows(request.param, *marker.args, **marker.kwargs)
    yield job
    job.close()


class SparkStateRestorer:
    """Hooks that remove what each test leaves in the Spark session: views, the current database, and cached tables.

    State that fixtures with a wider scope created before the test stays.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._before: SparkState | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> None:
        """Record the state of the session before the first function-scoped fixture of a test."""
        if fixturedef.scope == "function":
            self._note()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self) -> None:
        """Record the state of the session before a test without function-scoped fixtures."""
        self._note()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        """Restore the state of the session before the test."""
        from harness.testing.spark_job import FRESH, restore

        try:
            return (yield)
        finally:
            before, self._before = self._before, None
            # None: the session was started in the test itself
            restore(self._session, FRESH if before is None else before)

    def _note(self) -> None:
        if self._before is None:
            from harness.testing.spark_job import SparkState

            self._before = SparkState.capture(self._session)


def _forms_of(markers: list[pytest.Mark], test: str, fixtures: Sequence[str]) -> list[tuple[str, str]]:
    """Return the formats and kinds of deletes that a test's markers select. The test runs once for each of them."""
    from harness.errors import RequestError
    from harness.testing.literals import all_forms

    if "harness_job" not in fixtures:
        raise pytest.UsageError(f"{test}: the marker {TABLES} needs the fixture harness_job")
    try:
        forms = [all_forms(**{k: v for k, v in m.kwargs.items() if k in ("formats", "deletes")}) for m in markers]
    except RequestError as error:
        raise pytest.UsageError(f"{test}: {error.message}") from None
    if any(other != forms[0] for other in forms):
        raise pytest.UsageError(f"{test}: its markers {TABLES} name different formats or deletes")
    return forms[0]


def engines_of(config: pytest.Config) -> tuple[str, ...]:
    """Return the engines of the test run in the given order. For `auto`, return those that can start.

    Raises:
        pytest.UsageError: An engine does not exist.
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
    """Return the option `--harness-engines`, or else the setting, or else an empty text."""
    return str(config.getoption("--harness-engines") or config.getini("harness_engines")).strip(", \t\n")


def spark_problem(config: pytest.Config) -> str | None:
    """Return the reason why Spark cannot start, with advice, or None if it can start or already runs."""
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
    """Return the settings of the Spark session, from `harness_spark_config`."""
    lines = [line.partition("=") for line in config.getini("harness_spark_config")]
    for key, equals, _ in lines:
        if not (key.strip() and equals):
            raise pytest.UsageError(f"harness_spark_config: {key!r} is not KEY=VALUE")
    return {key.strip(): value.strip() for key, _, value in lines}


def spark_master_of(config: pytest.Config) -> str:
    """Return Spark's master. The default is this machine, whose cores are divided among the workers of pytest-xdist."""
    master = config.getoption("--harness-spark-master") or config.getini("harness_spark_master")
    workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
    if master:
        return str(master)
    return "local[*]" if workers == 1 else f"local[{max(1, (os.cpu_count() or 1) // workers)}]"
