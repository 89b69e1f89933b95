"""Development sessions. `nox` runs the tests; `nox --list` shows the others.

Each session makes its own virtual environment and installs what it needs. If a session has parts, names of parts after
`--` choose some of them; without a name, all parts run. Further arguments go to pytest or to the program. With
`--no-venv --no-install`, sessions that need no more than `.[dev]` run in the active environment, as in `.ci/run`.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import shutil
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import nox
from packaging.utils import canonicalize_name

nox.options.sessions = ["tests"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = False


_ELSEWHERE = "not external and not interop and not browser"
"""Leaves out tests that have sessions of their own; pyproject.toml also leaves out most tests on Spark."""


_ONE = ("--numprocesses=0",)
"""One process: for a session of Spark that tests share."""
_STORES = ("moto[server]", "obstore", "deltalake", "pyiceberg")
"""Servers and clients of object stores, a writer, and a client of catalogs."""


_ASKS_DUCKDB = (
    "tests/diff",
    "tests/engines",
    "tests/files",
    "tests/filters",
    "tests/properties",
    "tests/queries",
    "tests/testing",
    "tests/test_bad_input.py",
    "tests/test_messages.py",
    "tests/test_result_types.py",
    "tests/delta/test_changes.py",
    "tests/delta/test_delta_scan.py",
    "tests/delta/test_lifetime_plans.py",
)
"""Tests whose outcome depends on DuckDB; the others plan, build tables, read by the oracle, or make reports. The
command's own are in the smoke of other versions."""


_SMOKE = (
    "tests/cli/test_cli_diff.py",
    "tests/cli/test_cli_other_commands.py",
    "tests/cli/test_cli_printable.py",
    "tests/delta/test_checkpoints.py",
    "tests/diff/test_compare_on_spark.py",
    "tests/engines/test_duckdb_files.py",
    "tests/engines/test_duckdb_instance.py",
    "tests/engines/test_duckdb_positional_join.py",
    "tests/filters",
    "tests/queries/test_functions.py",
    "tests/queries/test_sql_pushdown.py",
    "tests/engines/test_spark_tables.py",
    "tests/files/test_avro_files.py",
    "tests/files/test_roaring.py",
    "tests/files/test_repeated.py",
    "tests/properties/test_both_engines.py",
    "tests/properties/test_metamorphic.py",
)
"""Tests for other versions of dependencies: each asks for much of one, or of several together."""

_OPEN_SOCKETS = ("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning")
"""PySpark 4.0 and 4.1 leave the sockets of results to the garbage collector, some until after the last test."""


def _pytest(session: nox.Session, *arguments: str, posargs: Sequence[str] | None = None, **environment: str) -> None:
    """Run pytest with the arguments after `--`, or with `posargs` in their place."""
    given = session.posargs if posargs is None else posargs
    session.run("python", "-m", "pytest", *arguments, *given, env=environment)


def _parts(session: nox.Session, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the parts of a session named by the first arguments, or all parts, and the remaining arguments.

    Args:
        session: the session.
        names: the names of the parts.
    """
    known, given = list(names), list(session.posargs)
    chosen = list(itertools.takewhile(known.__contains__, given))
    return chosen or known, given[len(chosen) :]


def _install(session: nox.Session, *further: str) -> None:
    """Install harness and the dependencies of its tests, in the tested versions."""
    session.install("-e", ".[dev]", *further, "-c", "constraints.txt")


def _beside(session: nox.Session, *requirements: str) -> str:
    """Install packages into a separate folder, and return a PYTHONPATH that puts them first.

    Packages that the folder already has in exactly these versions stay, because another session may be using them.
    """
    place = Path("build", "packages", re.sub(r"\W+", "-", requirements[0]).strip("-")).resolve()
    note, wanted = place / "installed", "\n".join(requirements)
    if "*" in wanted or not note.exists() or note.read_text("utf-8") != wanted:
        quiet = ("--quiet", "--disable-pip-version-check", "--upgrade")
        session.run("python", "-m", "pip", "install", *quiet, "--target", str(place), *requirements)
        note.write_text(wanted, "utf-8")
    return os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH"))))


@nox.session
def tests(session: nox.Session) -> None:
    """Run the default tests. Run them after every change."""
    _install(session)
    _pytest(session)


@nox.session(name="tests-spark")
def tests_spark(session: nox.Session) -> None:
    """Run the other tests on Spark, and the scenarios on the oracle. Run them if an engine or a plan changes."""
    _install(session)
    _pytest(session, *_ONE, "-m", f"{_ELSEWHERE} and not smoke and (harness_spark or oracle)")


@nox.session(name="tests-without-spark")
def tests_without_spark(session: nox.Session) -> None:
    """Run the default tests without Spark, for machines on which Spark does not start."""
    _install(session)
    _pytest(session, "-m", f"{_ELSEWHERE} and not harness_spark")


@nox.session(name="tests-slow")
def tests_slow(session: nox.Session) -> None:
    """Run tests that start many processes, and the pages' examples. Run them if a command or a page changes."""
    _install(session, "pydantic-sarif==0.1.1")
    _pytest(session, "-m", "slow and not harness_spark")


@nox.session(name="tests-lowest")
def tests_lowest(session: nox.Session) -> None:
    """Test the lowest versions in pyproject.toml. Run it if a dependency or its use changes."""
    session.install("-e", ".[dev]", "-c", "constraints-lowest.txt")
    _pytest(session, *_ONE, *_OPEN_SOCKETS, *_SMOKE)


_VERSIONS = {
    "duckdb-1.5": ("duckdb==1.5.4",),
    "4.0.0": ("pyspark==4.0.0",),
    "4.0": ("pyspark==4.0.5", "duckdb==1.5.5"),
    "4.1": ("pyspark==4.1.4", "duckdb==1.5.6"),
    "4.2": ("pyspark==4.2.0", "duckdb==2.0.0"),
}
"""Versions of PySpark and DuckDB that are neither the newest nor the lowest of everything."""


@nox.session(name="tests-versions")
def tests_versions(session: nox.Session) -> None:
    """Run the parts duckdb-1.5, 4.0.0, 4.0, 4.1, and 4.2 (PySpark), if calls of DuckDB or Spark change.

    `duckdb-1.5` runs the default tests that ask DuckDB, `4.0.0` those of Spark, the others the smoke test.
    """
    _install(session)
    parts, rest = _parts(session, _VERSIONS)
    for part in parts:
        path = os.pathsep.join(_beside(session, each) for each in _VERSIONS[part])
        if part == "duckdb-1.5":
            chosen = ("-m", f"{_ELSEWHERE} and not harness_spark and not oracle", *_ASKS_DUCKDB)
            _pytest(session, *chosen, "--ignore-glob=tests/engines/test_spark_*", posargs=rest, PYTHONPATH=path)
            continue
        chosen = ("-k", "spark", "tests/engines", "tests/diff", "tests/queries") if part == "4.0.0" else _SMOKE
        _pytest(session, *_ONE, *_OPEN_SOCKETS, *chosen, posargs=rest, PYTHONPATH=path)


@nox.session(name="tests-newest")
def tests_newest(session: nox.Session) -> None:
    """Run the default tests with the newest versions, and list those not in constraints.txt. It runs nightly."""
    session.install("--upgrade", "--upgrade-strategy", "eager", "-e", ".[dev]")
    listed = ("pip", "list", "--format=freeze", "--exclude-editable", "--exclude", "pip", "--exclude", "setuptools")
    pinned = {line.split(";")[0].strip() for line in Path("constraints.txt").read_text("utf-8").splitlines()}
    installed = [line.partition("==") for line in str(session.run(*listed, silent=True)).splitlines()]
    others = sorted({f"{canonicalize_name(name)}=={version}" for name, _, version in installed} - pinned)
    try:
        _pytest(session)
    finally:
        session.warn(f"not as in constraints.txt: {', '.join(others) or 'nothing'}")


_NEIGHBORS = {
    "sqlmesh": ("sqlmesh>=0.236",),
    "ibis": ("ibis-framework[duckdb]>=12",),
    "dbt": ("dbt-duckdb>=1.11", "dbt-core<1.11"),  # later ones fetch a parser, also for a dry run
    "great-expectations": ("great-expectations>=1.24",),
    "awswrangler": ("awswrangler>=3.17",),
    "datacontract": ("datacontract-cli>=1.2",),
    "airflow": ("apache-airflow>=3.3",),
}
"""Packages that users have beside harness, each from the release that was the newest when it was added."""


@nox.session(name="install-beside")
def install_beside(session: nox.Session) -> None:
    """Test that pip can install harness beside other packages. Run it if a requirement changes."""
    for neighbor in _parts(session, _NEIGHBORS)[0]:
        session.run("python", "-m", "pip", "install", "--quiet", "--dry-run", ".[spark,suite]", *_NEIGHBORS[neighbor])


@nox.session
def constraints(session: nox.Session) -> None:
    """Write constraints.txt and constraints-lowest.txt. Run it to update the dependencies.

    For every Python that pyproject.toml names. Run the default tests and `tests-lowest` before you commit the files.
    """
    session.install("uv")
    told = ("--universal", "--python-version", "3.11", "--extra", "dev", "--no-annotate", "--quiet", "--upgrade")
    for file, lowest in (("constraints.txt", ()), ("constraints-lowest.txt", ("--resolution", "lowest-direct"))):
        by = ("--custom-compile-command", "nox -s constraints")
        session.run("uv", "pip", "compile", *told, *lowest, *by, "--output-file", file, "pyproject.toml")


@nox.session
def properties(session: nox.Session) -> None:
    """Run the property tests, or their part `enumerated` or `drawn`. Run enumerated if plans or deletes change.

    enumerated: every history of up to three operations, and every pair of a data file and a delete, on DuckDB, Spark
    and the oracle; `-- enumerated --length 4` reads longer histories.
    drawn: new examples until a time is over, `-- drawn --minutes 60 --seed 3`; failures are in build/repro.
    """
    name, *rest = session.posargs or [""]
    if name not in ("enumerated", "drawn"):
        session.error("name enumerated or drawn: nox -s properties -- NAME")
    _install(session)
    if name == "drawn":
        session.run("python", "programs/properties.py", *rest)
        return
    folder = "tests/properties/enumerated"
    _pytest(session, *_ONE, "-m", "", "--harness-engines=duckdb,oracle,spark", folder, posargs=rest)


_TOOLS = {
    "terminal": (),
    "ibis": ("ibis-framework[duckdb]>=12", "duckdb==1.5.*"),  # Ibis 12 fails on DuckDB 2.0
    "databases": (
        "duckdb==1.5.5",
        "duckdb-extension-sqlite-scanner==1.5.5",
        "duckdb-extension-postgres-scanner==1.5.5",
        "pgserver",
    ),
    "dbt": ("dbt-duckdb>=1.11", "dbt-core>=1.10,<1.11", "duckdb==1.5.*"),  # later ones fetch a parser when installed
}
"""Packages by the tests in tests/tools that need them."""


@nox.session(name="tests-external")
def tests_external(session: nox.Session) -> None:
    """Run tests that need servers, processes, or packages, by part. Run a part if its subject changes.

    browser: HTML reports and pages in a Chromium or Chrome without a network.
    stores: tables in servers of S3 (moto), Azure (azurite-blob) and Google Cloud (fake-gcs-server). The latter two are
    on the PATH, or HARNESS_AZURITE and HARNESS_FAKE_GCS name them. With HARNESS_S3A=1 Spark reads too.
    catalogs: tables by name on servers of PyIceberg's catalogs. `-- catalogs --histories 500 --seed 7` draws others,
    `--store s3` keeps their tables in a store, for which Spark fetches some 700 MB.
    cluster: reads by Spark executors in processes of their own.
    jobs: every form in which a job reads and writes, on Spark 4.0 and 4.3, and on Spark Connect.
    datafusion: the scenarios on an engine of another package, made by docs/how-to/add-an-engine.md.
    terminal, ibis, databases, dbt: the shell, and the pages about these tools.
    """
    _install(session)
    others = {
        "browser": _browser,
        "stores": _stores,
        "catalogs": _catalogs,
        "cluster": _cluster,
        "jobs": _jobs,
        "datafusion": _datafusion,
    }
    parts, rest = _parts(session, [*others, *_TOOLS])
    for part in parts:
        if part in others:
            others[part](session, rest)
            continue
        path = _beside(session, *_TOOLS[part]) if _TOOLS[part] else os.environ.get("PYTHONPATH", "")
        _pytest(session, *_ONE, "-m", "external", "tests/tools", "-k", part, posargs=rest, PYTHONPATH=path)


def _browser(session: nox.Session, rest: Sequence[str]) -> None:
    session.install("axe-core-python==0.1.0", "-c", "constraints.txt")
    folders = ("tests/cli", "tests/diff", "tests/suite")
    _pytest(session, *_ONE, "-m", "browser", *folders, posargs=rest)


def _stores(session: nox.Session, rest: Sequence[str]) -> None:
    path = _beside(session, *_STORES)
    _pytest(session, *_ONE, "-m", "external", "tests/stores", posargs=rest, PYTHONPATH=path)


def _catalogs(session: nox.Session, rest: Sequence[str]) -> None:
    """Test PyIceberg's catalogs; DuckDB's own Iceberg extension, of another version, writes through REST too."""
    session.install("-e", ".[dev,catalog,s3]", "moto[server,s3,glue,dynamodb]", "deltalake", "pyiceberg-core")
    parts = ("", "-extension-avro", "-extension-httpfs", "-extension-iceberg")
    writer = _beside(session, *(f"duckdb{part}==1.5.5" for part in parts))
    chosen = ("-m", "external", "tests/catalogs/servers", "tests/docs", "programs/server_plans")
    _pytest(session, *_ONE, *chosen, posargs=rest, HARNESS_DUCKDB_WRITER=writer)


def _cluster(session: nox.Session, rest: Sequence[str]) -> None:
    engine_tests = ("tests/engines/test_spark_cluster.py", "tests/engines/test_spark_connect.py")
    _pytest(session, *_ONE, "-m", "external", *engine_tests, posargs=rest)
    settings = ("-o", "harness_spark_config=spark.executor.memory=512m")
    executors = ("--harness-spark-master=local-cluster[2,1,1024]", *settings)
    _pytest(session, *_ONE, *executors, "-m", "harness_spark", "tests/testing/test_scenarios.py", posargs=rest)
    store = {"PYTHONPATH": _beside(session, *_STORES), "HARNESS_S3A": "1"}
    _pytest(session, *_ONE, "-m", "external", "tests/stores/test_spark_stores.py", posargs=rest, **store)


def _jobs(session: nox.Session, rest: Sequence[str]) -> None:
    for pyspark in ("4.0.*", "4.3.*"):
        path = _beside(session, f"pyspark[connect]=={pyspark}")
        for kind in ("own", "classic", "connect"):
            session.run("python", "tests/jobs/reading_forms.py", kind, env={"PYTHONPATH": path})
        _pytest(session, *_ONE, "-m", "external", "tests/jobs/example", posargs=rest, PYTHONPATH=path)


def _datafusion(session: nox.Session, rest: Sequence[str]) -> None:
    package = "programs/datafusion_engine"
    path = _beside(session, "datafusion==55.*", f"./{package}", "--no-deps")
    _pytest(session, *_ONE, "-m", "external", package, posargs=rest, PYTHONPATH=path)


@nox.session
def interop(session: nox.Session) -> None:
    """Run the parts iceberg, delta (reference implementations), and corpus (real tables), if a format changes.

    Apache Iceberg and Delta Lake write and harness reads, and the other way round; their jars come from Maven Central.
    HARNESS_CORPUS names the directory of real tables (default ../shared/corpus); without it the corpus is skipped.
    """
    _install(session)
    parts, rest = _parts(session, ["iceberg", "delta", "corpus"])
    for part in parts:
        if part == "corpus":
            _pytest(session, "-m", "interop", "tests/interop/test_corpus.py", posargs=rest)
            continue
        pinned = json.loads(Path("harness/suite/jars.json").read_text(encoding="utf-8"))[part]
        path = _beside(session, f"pyspark=={pinned['pyspark']}")
        chosen = ("-m", "interop", f"tests/interop/test_{part}.py")
        _pytest(session, *_ONE, *_OPEN_SOCKETS, *chosen, posargs=rest, PYTHONPATH=path)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types, imports, and the list of messages. Run it before every commit."""
    _install(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy", "--strict", "harness")
    session.run("lint-imports")
    session.run("python", "programs/documentation/messages.py", "--check")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation in build/site. Run it if a page changes; `-- serve` shows the site."""
    session.install("-e", ".[suite]", "--group", "docs")
    session.run("python", "programs/documentation/build.py", silent=True)
    known = os.environ.get("GITHUB_REPOSITORY")
    server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    env = {"HARNESS_REPOSITORY": f"{server}/{known}"} if known else {}
    session.run("zensical", *(session.posargs or ["build", "--clean", "--strict"]), env=env)


_JAVA = """#!/bin/sh
exec java -cp "{jars}/*" Readers {format}
"""
"""A reader in Java as a program."""


_WRITERS = {
    "deltalake": "deltalake",
    "polars": "polars",
    "pyiceberg": "pyiceberg",
    "sail-delta": "sail",
    "sail-iceberg": "sail",
    "spark-delta": "spark-delta",
    "spark-iceberg": "spark-iceberg",
}
"""The reader in whose environment a writer runs."""


def _native(session: nox.Session, rest: Sequence[str]) -> None:
    made = Path(rest[0] if rest else ".nox/readers").resolve()
    programs = Path("tests/suite/programs")
    if _has(session, "go"):
        session.run(
            "go", "build", "-C", f"{programs}/go", "-o", f"{made / 'iceberg-go'}{os.sep}", "./...", external=True
        )
    if _has(session, "mvn"):
        jars = made / "java"
        session.run("mvn", "-q", "-B", "-f", f"{programs}/java", f"-Doutput={jars}", "package", external=True)
        for name, format in (("iceberg-java", "iceberg"), ("delta-kernel-java", "delta")):
            program = made / name / "reader"
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(_JAVA.format(jars=jars, format=format), "utf-8")
            program.chmod(0o755)
    if _has(session, "cargo"):
        build = ["cargo", "build", "--release", "--locked", "--target-dir", str(made / "rust")]
        session.run(*build, "--manifest-path", f"{programs}/rust/Cargo.toml", external=True)
        for name in ("delta-kernel-rust", "iceberg-rust"):
            program = made / name / "reader"
            program.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(made / "rust" / "release" / name, program)


def _has(session: nox.Session, tool: str) -> bool:
    found = shutil.which(tool) is not None
    if not found:
        session.warn(f"{tool} is not installed: its readers are not built")
    return found


_REPORTS = {"text": "txt", "junit": "xml", "html": "html", "json": "json", "markdown": "md"}


def _run(session: nox.Session, rest: Sequence[str]) -> None:
    """Run every scenario on every reader that can be installed, and list the changes since the last run here."""
    _install(session)
    session.run("python", "-m", "harness.suite.readers", ".nox/readers", silent=True, stderr=None)
    place = Path("build", "suite")
    place.mkdir(parents=True, exist_ok=True)
    files = {kind: place / f"run.{ending}" for kind, ending in _REPORTS.items()}
    reports = [word for file in files.values() for word in ("-o", str(file))]
    failing = place / "failing.txt"
    earlier = failing.read_text("utf-8") if failing.exists() else None
    known = ["--xfails", "tests/suite/expected-failures.txt", "--write-xfails", str(failing)]
    run = ["harness", "scenarios", "run", "--engines", "all", "--exit-zero", *known, *reports, *rest]
    session.run(*run, env={"HARNESS_READERS": ".nox/readers"})
    print(files["text"].read_text("utf-8"))
    write_table(files["markdown"].read_text("utf-8"))
    session.run("python", "programs/documentation/tables.py")  # the scores in the README
    if earlier is not None:
        print(*changed_failures(earlier, failing.read_text("utf-8")), sep="\n")


def changed_failures(earlier: str, later: str) -> list[str]:
    """Return a line for each scenario and reader of only one of two lists that `--write-xfails` wrote."""
    before, after = ({line.partition("  # ")[0] for line in text.splitlines()} for text in (earlier, later))
    new = [f"fails: {name}" for name in sorted(after - before)]
    return new + [f"no longer fails: {name}" for name in sorted(before - after)]


def _writers(session: nox.Session, rest: Sequence[str]) -> None:
    _install(session)
    script = "programs/unusual_tables.py"
    for writer in rest or _WRITERS:
        reader = _WRITERS[writer]
        make = ("python", "-m", "harness.suite.readers", ".nox/readers", reader)
        session.run(*make, silent=True, stderr=None)
        python = str(Path(".nox", "readers", reader, "bin", "python").resolve())
        if writer == "pyiceberg":  # its catalog in memory
            session.run(python, "-m", "pip", "install", "--quiet", "sqlalchemy", external=True)
        place = str(Path("build", "written", writer).resolve())
        session.run(python, script, writer, place, external=True)
        session.run("python", script, "check", place)


def _plans(session: nox.Session, rest: Sequence[str]) -> None:
    """Test what the page says of each client; `native` builds one in Java. `--write` writes the page."""
    _install(session)
    clients = ("pyiceberg", "duckdb-iceberg")
    session.run("python", "-m", "harness.suite.readers", ".nox/readers", *clients, silent=True, stderr=None)
    python = str(Path(".nox", "readers", "duckdb-iceberg", "bin", "python").resolve())
    session.run(python, "-m", "pip", "install", "--quiet", "duckdb-extension-httpfs==1.5.5", external=True)
    if rest[:1] == ["--write"]:
        session.run("python", "programs/server_plans/server_plans.py", *rest, env={"HARNESS_READERS": ".nox/readers"})
    else:
        chosen = ("-m", "external", "programs/server_plans")
        _pytest(session, *_ONE, *chosen, posargs=rest, HARNESS_READERS=".nox/readers")


def write_table(table: str) -> None:
    """Write the table of features by reader into its page, between two marks."""
    page = Path("docs/suite/readers.md")
    before, start, rest = page.read_text("utf-8").partition("<!-- run: written by `nox -s readers -- run` -->\n")
    _, end, after = rest.partition("<!-- end of run -->\n")
    if not end:
        raise ValueError(f"{page} has no marks for the table")
    page.write_text(f"{before}{start}{table.strip()}\n{end}{after}", "utf-8")


def _data(session: nox.Session, rest: Sequence[str]) -> None:
    """Write the suite as data to /tmp/reader-suite, the place that its tables name, and its archive to build/suite."""
    _install(session)
    place = Path("/tmp/reader-suite")
    if (place / "suite.json").is_file():
        shutil.rmtree(place)
    session.run("harness", "scenarios", "build", "--all", str(place), silent=True)
    version = json.loads((place / "suite.json").read_text("utf-8"))["version"]
    archive = Path("build", "suite", f"reader-suite-{version}.tar.gz")
    write_archive(place, archive)
    print(f"{archive}: {archive.stat().st_size:,} bytes")


def write_archive(place: Path, archive: Path) -> None:
    """Pack a suite with fixed file times, so that the same suite produces the same bytes."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid, member.gid, member.uname, member.gname = 0, 0, "", ""
        member.mode = 0o755 if member.isdir() else 0o644
        whole = int(member.mtime)
        member.mtime = 0 if member.isdir() else whole if whole == member.mtime else member.mtime
        return member

    archive.parent.mkdir(parents=True, exist_ok=True)
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        tar.add(place, place.name, filter=plain)


def _backtest(session: nox.Session, rest: Sequence[str]) -> None:
    _install(session)
    session.run("python", "programs/backtest/backtest.py", *rest)


@nox.session
def readers(session: nox.Session) -> None:
    """Run other readers and writers: native, run, plans, data, backtest, or writers. Run the part that you need.

    native DIR: build the readers in Go, Java and Rust whose tools are here, in .nox/readers or DIR.
    run: every scenario on every reader that can be installed, in build/suite and docs/suite/readers.md.
    plans: clients of REST catalogs read plans of a server; `-- plans --write` writes docs/suite/server-plans.md.
    data: all scenarios as data in /tmp/reader-suite, and their archive in build/suite.
    backtest ID ...: real wrong-row bugs, each looked for in the release that has it; all bugs without an ID.
    writers NAME ...: unusual tables by other writers, in build/written, and the findings of `harness check` on them.
    """
    programs = {
        "native": _native,
        "run": _run,
        "plans": _plans,
        "data": _data,
        "backtest": _backtest,
        "writers": _writers,
    }
    if not session.posargs or session.posargs[0] not in programs:
        session.error(f"name one of {', '.join(programs)}: nox -s readers -- NAME")
    name, *rest = session.posargs
    programs[name](session, rest)


@nox.session
def faults(session: nox.Session) -> None:
    """Plant faults that a scenario, a property, or a test must detect. Run it if tests are deleted."""
    _install(session)
    _pytest(session, *_ONE, "-m", "", "programs/faults")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Read mutated tables: right rows or an error of harness. Run it if a parser changes; `-- decoders` runs Atheris.

    `-- --mutants 200000 --seed 7 --target avro` chooses; findings are in build/fuzz. `-- decoders --seconds 60
    --decoder avro` gives bytes to decoders; findings are in build/fuzz-decoders.

    `.ci/run` runs some two minutes of it, with one seed and a number of mutants, so that it fails for a change and not
    by chance: of new mutants one in some twenty thousand still shows damage that harness and the oracle judge
    differently. New seeds are for the night. The tests of the fuzzer itself run first.
    """
    if session.posargs[:1] == ["decoders"]:
        _install(session, "atheris")
        session.run("python", "programs/fuzzing/fuzz_decoders.py", *session.posargs[1:])
        return
    _install(session)
    session.run("python", "-m", "pytest", "-q", *_ONE, "programs/fuzzing")
    session.run("python", "programs/fuzzing/fuzz.py", *session.posargs)


@nox.session
def tpc(session: nox.Session) -> None:
    """Run TPC-H and TPC-DS on both engines, or DuckDB's SQL tests (`-- duckdb DIRECTORY`). Run it if queries change.

    `-- --scale 1 --engine spark --suite tpcds --query 64` runs a part; data and tables are made once, in build/tpc.
    `-- --scale 1 --costs --engine duckdb --suite tpch` measures instead, beside plain views, and `--record` notes it.
    `-- duckdb DIRECTORY --engine duckdb --only 'window/*'` runs a part of the tests in DIRECTORY, the folder `test/sql`
    of DuckDB's sources.
    """
    _install(session)
    if session.posargs[:1] == ["duckdb"]:
        writer = _beside(session, "deltalake")
        session.run("python", "programs/tpc/duckdb_suite.py", *session.posargs[1:], env={"PYTHONPATH": writer})
        return
    scale, arguments = _scale(list(session.posargs))
    place = f"build/tpc/sf{scale}"
    extensions = [f"duckdb-extension-{suite}==1.5.5" for suite in ("tpch", "tpcds")]
    making = _beside(session, "duckdb==1.5.5", *extensions, "--no-deps")
    session.run("python", "programs/tpc/tpc_data.py", place, "--scale", scale, env={"PYTHONPATH": making})
    writers = _beside(session, "deltalake", "pyiceberg[sql-sqlite]")
    session.run("python", "programs/tpc/tpc_tables.py", place, env={"PYTHONPATH": writers})
    script = "programs/tpc/tpc_costs.py" if "--costs" in arguments else "programs/tpc/tpc.py"
    session.run("python", script, place, *(a for a in arguments if a != "--costs"))


def _scale(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the factor after `--scale`, by default 0.1, and the remaining arguments."""
    if "--scale" not in arguments:
        return "0.1", arguments
    place = arguments.index("--scale")
    return arguments[place + 1], arguments[:place] + arguments[place + 2 :]


@nox.session
def bench(session: nox.Session) -> None:
    """Measure reads beside other readers, and write docs/bench. Run it on an idle machine before a release.

    `-- --compare` compares with the run before.
    """
    _install(session)
    session.run("python", "programs/benchmarks/bench.py", *session.posargs)
