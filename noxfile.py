"""Development sessions. `nox` runs the tests; `nox --list` shows the others.

Each session makes its own virtual environment and installs what it needs. Arguments after `--` go to pytest. With
`--no-venv --no-install`, those that need no more than `.[dev]` run in the environment that is active, as in `.ci/run`.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import tarfile
from pathlib import Path

import nox
from packaging.utils import canonicalize_name

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
_STORES = ("moto[server]", "obstore", "deltalake")
"""Servers and clients of object stores, and a writer."""


_ASKS_DUCKDB = (
    *(
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
"""Tests whose outcome depends on DuckDB; the others plan, build tables, read by the oracle, or make reports. The
command's own are in the smoke of other versions."""


_SMOKE = (
    *("tests/cli/test_cli_diff.py", "tests/cli/test_cli_other_commands.py", "tests/cli/test_cli_printable.py"),
    *("tests/delta/test_checkpoints.py", "tests/differ/test_compare_on_spark.py"),
    *("tests/engines/test_duckdb_files.py", "tests/engines/test_duckdb_instance.py"),
    "tests/engines/test_duckdb_positional_join.py",
    *("tests/filters", "tests/queries/test_functions.py", "tests/queries/test_sql_pushdown.py"),
    *("tests/engines/test_spark_tables.py", "tests/files/test_avro_files.py", "tests/files/test_roaring.py"),
    *("tests/model/test_repeated.py", "tests/properties/test_both_engines.py", "tests/properties/test_metamorphic.py"),
)
"""Tests for other versions of dependencies: each asks for much of one, or of several together."""

_OPEN_SOCKETS = ("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning")
"""PySpark 4.0 and 4.1 leave the sockets of results to the garbage collector, some until after the last test."""


def _pytest(session: nox.Session, *arguments: str, **environment: str) -> None:
    session.run("python", "-m", "pytest", *arguments, *session.posargs, env=environment)


def _install(session: nox.Session, *further: str) -> None:
    """Installs harness and what its tests need, in the versions that they are green with."""
    session.install("-e", ".[dev]", *further, "-c", "constraints.txt")


def _beside(session: nox.Session, *requirements: str) -> str:
    """Installs packages, or another version of one, apart from the environment; a PYTHONPATH that puts them first.

    What is there in just these versions stays: another session may run with it.
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
    """The default tests, on the newest DuckDB that is supported."""
    _install(session)
    _pytest(session)


@nox.session(name="tests-spark")
def tests_spark(session: nox.Session) -> None:
    """The tests on Spark but those of plain pytest, in one process with one JVM, and the scenarios by the oracle."""
    _install(session)
    _pytest(session, *_ONE, "-m", f"{_ELSEWHERE} and not smoke and (harness_spark or oracle)")


@nox.session(name="tests-without-spark")
def tests_without_spark(session: nox.Session) -> None:
    """The default tests but those on Spark: what runs wherever Python does."""
    _install(session)
    _pytest(session, "-m", f"{_ELSEWHERE} and not harness_spark")


@nox.session(name="tests-slow")
def tests_slow(session: nox.Session) -> None:
    """Tests that start process after process, such as runs of scenarios, and the examples of the pages."""
    _install(session, "pydantic-sarif==0.1.1")
    _pytest(session, "-m", "slow and not harness_spark")


@nox.session(name="tests-duckdb15")
def tests_duckdb15(session: nox.Session) -> None:
    """The default tests that ask DuckDB, but those on Spark, on the oldest DuckDB that is supported."""
    _install(session)
    chosen = ("-m", f"{_ELSEWHERE} and not harness_spark and not oracle", "--ignore-glob=tests/engines/test_spark_*")
    _pytest(session, *chosen, *_ASKS_DUCKDB, PYTHONPATH=_beside(session, "duckdb==1.5.4"))


@nox.session(name="tests-lowest")
def tests_lowest(session: nox.Session) -> None:
    """A smoke of the default tests, with the lowest version of everything that pyproject.toml asks for."""
    session.install("-e", ".[dev]", "-c", "constraints-lowest.txt")
    _pytest(session, *_ONE, *_OPEN_SOCKETS, *_SMOKE)


@nox.session(name="tests-versions")
@nox.parametrize(
    ("pyspark", "duckdb"), [("4.0.5", "1.5.5"), ("4.1.4", "1.5.6"), ("4.2.0", "2.0.0")], ids=["4.0", "4.1", "4.2"]
)
def tests_versions(session: nox.Session, pyspark: str, duckdb: str) -> None:
    """The same smoke with minor versions of PySpark and DuckDB that are neither the newest nor the lowest."""
    _install(session)
    path = os.pathsep.join(_beside(session, each) for each in (f"pyspark=={pyspark}", f"duckdb=={duckdb}"))
    _pytest(session, *_ONE, *_OPEN_SOCKETS, *_SMOKE, PYTHONPATH=path)


@nox.session(name="tests-newest")
def tests_newest(session: nox.Session) -> None:
    """The default tests with whatever is newest; names the versions that are not those of constraints.txt."""
    session.install("--upgrade", "--upgrade-strategy", "eager", "-e", ".[dev]")
    listed = ("pip", "list", "--format=freeze", "--exclude-editable", *("--exclude", "pip", "--exclude", "setuptools"))
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
@nox.parametrize("neighbor", list(_NEIGHBORS))
def install_beside(session: nox.Session, neighbor: str) -> None:
    """Whether pip finds versions of harness and of another package that fit together. Installs neither."""
    session.run("python", "-m", "pip", "install", "--quiet", "--dry-run", ".[spark,suite]", *_NEIGHBORS[neighbor])


@nox.session
def constraints(session: nox.Session) -> None:
    """The newest version of each package of `.[dev]`, and the lowest, into constraints.txt and constraints-lowest.txt.

    For every Python that is named. Run the default tests and `tests-lowest` before you commit them.
    """
    session.install("uv")
    told = ("--universal", "--python-version", "3.11", "--extra", "dev", "--no-annotate", "--quiet", "--upgrade")
    for file, lowest in (("constraints.txt", ()), ("constraints-lowest.txt", ("--resolution", "lowest-direct"))):
        by = ("--custom-compile-command", "nox -s constraints")
        session.run("uv", "pip", "compile", *told, *lowest, *by, "--output-file", file, "pyproject.toml")


@nox.session(name="tests-stores")
def tests_stores(session: nox.Session) -> None:
    """Tables in servers of object stores, also of another writer: moto; azurite and fake-gcs-server where installed."""
    _install(session)
    _pytest(session, *_ONE, "-m", "stores", "tests/stores", PYTHONPATH=_beside(session, *_STORES))


@nox.session(name="tests-browser")
def tests_browser(session: nox.Session) -> None:
    """HTML reports, pictures and the site in a Chromium or Chrome without a network; skipped where there is none."""
    session.install("-e", ".[dev]", "--group", "docs", "axe-core-python==0.1.0", "-c", "constraints.txt")
    _pytest(session, *_ONE, "-m", "browser", "tests/differ", "tests/conformance", "tests/docs", "tests/model")


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types and import rules."""
    _install(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy", "--strict", "harness")
    session.run("lint-imports")


@nox.session
def way(session: nox.Session) -> None:
    """The files that a read enters, and the size of the package; `-- --list` names them, `-- --write` notes them."""
    _install(session)
    session.run("python", "programs/way.py", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation site, in build/site; a link that leads nowhere fails it. `nox -s docs -- serve` shows it."""
    session.install("-e", ".", "--group", "docs")
    known = os.environ.get("GITHUB_REPOSITORY")
    server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    env = {"HARNESS_REPOSITORY": f"{server}/{known}"} if known else {}
    session.run("zensical", *(session.posargs or ["build", "--clean", "--strict"]), env=env)


@nox.session
def corpus(session: nox.Session) -> None:
    """Tables that other projects wrote, found by HARNESS_CORPUS; skipped where there are none."""
    _install(session)
    _pytest(session, "-m", "corpus", "tests/corpus")


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
"""The reader in whose environment a writer of `check-writers` runs."""


@nox.session(name="readers-native", venv_backend="none")
def readers_native(session: nox.Session) -> None:
    """Readers in Go, Java and Rust, into .nox/readers or the folder after `--`; those whose tools are there."""
    made = Path(session.posargs[0] if session.posargs else ".nox/readers").resolve()
    programs = Path("tests/conformance/programs")
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


@nox.session
def matrix(session: nox.Session) -> None:
    """Every scenario on every reader that can be installed, in build/matrix (a site too) and docs/matrix.md.

    Fails where a reader fails, or no longer fails, against the list in tests/conformance/readers-fail.txt, which is
    written anew.
    """
    _install(session)
    session.run("python", "-m", "harness.testing.conformance.readers", ".nox/readers", silent=True, stderr=None)
    known = ["--xfails", "tests/conformance/expected-failures.txt"]
    place = Path("build", "matrix")
    place.mkdir(parents=True, exist_ok=True)
    files = {kind: place / f"matrix.{ending}" for kind, ending in _REPORTS.items()}
    earlier = place / "earlier.json"
    if files["json"].exists():
        files["json"].replace(earlier)
    reports = [word for file in files.values() for word in ("--output", str(file))]
    # Red cells are what this is for.
    failing = place / "failing.txt"
    run = ["harness", "scenarios", "run", "--engines", "all", "--exit-zero", "--write-xfails", str(failing)]
    session.run(*run, *known, *reports, *session.posargs, env={"HARNESS_READERS": ".nox/readers"})
    before = [str(earlier)] if earlier.exists() else []
    session.run("harness", "scenarios", "site", str(files["json"]), *before, str(place / "site"))
    print(files["text"].read_text("utf-8"))
    write_matrix(files["markdown"].read_text("utf-8"))
    session.run("python", "tests/docs/tables.py")  # the scores in the README and on the first page
    if changed := write_failing(failing.read_text("utf-8"), Path("tests", "conformance", "readers-fail.txt")):
        session.error("\n".join(["Readers fail, or no longer fail:", *changed]))


def write_failing(found: str, known: Path) -> list[str]:
    """Writes the list of what readers fail, with reasons of a line, and gives the reads that changed since the last."""
    title = "# The reads of released readers that are FAIL or ERROR in the last run of `nox -s matrix`.\n"
    lines = [f"{line[:150].rstrip()}\n" for line in sorted(found.splitlines())]
    before = set(known.read_text("utf-8").splitlines(keepends=True)) if known.exists() else set()
    names = [{line.partition("  # ")[0] for line in each if "::" in line} for each in (lines, before)]
    known.write_text("".join([title, *lines]), "utf-8")
    return [f"fails: {name}" for name in sorted(names[0] - names[1])] + [
        f"no longer fails: {name}" for name in sorted(names[1] - names[0])
    ]


@nox.session(name="check-writers")
def check_writers(session: nox.Session) -> None:
    """Unusual tables by other writers, in build/written, and the findings on them; `-- NAME ...`: some writers."""
    _install(session)
    script = "programs/unusual_tables.py"
    for writer in session.posargs or _WRITERS:
        reader = _WRITERS[writer]
        make = ("python", "-m", "harness.testing.conformance.readers", ".nox/readers", reader)
        session.run(*make, silent=True, stderr=None)
        python = str(Path(".nox", "readers", reader, "bin", "python").resolve())
        if writer == "pyiceberg":  # its catalog in memory
            session.run(python, "-m", "pip", "install", "--quiet", "sqlalchemy", external=True)
        place = str(Path("build", "written", writer).resolve())
        session.run(python, script, writer, place, external=True)
        session.run("python", script, "check", place)


def write_matrix(matrix: str) -> None:
    """Puts the matrix into its page, between two marks."""
    page = Path("docs/matrix.md")
    before, start, rest = page.read_text("utf-8").partition("<!-- matrix: written by `nox -s matrix` -->\n")
    _, end, after = rest.partition("<!-- end of matrix -->\n")
    if not end:
        raise ValueError(f"{page} has no marks for the matrix")
    page.write_text(f"{before}{start}{matrix.strip()}\n{end}{after}", "utf-8")


@nox.session
def suite(session: nox.Session) -> None:
    """The suite as data in /tmp/reader-suite, the place that its tables name, and its archive in build/suite."""
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
    """Packs a suite, with the times of its files; the same suite gives the same bytes."""

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


@nox.session
def mutations(session: nox.Session) -> None:
    """Seeded faults in planning, lowering and queries, which scenarios, properties or a test must catch. Slow."""
    _install(session)
    _pytest(session, *_ONE, "-m", "mutation", "programs/mutations")


@nox.session
def nightly(session: nox.Session) -> None:
    """The property tests on new examples for `-- --minutes 60 --seed 3`; failures are left in build/repro."""
    _install(session)
    session.run("python", "programs/nightly.py", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Mutated tables: right rows or a HarnessError. `-- --mutants 200000 --seed 7 --target avro`; see build/fuzz.

    `.ci/run` runs some two minutes of it, with one seed and a number of mutants, so that it fails for a change and not
    by chance: of new mutants one in some twenty thousand still shows damage that harness and the oracle judge
    differently. New seeds are for the night. The tests of the fuzzer itself run first.
    """
    _install(session)
    session.run("python", "-m", "pytest", "-q", *_ONE, "programs/fuzzing")
    session.run("python", "programs/fuzzing/fuzz.py", *session.posargs)


@nox.session(name="fuzz-decoders")
def fuzz_decoders(session: nox.Session) -> None:
    """Atheris on the decoders that take bytes, `-- --seconds 60 --decoder avro`; findings in build/fuzz-decoders."""
    _install(session, "atheris")
    session.run("python", "programs/fuzzing/fuzz_decoders.py", *session.posargs)


@nox.session(name="tests-small")
def tests_small(session: nox.Session) -> None:
    """Every history of up to three operations, and every pair of a file and a delete; `-- --length 4` goes further."""
    _install(session)
    _pytest(session, *_ONE, "-m", "small", "--harness-engines=duckdb,oracle,spark", "tests/exhaustive")


@nox.session
@nox.parametrize("format", ["iceberg", "delta"])
def reference(session: nox.Session, format: str) -> None:
    """Both ways between harness and the reference implementations, whose jars come from Maven Central."""
    pinned = json.loads(Path("harness/testing/conformance/reference.json").read_text(encoding="utf-8"))[format]
    _install(session)
    path = _beside(session, f"pyspark=={pinned['pyspark']}")
    _pytest(session, *_ONE, *_OPEN_SOCKETS, "-m", "reference", f"tests/reference/test_{format}.py", PYTHONPATH=path)


@nox.session(name="tests-spark40")
def tests_spark40(session: nox.Session) -> None:
    """The tests of the Spark engine and of comparisons on Spark, on the oldest pyspark that is supported. Slow."""
    _install(session)
    chosen = ("-k", "spark", "tests/engines", "tests/differ", "tests/queries")
    _pytest(session, *_ONE, *_OPEN_SOCKETS, *chosen, PYTHONPATH=_beside(session, "pyspark==4.0.0"))


@nox.session(name="tests-spark-cluster")
def tests_spark_cluster(session: nox.Session) -> None:
    """Reads by executors in processes of their own, of all scenarios, of S3 by s3a, and on Spark Connect. Slow."""
    _install(session)
    _pytest(
        session, *_ONE, "-m", "cluster", "tests/engines/test_spark_cluster.py", "tests/engines/test_spark_connect.py"
    )
    settings = ("-o", "harness_spark_config=spark.executor.memory=512m")
    executors = ("--harness-spark-master=local-cluster[2,1,1024]", *settings)
    _pytest(session, *_ONE, *executors, "-m", "harness_spark", "tests/testing/test_scenarios.py")
    store = {"PYTHONPATH": _beside(session, *_STORES), "HARNESS_S3A": "1"}
    _pytest(session, *_ONE, "-m", "stores", "tests/stores/test_spark_stores.py", **store)


@nox.session(name="tests-spark-jobs")
@nox.parametrize("pyspark", ["4.0.*", "4.3.*"])
def tests_spark_jobs(session: nox.Session, pyspark: str) -> None:
    """Every form in which a job reads and writes: in harness's session, a user's, and one of Connect. Slow."""
    _install(session)
    session.install(f"pyspark[connect]=={pyspark}")
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
    _install(session)
    scale, arguments = _scale(list(session.posargs))
    place = f"build/tpc/sf{scale}"
    extensions = [f"duckdb-extension-{suite}==1.5.5" for suite in ("tpch", "tpcds")]
    making = _beside(session, "duckdb==1.5.5", *extensions, "--no-deps")
    session.run("python", "programs/tpc/tpc_data.py", place, "--scale", scale, env={"PYTHONPATH": making})
    writers = _beside(session, "deltalake", "pyiceberg[sql-sqlite]")
    session.run("python", "programs/tpc/tpc_tables.py", place, env={"PYTHONPATH": writers})
    script = "programs/tpc/tpc_costs.py" if "--costs" in arguments else "programs/tpc/tpc.py"
    session.run("python", script, place, *(a for a in arguments if a != "--costs"))


@nox.session(name="duckdb-suite")
def duckdb_suite(session: nox.Session) -> None:
    """DuckDB's own SQL tests on both engines, `-- DIRECTORY`, which is `test/sql` of its sources: what differs. Slow.

    `-- DIRECTORY --engine duckdb --only 'window/*'` runs a part.
    """
    session.install("-e", ".[dev]")
    writer = _beside(session, "deltalake")
    session.run("python", "programs/tpc/duckdb_suite.py", *session.posargs, env={"PYTHONPATH": writer})


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
    _install(session)
    path = _beside(session, *_TOOLS[tool]) if _TOOLS[tool] else os.environ.get("PYTHONPATH", "")
    _pytest(session, *_ONE, "-m", "tools", "tests/tools", "-k", tool, PYTHONPATH=path)


@nox.session(name="tests-datafusion")
def tests_datafusion(session: nox.Session) -> None:
    """The scenarios on an engine of another package, which was made by docs/how-to/add-an-engine.md."""
    _install(session)
    package = "tests/engines/datafusion_engine"
    path = _beside(session, "datafusion==55.*", f"./{package}", "--no-deps")
    _pytest(session, *_ONE, "-m", "tools", package, PYTHONPATH=path)


@nox.session
def bench(session: nox.Session) -> None:
    """How fast reads are, beside other readers, into docs/bench; `-- --compare` with the run before.

    Wants an idle machine.
    """
    _install(session)
    session.run("python", "programs/benchmarks/bench.py", *session.posargs)


@nox.session
def backtest(session: nox.Session) -> None:
    """Wrong-row bugs of released readers, each looked for in the release that has it; `-- ID ...`: some of them."""
    _install(session)
    session.run("python", "programs/backtest/backtest.py", *session.posargs)
