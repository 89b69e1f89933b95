"""Measure the CPU costs of harness compared with plain views, and of its Spark SQL compared with sqlglot's, by suite.

    python programs/tpc/tpc_costs.py build/tpc/sf1 --engine duckdb --suite tpch [--rounds 5] [--format delta]

On DuckDB: `harness.sql` over open snapshots, and over locations that are opened for each query, compared with the same
query on views of `read_parquet` of the same data files. deltalake and PyIceberg delete by rewriting files, so all read
the same rows. On Spark: harness's translation of a query compared with sqlglot's, over the same views, after a round
that does not count. All methods take turns for each query, in one process; the minimum of the rounds counts.

The program prints a line for each query, and a line of JSON, which `--record` also adds to docs/bench/tpc.jsonl.
"""

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import sqlglot

import harness
from harness.engines.duckdb.instance import connect
from harness.engines.spark.transpile import queries
from harness.queries.rewrite import rewrite

HISTORY = Path(__file__).parents[2] / "docs" / "bench" / "tpc.jsonl"
Ways: TypeAlias = Mapping[str, Callable[[], object]]
"""The methods of running a query, by name. The others are compared with the first."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("place", type=Path)
    parser.add_argument("--engine", choices=("duckdb", "spark"), required=True)
    parser.add_argument("--suite", choices=("tpch", "tpcds"), required=True)
    parser.add_argument("--format", choices=("delta", "iceberg"), default="delta")
    parser.add_argument("--query", action="append", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    place = options.place.resolve()
    texts = {int(n): text for n, text in json.loads((place / f"{options.suite}.json").read_text("utf-8")).items()}
    tables = sorted((place / options.format / options.suite).iterdir())
    costs = {"duckdb": on_duckdb, "spark": on_spark}[options.engine](tables)
    least = {
        number: measure(f"{options.suite} {number}", costs, text, options.rounds)
        for number, text in texts.items()
        if not options.query or number in options.query
    }
    line = json.dumps(record(options, place.name.removeprefix("sf"), least))
    print(line)
    if options.record:
        with HISTORY.open("a", encoding="utf-8") as history:
            history.write(line + "\n")


class _Costs:
    """The methods of running the queries of a suite on an engine.

    Attributes:
        clock: A function that returns the CPU seconds of the engine.
    """

    def __init__(self, ways: Callable[[str], Ways], clock: Callable[[], float]) -> None:
        self.ways, self.clock = ways, clock


def on_duckdb(tables: list[Path]) -> _Costs:
    """Return plain views, open snapshots, and locations."""
    # PyIceberg's in-memory catalog left no hint which metadata file is the newest.
    guess = tables[0].parent.parent.name == "iceberg"
    opened = {t.name: harness.open_table(str(t), allow_version_guess=guess).snapshot() for t in tables}
    plain = connect(lossless=False)
    for table in tables:
        plan = opened[table.name].plan()
        assert not plan.position_deletes, "plain views would read deleted rows"
        files = [str(table / path.removeprefix("file://")) for path in plan.files.column("path").to_pylist()]
        plain.execute(f"CREATE VIEW {table.name} AS FROM read_parquet({files})")

    def each_time() -> dict[str, Any]:
        if not guess:
            return {t.name: str(t) for t in tables}
        return {t.name: harness.open_table(str(t), allow_version_guess=True) for t in tables}

    def ways(text: str) -> Ways:
        return {
            "plain views": lambda: plain.sql(text).to_arrow_table(),
            "snapshots held": lambda: harness.sql(text, opened).to_arrow_table(),
            "opened each time": lambda: harness.sql(text, each_time()).to_arrow_table(),
        }

    return _Costs(ways, time.process_time)


def on_spark(tables: list[Path]) -> _Costs:
    """Return the translations of sqlglot and of harness."""
    spark = harness.spark_session(config={"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "4g"})
    guess = tables[0].parent.parent.name == "iceberg"
    schemas, frames = {}, {}
    for table in tables:
        snapshot = harness.open_table(str(table), allow_version_guess=guess).snapshot()
        schemas[table.name], frames[table.name] = snapshot.schema, snapshot.to_spark(spark)
        frames[table.name].createOrReplaceTempView(table.name)
    process = int(spark._jvm.java.lang.ProcessHandle.current().pid())

    def clock() -> float:
        user, system = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def run(text: str) -> Callable[[], object]:
        return lambda: spark.sql(text).write.format("noop").mode("overwrite").save()

    def ways(text: str) -> Ways:
        rewritten = rewrite(text, schemas)
        for reference in rewritten.references:
            frames[reference.table].createOrReplaceTempView(reference.view)
        columns = {r.view: {f.name: f.type for f in schemas[r.table].fields} for r in rewritten.references}
        ours = queries.query(rewritten.sql, columns).sql
        return {
            "sqlglot's text": run(sqlglot.transpile(text, read="duckdb", write="spark")[0]),
            "harness's text": run(ours),
        }

    return _Costs(ways, clock)


def measure(title: str, costs: _Costs, text: str, rounds: int) -> dict[str, float]:
    """Return the minimum CPU seconds of a query for each method."""
    ways = costs.ways(text)
    least = dict.fromkeys(ways, float("inf"))
    for turn in range(rounds + 1):
        for name in reversed(ways) if turn % 2 else ways:
            before = costs.clock()
            ways[name]()
            least[name] = min(least[name], costs.clock() - before) if turn else least[name]
    print(title, ", ".join(f"{name} {seconds:.3f} s" for name, seconds in least.items()), flush=True)
    return least


def record(options: argparse.Namespace, scale: str, least: Mapping[int, Mapping[str, float]]) -> dict[str, Any]:
    """Return the content of a line of the history."""
    names = list(next(iter(least.values())))
    sums = {name: sum(seconds[name] for seconds in least.values()) for name in names}
    return {
        "format": 1,
        "kind": "tpc costs",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "--short=10", "HEAD") + ("+" if _git("status", "--porcelain", "harness") else ""),
        "cores": os.cpu_count(),
        "versions": ", ".join(_versions(options.engine)),
        "engine": options.engine,
        "suite": options.suite,
        "scale": scale,
        "table": options.format,
        "queries": len(least),
        "rounds": options.rounds,
        "cpu_s": {name: round(seconds, 3) for name, seconds in sums.items()},
        "ratio": {name: round(seconds / sums[names[0]], 3) for name, seconds in sums.items()},
    }


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout.strip()


def _versions(engine: str) -> Iterator[str]:
    yield f"duckdb {duckdb.__version__}"
    if engine == "spark":
        import pyspark

        yield f"pyspark {pyspark.__version__}"
    yield f"sqlglot {sqlglot.__version__}"


if __name__ == "__main__":
    main()
