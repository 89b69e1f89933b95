"""Write data and texts of TPC-H and TPC-DS with the DuckDB extensions from PyPI.

    python programs/tpc/tpc_data.py build/tpc/sf0.1 --scale 0.1

Run this in an environment with `duckdb`, `duckdb-extension-tpch`, and `duckdb-extension-tpcds` of one version. It does
not import harness. It writes `<suite>/<table>.parquet` and `<suite>.json`, the texts by number.
"""

import argparse
import json
from importlib.resources import files
from pathlib import Path

import duckdb

SUITES = {"tpch": "dbgen", "tpcds": "dsdgen"}


def make(suite: str, generator: str, place: Path, scale: float) -> None:
    """Write the tables and texts of a suite, unless they exist."""
    texts = place / f"{suite}.json"
    if texts.is_file():
        return
    connection = duckdb.connect()
    package = files(f"duckdb_extension_{suite}")
    connection.execute(f"LOAD '{package / 'extensions' / f'v{duckdb.__version__}' / suite}.duckdb_extension'")
    connection.execute(f"CALL {generator}(sf = {scale})")
    (place / suite).mkdir(parents=True, exist_ok=True)
    for (table,) in connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall():
        connection.execute(f"COPY {table} TO '{place / suite / table}.parquet'")
    queries = connection.execute(f"SELECT query_nr, query FROM {suite}_queries()").fetchall()
    texts.write_text(json.dumps({str(number): text for number, text in queries}, indent=1), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("place", type=Path)
    parser.add_argument("--scale", type=float, default=0.1)
    options = parser.parse_args()
    for suite, generator in SUITES.items():
        make(suite, generator, options.place, options.scale)


if __name__ == "__main__":
    main()
