"""DuckDB's own SQL tests, as queries that were written outside this project: SELECTs over tables that Delta can store.

    python programs/tpc/duckdb_suite.py DIRECTORY [--place build/duckdb-suite] [--engine spark] [--only 'window/*']

DIRECTORY is `test/sql` in DuckDB's sources, or a part of it. Each `.test` file runs in a separate process in plain
DuckDB until a query reads tables, which become Delta tables. The right result is the result of plain DuckDB over these
tables, in a new connection. Settings of a file are left out, along with the queries that depend on them, and so are
queries whose results vary, and files with loops. The program prints for each engine how many results are equal
(including names and types), how many are within the allowances of the query, how many differ, and how many are refused,
by reason. It exits with 1 if a result differs or a query fails. It needs the package `deltalake`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from tpc import ENGINES, arrow, collected, session
from tpc_compare import Agreement, compare_rows

import harness
from harness.errors import HarnessError
from harness.queries.allowances import allowances

_ROWS = 3000
"""Results with more rows are left out."""
_FILE_SECONDS, _QUERY_SECONDS = 120, 60
_NOT_FOR_US = re.compile(
    r"\b(random|now|current_\w+|today|uuid|gen_random_uuid|nextval|currval|setseed|getenv|version|hash|typeof|"
    r"(tabl)?e?sample|reservoir\w*|approx\w*|rowid|duckdb_\w+|pg_\w+|sqlite_\w+|information_schema|read_\w+|glob|"
    r"current_setting|getvariable|txid_\w+|alias|pragma_\w+|storage_info|enum_\w+|union_\w+|stats|icu_\w+)\b",
    re.IGNORECASE,
)
"""Queries whose result varies, or that are about the database and not about rows."""
_DELTA_TYPES = re.compile(
    r"(BOOLEAN|TINYINT|SMALLINT|INTEGER|BIGINT|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|VARCHAR|BLOB|DATE|TIMESTAMP|"
    r'TIMESTAMP WITH TIME ZONE|STRUCT|MAP|\[\]|[(),\s]|"[^"]*"|(?<=[(,\s])\w+(?=\s))+'
)
_SETTINGS = re.compile(r"\s*(SET|RESET|PRAGMA)\b", re.IGNORECASE)
_VERDICTS = ("equal", "allowed", "different", "refused", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteCase:
    """A query of a test file.

    Attributes:
        tables: The locations by name.
        right: An Arrow file with the result of plain DuckDB.
    """

    file: str
    query: str
    tables: dict[str, str]
    columns: list[str]
    right: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOutcome:
    """The result of a case on an engine. `verdict` is one of `_VERDICTS`."""

    file: str
    query: str
    engine: str
    verdict: str
    reason: str


def blocks(text: str) -> Iterator[list[str]]:
    """Yield the lines of each statement without comments, starting with its directive."""
    for block in re.split(r"\n[ \t]*\n", text):
        lines = [line for line in block.strip("\n").split("\n") if not line.startswith("#")]
        if lines and lines[0].strip():
            yield lines


def collect(file: Path, name: str, place: Path) -> Iterator[SuiteCase]:
    """Yield the cases of a file, and write tables and results below `place`."""
    text = file.read_text("utf-8", errors="replace")
    if re.search(r"^(foreach|loop|concurrentloop|concurrentforeach|mode skip|require-env|load|restart)\b", text, re.M):
        return
    connection, changes = duckdb.connect(config={"threads": 1}), 0
    exported: dict[tuple[str, int], str] = {}
    for lines in blocks(text):
        directive = lines[0].split()
        sql = "\n".join(lines[1:]).partition("\n----")[0].strip().rstrip(";")
        match directive:
            case ["require", what, *_] if what not in ("noalternativeverify", "skip_reload", "vector_size"):
                return
            case ["statement", *_] if not _SETTINGS.match(sql):
                changes += 1
                _run(connection, sql)
            case ["query", *_] if re.match(r"(SELECT|WITH|FROM|\()", sql, re.I) and not _NOT_FOR_US.search(sql):
                case = _case(connection, sql, name, place, changes, exported)
                if case is not None:
                    yield case
            case _:
                continue


def _run(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    try:
        connection.execute(sql)
    except duckdb.Error:  # the test expects the error, or depends on a setting that is left out
        return


def _case(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    name: str,
    place: Path,
    changes: int,
    exported: dict[tuple[str, int], str],
) -> SuiteCase | None:
    types: dict[str, list[str]] = {}
    for table, type_ in connection.execute(
        "SELECT table_name, data_type FROM duckdb_columns() WHERE schema_name = 'main' AND NOT internal"
    ).fetchall():
        types.setdefault(table, []).append(type_)
    used = [t for t in types if re.search(rf"(?<![\w.']){re.escape(t)}(?![\w('])", sql, re.IGNORECASE)]
    if not used or not all(_DELTA_TYPES.fullmatch(type_) for table in used for type_ in types[table]):
        return None
    try:
        for table in used:
            if (table, changes) not in exported:
                exported[table, changes] = _export(connection, table, place / f"{len(exported)}_{table}")
    except Exception:  # any error of the writer for this table
        return None
    tables = {table: exported[table, changes] for table in used}
    answer = _plain(sql, tables)
    if answer is None:
        return None
    columns, rows = answer
    right = place / f"{len(list(place.glob('*.arrow')))}.arrow"
    with pa.OSFile(str(right), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return SuiteCase(file=name, query=sql, tables=tables, columns=columns, right=str(right))


def _export(connection: duckdb.DuckDBPyConnection, table: str, place: Path) -> str:
    from deltalake import write_deltalake

    write_deltalake(str(place), connection.execute(f'FROM "{table}"').to_arrow_table())
    return str(place)


def _plain(sql: str, tables: dict[str, str]) -> tuple[list[str], pa.Table] | None:
    """Return the result of plain DuckDB over the Delta tables, or None if there is nothing to compare."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    try:
        for name, location in tables.items():
            connection.register("written", harness.open_table(location).snapshot().to_arrow())
            connection.execute(f'CREATE TABLE "{name}" AS FROM written')
        relation = connection.sql(sql)
        rows, again = (arrow(connection.sql(sql)) for _ in range(2))
    except (duckdb.Error, HarnessError, pa.ArrowException):
        return None
    is_same = compare_rows(rows, again, {}).word == "equal"
    return (relation.columns, rows) if is_same and rows.num_rows < _ROWS else None


def outcome(case: SuiteCase, engine: str, spark: Any) -> SuiteOutcome:
    """Read a case on an engine and compare the result."""
    with pa.memory_map(case.right) as source:
        right = pa.ipc.open_file(source).read_all()
    try:
        columns, rows = _rows(case, engine, spark)
        schemas = {name: harness.open_table(location).snapshot().schema for name, location in case.tables.items()}
        verdict = compare_rows(rows, right, allowances(case.query, schemas))
        if columns != case.columns and verdict.word != "different":
            verdict = Agreement("different", f"columns {columns}, expected {case.columns}")
    except harness.UnsupportedError as error:
        verdict = Agreement("refused", str(error))
    except Exception as error:  # no engine may fail like this
        verdict = Agreement("failed", f"{type(error).__name__}: {' '.join(str(error).split())}")
    return SuiteOutcome(
        file=case.file, query=case.query, engine=engine, verdict=verdict.word, reason=verdict.reason[:400]
    )


def _rows(case: SuiteCase, engine: str, spark: Any) -> tuple[list[str], pa.Table]:
    if engine == "duckdb":
        relation = harness.sql(case.query, case.tables)
        return relation.columns, arrow(relation)
    frame = harness.sql(case.query, case.tables, engine="spark", spark=spark)
    stop = threading.Timer(_QUERY_SECONDS, spark.sparkContext.cancelAllJobs)
    stop.start()
    try:
        return frame.columns, collected(frame)
    finally:
        stop.cancel()


def report(results: Sequence[SuiteOutcome]) -> Iterator[str]:
    """Yield counts by engine, followed by the cases that differ or failed, and the reasons of refusals with their
    counts.
    """
    for engine in ENGINES:
        engine_results = [o for o in results if o.engine == engine]
        counts = Counter(o.verdict for o in engine_results)
        yield f"{engine}: {len(engine_results)} queries, " + ", ".join(f"{counts[v]} {v}" for v in _VERDICTS)
        for o in engine_results:
            if o.verdict in ("different", "failed"):
                yield f"  {o.verdict} {o.file}: {' '.join(o.query.split())}: {o.reason}"
        reasons = Counter(_reason(o.reason) for o in engine_results if o.verdict == "refused")
        yield from (f"  {number:4} refused: {reason}" for reason, number in reasons.most_common())


def _reason(text: str) -> str:
    """Return the text of a refusal without its position."""
    return re.sub(r" on Spark with certainly .*|, in: .*|'[^']*'|\d+", "…", text)[:120]


def main() -> int:
    """Run the program and return the exit code: 1 if a result differs or a query failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--place", type=Path, default=Path("build/duckdb-suite"))
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--only", default="**/*", metavar="PATTERN", help="files, below the directory, without .test")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    place = options.place.resolve()
    if options.one is not None:
        _write_cases(options.directory, options.one, place)
        return 0
    results = []
    for case in _cases(options.directory, options.only, place):
        results += [
            outcome(case, engine, session() if engine == "spark" else None) for engine in options.engine or ENGINES
        ]
    (place / "outcomes.json").write_text(json.dumps([asdict(o) for o in results], indent=1), "utf-8")
    print(*report(results), sep="\n")
    return int(any(o.verdict in ("different", "failed") for o in results))


def _cases(directory: Path, only: str, place: Path) -> list[SuiteCase]:
    """Return the cases of all files. Each file is processed by a separate process, which may hang or crash."""
    names = sorted(str(file.relative_to(directory)) for file in directory.glob(f"{only}.test"))

    def parse_file(name: str) -> list[SuiteCase]:
        folder = place / re.sub(r"\W+", "_", name)
        command = [sys.executable, __file__, str(directory), "--place", str(folder), "--one", name]
        if not (folder / "cases.json").exists():
            folder.mkdir(parents=True, exist_ok=True)
            try:
                subprocess.run(command, timeout=_FILE_SECONDS, stderr=subprocess.DEVNULL, check=False)
            except subprocess.TimeoutExpired:
                print(f"{name}: not collected in {_FILE_SECONDS} s")
        cases = folder / "cases.json"
        return [SuiteCase(**case) for case in json.loads(cases.read_text("utf-8"))] if cases.exists() else []

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [case for cases in pool.map(parse_file, names) for case in cases]


def _write_cases(directory: Path, name: str, place: Path) -> None:
    cases = [asdict(case) for case in collect(directory / name, name, place)]
    (place / "cases.json").write_text(json.dumps(cases), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
