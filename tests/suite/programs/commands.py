"""Run commands of `harness.suite.commands` as a user would, in an interpreter that has the reader.

    python commands.py READER < COMMANDS

COMMANDS contains lines of JSON, [file, command]. The rows of each command are written to its file as an Arrow stream.
An error is written to FILE.error.
"""

import importlib
import json
import os
import sys
from pathlib import Path

import pyarrow as pa


def _duckdb(script: str) -> object:
    import duckdb

    load, _, select = script.partition("\n")
    connection = duckdb.connect()
    for name in {"iceberg": ("avro", "iceberg"), "delta": ("delta",)}[load.removesuffix(";").rpartition(" ")[2]]:
        package = importlib.import_module(f"duckdb_extension_{name}")  # INSTALL would use the network
        (file,) = Path(str(package.__file__)).parent.rglob(f"{name}.duckdb_extension")
        connection.load_extension(str(file))
    return connection.sql(select)


def _clickhouse(script: str) -> object:
    os.chdir("/")
    import chdb

    return chdb.query(script.removesuffix(";"), "ArrowTable")


def _python(code: str) -> object:
    found: list[object] = []
    exec(code, {"print": found.append})
    return found[0]


def _spark(code: str) -> object:
    from pyspark.sql import SparkSession
    from pyspark.sql.classic.dataframe import DataFrame

    words = code.partition("\n")[0].split()
    builder = SparkSession.builder.config("spark.jars.packages", words[words.index("--packages") + 1])
    for i in (i for i, word in enumerate(words) if word == "--conf"):
        builder = builder.config(*words[i + 1].split("=", 1))
    found: list[object] = []
    DataFrame.show = lambda self, truncate: found.append(self.toArrow())
    exec(code, {"spark": builder.config("spark.ui.enabled", "false").getOrCreate()})
    return found[0]


_RUNNERS = {"DuckDB": _duckdb, "ClickHouse": _clickhouse, "Spark": _spark}

for _line in sys.stdin:
    _file, _command = json.loads(_line)
    try:
        _rows = pa.RecordBatchReader.from_stream(_RUNNERS.get(sys.argv[1], _python)(_command)).read_all()
    except Exception as _error:
        Path(f"{_file}.error").write_text(f"{type(_error).__name__}: {_error}", "utf-8")
        continue
    with pa.OSFile(_file, "wb") as _sink, pa.ipc.new_stream(_sink, _rows.schema) as _writer:
        _writer.write_table(_rows)
