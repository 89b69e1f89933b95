"""Run the 22 queries of TPC-H and the 99 of TPC-DS on both engines, over tables of both formats, and compare with
DuckDB.
    python programs/tpc/tpc.py build/tpc/sf0.1 [--engine spark] [--suite tpcds] [--query 64] [--format delta]

The right result is that of DuckDB over the rows themselves, in Parquet files. The program prints for each engine and
format how many results are equal (including types), how many are within the allowances of the query (`allowances`), how
many differ, and how many are refused, with the reasons. It exits with 1 if a result differs or a query fails.
`tpc_data` and `tpc_tables` make the input.
"""

import argparse
import json
import sys
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from tpc_compare import Agreement, compare_rows

import harness
from harness.engines.duckdb.relations import output_list
from harness.engines.spark.engine import conform
from harness.engines.spark.types import ARROW_METADATA
from harness.errors import HarnessError
from harness.queries.allowances import allowances

SUITES, FORMATS, ENGINES = ("tpch", "tpcds"), ("delta", "iceberg"), ("duckdb", "spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOutcome:
    """The result of a query.

    Attributes:
        verdict: `equal`, `allowed`, `different`, `refused`, or `failed`.
        rows: The number of rows of the right result.
        seconds: CPU seconds on DuckDB, wall seconds on Spark.
    """

    suite: str
    query: int
    format: str
    engine: str
    verdict: str
    reason: str = ""
    rows: int = 0
    seconds: float = 0.0


class PlainTables:
    """A suite's rows in DuckDB, without harness."""

    def __init__(self, place: Path, suite: str) -> None:
        deleted = json.loads((place / "deleted.json").read_text("utf-8"))[suite]
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        for table, values in deleted.items():
            file = place / suite / f"{table}.parquet"
            first = self._connection.sql(f"FROM '{file}'").columns[0]
            condition = f"({first} IN ({', '.join(map(str, values))})) IS NOT TRUE" if values else "true"
            self._connection.execute(f"CREATE VIEW {table} AS FROM '{file}' WHERE {condition}")

    def rows(self, query: str) -> pa.Table:
        """Return the result of a query."""
        return arrow(self._connection.sql(query))


def arrow(relation: duckdb.DuckDBPyRelation) -> pa.Table:
    """Return a result in the types that harness returns, with numbers as column names."""
    outputs = output_list(relation.columns, relation.types)
    result = (relation if outputs is None else relation.project(outputs)).to_arrow_table()
    return result.rename_columns([f"c{i}" for i in range(result.num_columns)])


def collected(frame: Any) -> pa.Table:
    """Return a Spark result in the types in its column metadata, with numbers as column names."""
    schemas = [b64decode(field.metadata[ARROW_METADATA]) for field in frame.schema]
    schema = pa.schema([pa.ipc.read_schema(pa.py_buffer(schema_bytes)).field(0) for schema_bytes in schemas])
    result = conform(frame.toArrow(), schema)
    return result.rename_columns([f"c{i}" for i in range(result.num_columns)])


class Engines:
    """Both engines over a suite's tables in a format."""

    def __init__(self, place: Path, suite: str, format_: str) -> None:
        # PyIceberg's in-memory catalog no longer exists, and left no hint which metadata file is the newest.
        guess = format_ == "iceberg"
        places = sorted((place / format_ / suite).iterdir())
        self.tables = {t.name: harness.open_table(str(t), allow_version_guess=guess) for t in places}

    def rows(self, engine: str, query: str) -> pa.Table:
        """Return the result of a query. It raises the errors of `harness.sql`."""
        if engine == "duckdb":
            return arrow(harness.sql(query, self.tables))
        return collected(harness.sql(query, self.tables, engine="spark", spark=session()))


def session() -> Any:
    """Return a Spark session for few rows and many shuffles."""
    return harness.spark_session(config={"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "4g"})


def outcomes(place: Path, options: argparse.Namespace) -> Iterator[QueryOutcome]:
    """Yield the result of every requested query."""
    for suite in options.suite or SUITES:
        texts = {int(n): text for n, text in json.loads((place / f"{suite}.json").read_text("utf-8")).items()}
        plain = PlainTables(place, suite)
        for format_ in options.format or FORMATS:
            engines = Engines(place, suite, format_)
            for number, text in texts.items():
                if not options.query or number in options.query:
                    right = plain.rows(text)
                    for engine in options.engine or ENGINES:
                        yield _outcome(suite, number, format_, engine, text, right, engines)


def _outcome(
    suite: str, number: int, format_: str, engine: str, text: str, right: pa.Table, engines: Engines
) -> QueryOutcome:
    start = time.process_time() if engine == "duckdb" else time.monotonic()
    try:
        rows = engines.rows(engine, text)
        schemas = {name: table.snapshot().schema for name, table in engines.tables.items()}
        verdict = compare_rows(rows, right, allowances(text, schemas))
    except harness.UnsupportedError as error:
        verdict = Agreement("refused", str(error))
    except (HarnessError, duckdb.Error, pa.ArrowException) as error:
        verdict = Agreement("failed", f"{type(error).__name__}: {str(error).splitlines()[0]}")
    ended = time.process_time() if engine == "duckdb" else time.monotonic()
    return QueryOutcome(
        suite=suite,
        query=number,
        format=format_,
        engine=engine,
        verdict=verdict.word,
        reason=verdict.reason,
        rows=right.num_rows,
        seconds=round(ended - start, 2),
    )


def report(results: list[QueryOutcome]) -> Iterator[str]:
    """Yield counts by suite, engine, and format, followed by the results that are not equal, with reasons."""
    for suite, engine, format_ in sorted({(o.suite, o.engine, o.format) for o in results}):
        group = [o for o in results if (o.suite, o.engine, o.format) == (suite, engine, format_)]
        counts = Counter(o.verdict for o in group)
        words = ", ".join(f"{counts[v]} {v}" for v in ("equal", "allowed", "different", "refused", "failed"))
        empty = sum(o.rows == 0 for o in group)
        yield f"{suite} on {engine}, {format_}: {len(group)} queries, {words}; {empty} without rows"
    for o in results:
        if o.verdict != "equal":
            yield f"  {o.verdict} {o.suite} {o.query} on {o.engine}, {o.format}: {o.reason}"


def main() -> int:
    """Run the program and return the exit code: 1 if a result differs or a query failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("place", type=Path)
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--suite", action="append", choices=SUITES)
    parser.add_argument("--format", action="append", choices=FORMATS)
    parser.add_argument("--query", action="append", type=int)
    options = parser.parse_args()
    place = options.place.resolve()
    results = []
    for outcome in outcomes(place, options):
        results.append(outcome)
        print(f"{outcome.suite} {outcome.query} {outcome.format} {outcome.engine}: {outcome.verdict}", end=" ")
        print(f"{outcome.rows} rows {outcome.seconds} s", flush=True)
    (place / "outcomes.json").write_text(json.dumps([asdict(o) for o in results], indent=1), "utf-8")
    print(*report(results), sep="\n")
    return int(any(o.verdict in ("different", "failed") for o in results))


if __name__ == "__main__":
    sys.exit(main())
