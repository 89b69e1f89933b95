"""Development sessions. `nox` runs the tests; `nox --list` shows the others.

Each session makes its own virtual environment and installs what it needs. Arguments after `--` go to pytest. With
`--no-venv --no-install`, those that need no more than `.[dev]` run in the environment that is active, as in `.ci/run`.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import nox

nox.options.sessions = ["tests"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = False


_ELSEWHERE = (
    "not catalog and not corpus and not mutation and not reference and not cluster and not stores and not tools "
    "and not connect and not browser"
)
"""The marks of tests that have sessions of their own; pyproject.toml leaves out most of those on Spark besides."""


_ONE = ("--numprocesses=0",)
"""One process: for a session of Spark that tests share."""


_ASKS_DUCKDB = (
    *(
        "tests/catalogs",
        "tests/cli",
        "tests/differ",
        "tests/engines",
        "tests/files",
        "tests/filters",
        "tests/properties",
        "tests/queries",
    ),
    *("tests/testing", "tests/test_bad_input.py", "tests/test_messages.py", "tests/test_result_types.py"),
    *("tests/delta/test_changes.py", "tests/delta/test_delta_scan.py"),
)
"""Tests whose outcome depends on DuckDB; the others plan, build tables, read by the oracle, or make reports."""


def _pytest(session: nox.Session, *arguments: str, **environment: str) -> None:
    session.run("python", "-m", "pytest", *arguments, *session.posargs, env=environment)


def _beside(session: nox.Session, *requirements: str) -> str:
    """Installs packages, or another version of one, apart from the environment; a PYTHONPATH that puts them first."""
    place = Path("build", "packages", re.sub(r"\W+", "-", requirements[0]).strip("-")).resolve()
    quiet = ("--quiet", "--disable-pip-version-check", "--upgrade")
    session.run("python", "-m", "pip", "install", *quiet, "--target", str(place), *requirements)
    return os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH"))))


@nox.session
def tests(session: nox.Session) -> None:
    """The default tests, on the newest DuckDB that is supported."""
    session.install("-e", ".[dev]")
    _pytest(session)


@nox.session(name="tests-spark")
def tests_spark(session: nox.Session) -> None:
    """The tests on Spark, all of them, in one process with one JVM."""
    session.install("-e", ".[dev]")
    _pytest(session, *_ONE, "-m", f"{_ELSEWHERE} and harness_spark")


@nox.session(name="tests-without-spark")
def tests_without_spark(session: nox.Session) -> None:
    """The default tests but those on Spark: what runs wherever Python does."""
    session.install("-e", ".[dev]")
    _pytest(session, "-m", f"{_ELSEWHERE} and not harness_spark")


@nox.session(name="tests-duckdb15")
def tests_duckdb15(session: nox.Session) -> None:
    """The default tests that ask DuckDB, but those on Spark, on the oldest DuckDB that is supported."""
    session.install("-e", ".[dev]")
    chosen = ("-m", f"{_ELSEWHERE} and not harness_spark", "--ignore-glob=tests/engines/test_spark_*")
    _pytest(session, *chosen, *_ASKS_DUCKDB, PYTHONPATH=_beside(session, "duckdb==1.5.*"))


@nox.session(name="tests-stores")
def tests_stores(session: nox.Session) -> None:
    """Tables in servers of object stores, and of other writers: moto; azurite and fake-gcs-server where installed."""
    session.install("-e", ".[dev]")
    writer = _beside(session, *(f"duckdb{part}==1.5.5" for part in ("", "-extension-avro", "-extension-iceberg")))
    path = _beside(session, "moto[server]", "obstore", "deltalake")
    _pytest(session, *_ONE, "-m", "stores", "tests/stores", PYTHONPATH=path, HARNESS_DUCKDB_WRITER=writer)


@nox.session(name="tests-browser")
def tests_browser(session: nox.Session) -> None:
    """The HTML reports in a Chromium or Chrome without a network; skipped where there is none."""
    session.install("-e", ".[dev]")
    _pytest(session, *_ONE, "-m", "browser", "tests/differ", "tests/conformance")


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types and import rules."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy", "--strict", "harness")
    session.run("lint-imports")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation site, in build/site; a link that leads nowhere fails it. `nox -s docs -- serve` shows it."""
    session.install("-e", ".[docs]")
    session.run("zensical", *(session.posargs or ["build", "--clean", "--strict"]))


@nox.session
def corpus(session: nox.Session) -> None:
    """Tables that other projects wrote, found by HARNESS_CORPUS; skipped where there are none."""
    session.install("-e", ".[dev]")
    _pytest(session, "-m", "corpus", "tests/corpus")


@nox.session(name="tests-on-spark")
def tests_on_spark(session: nox.Session) -> None:
    """Every table of the DuckDB engine's tests, read on Spark too: same rows and types, or the same error. Slow."""
    session.install("-e", ".[dev]")
    _pytest(session, *_ONE, "--on-spark", "tests/engines", "-k", "duckdb")


_REPORTS = {"text": "txt", "junit": "xml", "html": "html", "json": "json", "markdown": "md"}


def _run_suite(session: nox.Session, name: str, *arguments: str) -> None:
    """`harness run`, with every kind of report in build/<name>/."""
    place = Path("build") / name
    place.mkdir(parents=True, exist_ok=True)
    files = {kind: str(place / f"{name}.{ending}") for kind, ending in _REPORTS.items()}
    reports = [word for kind, file in files.items() for word in ("--format", kind, "--output", file)]
    try:
        session.run("harness", "run", *arguments, *reports, *session.posargs)
    finally:
        if Path(files["text"]).is_file():
            print(Path(files["text"]).read_text("utf-8"))


@nox.session
def conformance(session: nox.Session) -> None:
    """Every scenario on harness's own engines, Spark too; reports in build/conformance."""
    session.install("-e", ".[dev]")
    own = ["--engine", "duckdb", "--engine", "oracle", "--engine", "spark"]
    _run_suite(session, "conformance", *own, "--strict", "--xfails", "tests/conformance/expected-failures.txt")


@nox.session
def matrix(session: nox.Session) -> None:
    """Every scenario on every reader that can be installed: what reads what, in build/matrix and docs/matrix.md."""
    session.install("-e", ".[dev]")
    make = ["python", "-m", "harness.conformance.environments", ".nox/readers"]
    lines = str(session.run(*make, silent=True, stderr=None)).splitlines()
    pythons = [word for line in lines if "=" in line for word in ("--python", line)]
    known = ["--xfails", "tests/conformance/expected-failures.txt"]
    # Red cells are what this is for.
    _run_suite(session, "matrix", "--engine", "all", *pythons, *known, "--exit-zero")
    write_matrix(Path("build/matrix/matrix.md").read_text("utf-8"))


def write_matrix(matrix: str) -> None:
    """Puts the matrix into its page, and its last line into the README, each between two marks."""
    _between_marks(Path("docs/matrix.md"), "matrix", matrix)
    _between_marks(Path("README.md"), "verified reads", verified_reads(matrix))


def verified_reads(matrix: str) -> str:
    """The last line of the matrix as text: each reader with its version, its share, and what it read wrongly."""
    head, *_, totals, last = [line for line in matrix.splitlines() if line.startswith("| ")]
    readers, results, shares = (
        [cell.strip() for cell in line.strip("| ").split(" | ")][1:] for line in (head, totals, last)
    )
    wrong = [re.search(r"✗ (\d+)", result) for result in results]
    parts = [
        f"`{reader}` {share}" + ("" if found is None else f", {found[1]} wrong")
        for reader, share, found in zip(readers, shares, wrong, strict=True)
    ]
    return " · ".join(parts) + "\n"


def _between_marks(page: Path, name: str, text: str) -> None:
    before, start, rest = page.read_text("utf-8").partition(f"<!-- {name}: written by `nox -s matrix` -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->\n")
    if not end:
        raise ValueError(f"{page} has no marks for {name}")
    page.write_text(f"{before}{start}{text.strip()}\n{end}{after}", "utf-8")


@nox.session
def mutations(session: nox.Session) -> None:
    """Seeded faults in planning, lowering and queries, which scenarios, properties or a test must catch. Slow."""
    session.install("-e", ".[dev]")
    _pytest(session, *_ONE, "-m", "mutation", "tests/mutations")


@nox.session
def nightly(session: nox.Session) -> None:
    """The property tests on new examples for `-- --minutes 60 --seed 3`; failures are left in build/repro."""
    session.install("-e", ".[dev]")
    session.run("python", "tests/properties/nightly.py", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Mutated tables: right rows or a HarnessError. `-- --mutants 200000 --seed 7 --target avro`; see build/fuzz.

    `.ci/run` runs some two minutes of it, with one seed and a number of mutants, so that it fails for a change and not
    by chance: of new mutants one in some twenty thousand still shows damage that harness and the oracle judge
    differently. New seeds are for the night. The tests of the fuzzer itself run first.
    """
    session.install("-e", ".[dev]")
    session.run("python", "-m", "pytest", "-q", *_ONE, "tests/fuzzing")
    session.run("python", "tests/fuzzing/fuzz.py", *session.posargs)


@nox.session(name="fuzz-decoders")
def fuzz_decoders(session: nox.Session) -> None:
    """Atheris on the decoders that take bytes, `-- --seconds 60 --decoder avro`; findings in build/fuzz-decoders."""
    session.install("-e", ".[dev]", "atheris")
    session.run("python", "tests/fuzzing/fuzz_decoders.py", *session.posargs)


@nox.session(name="tests-on-oracle")
def tests_on_oracle(session: nox.Session) -> None:
    """Every table of the DuckDB engine's tests, read by the oracle too: same rows and types, or the same error."""
    session.install("-e", ".[dev]")
    _pytest(session, "--on-oracle", "tests/engines", "-k", "duckdb")


@nox.session
@nox.parametrize("format", ["iceberg", "delta"])
def reference(session: nox.Session, format: str) -> None:
    """Both ways between harness and the reference implementations, whose jars come from Maven Central."""
    pinned = json.loads(Path("harness/conformance/readers/reference.json").read_text(encoding="utf-8"))[format]
    session.install("-e", ".[dev]")
    files = sorted(map(str, Path("tests/reference").glob(f"test_{format}_*.py")))
    path = _beside(session, f"pyspark=={pinned['pyspark']}")
    _pytest(session, *_ONE, "-m", "reference", *files, PYTHONPATH=path)


@nox.session(name="tests-spark40")
def tests_spark40(session: nox.Session) -> None:
    """The tests of the Spark engine and of comparisons on Spark, on the oldest pyspark that is supported. Slow."""
    session.install("-e", ".[dev]", "pyspark==4.0.*")
    # pyspark 4.0 leaves the sockets of results to the garbage collector.
    quiet = ("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning")
    _pytest(session, *_ONE, *quiet, "-k", "spark", "tests/engines", "tests/differ", "tests/queries")


@nox.session(name="tests-spark-cluster")
def tests_spark_cluster(session: nox.Session) -> None:
    """Reads by Spark executors in processes of their own, and by a session of Spark Connect. Slow."""
    session.install("-e", ".[dev]")
    _pytest(
        session, *_ONE, "-m", "cluster", "tests/engines/test_spark_cluster.py", "tests/engines/test_spark_connect.py"
    )


@nox.session(name="tests-spark-jobs")
@nox.parametrize("pyspark", ["4.0.*", "4.3.*"])
def tests_spark_jobs(session: nox.Session, pyspark: str) -> None:
    """Every form in which a job reads and writes: in harness's session, a user's, and one of Connect. Slow."""
    session.install("-e", ".[dev]", f"pyspark[connect]=={pyspark}")
    for kind in ("own", "classic", "connect"):
        session.run("python", "tests/jobs/reading_forms.py", kind)
    _pytest(session, *_ONE, "-m", "connect", "tests/jobs/example")


@nox.session(name="tests-catalogs")
def tests_catalogs(session: nox.Session) -> None:
    """Tables by name through PyIceberg's catalogs: SQLite, REST (Java, Maven), Glue, DynamoDB and S3 (moto); histories.

    DuckDB's own Iceberg extension, of a version beside, writes through REST too; examples of the docs are run.

    `-- --histories 500 --seed 7` draws others, `--store s3` keeps their tables in a store, for which Spark fetches some
    700 MB. What cannot start is skipped, and says why.
    """
    session.install("-e", ".[dev,catalog,s3]", "moto[server,s3,glue,dynamodb]", "deltalake", "pyiceberg-core")
    parts = ("", "-extension-avro", "-extension-httpfs", "-extension-iceberg")
    writer = _beside(session, *(f"duckdb{part}==1.5.5" for part in parts))
    _pytest(session, *_ONE, "-m", "catalog", "tests/catalogs/servers", "tests/docs", HARNESS_DUCKDB_WRITER=writer)


@nox.session
def tpc(session: nox.Session) -> None:
    """TPC-H and TPC-DS on both engines, over tables of both formats: equal, allowed, different, refused. Slow.

    `-- --scale 1 --engine spark --suite tpcds --query 64` runs a part; data and tables are made once, in build/tpc.
    `-- --scale 1 --costs --engine duckdb --suite tpch` measures instead, beside plain views, and `--record` notes it.
    """
    session.install("-e", ".[dev]")
    scale, arguments = _scale(list(session.posargs))
    place = f"build/tpc/sf{scale}"
    extensions = [f"duckdb-extension-{suite}==1.5.5" for suite in ("tpch", "tpcds")]
    making = _beside(session, "duckdb==1.5.5", *extensions, "--no-deps")
    session.run("python", "tests/tpc/tpc_data.py", place, "--scale", scale, env={"PYTHONPATH": making})
    writers = _beside(session, "deltalake", "pyiceberg[sql-sqlite]")
    session.run("python", "tests/tpc/tpc_tables.py", place, env={"PYTHONPATH": writers})
    script = "tests/tpc/tpc_costs.py" if "--costs" in arguments else "tests/tpc/tpc.py"
    session.run("python", script, place, *(a for a in arguments if a != "--costs"))


def _scale(arguments: list[str]) -> tuple[str, list[str]]:
    """The factor after `--scale`, 0.1 without, and the other arguments."""
    if "--scale" not in arguments:
        return "0.1", arguments
    place = arguments.index("--scale")
    return arguments[place + 1], arguments[:place] + arguments[place + 2 :]


_TOOLS = {
    "terminal": (),
    "ibis": ("ibis-framework[duckdb]>=12", "duckdb==1.5.*"),  # Ibis 12 fails on DuckDB 2.0
    "databases": (
        *("duckdb==1.5.5", "duckdb-extension-sqlite-scanner==1.5.5", "duckdb-extension-postgres-scanner==1.5.5"),
        "pgserver",
    ),
    "dbt": ("dbt-duckdb>=1.11", "dbt-core>=1.10,<1.11", "duckdb==1.5.*"),  # later ones fetch a parser when installed
}


@nox.session(name="tests-tools")
@nox.parametrize("tool", list(_TOOLS))
def tests_tools(session: nox.Session, tool: str) -> None:
    """The shell on a terminal, SQLite and Postgres compared, and the pages about Ibis and dbt, with these packages."""
    session.install("-e", ".[dev]")
    path = _beside(session, *_TOOLS[tool]) if _TOOLS[tool] else os.environ.get("PYTHONPATH", "")
    _pytest(session, *_ONE, "-m", "tools", "tests/tools", "-k", tool, PYTHONPATH=path)


@nox.session
def bench(session: nox.Session) -> None:
    """How fast reads are, beside other readers, into docs/bench; `-- --compare` with the last release.

    Wants an idle machine.
    """
    session.install("-e", ".[dev]")
    session.run("python", "tests/benchmarks/bench.py", *session.posargs)
