"""The modules that typical uses import: heavy modules are imported only if they are needed.

One process per format runs all uses, the lightest first.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.suite.scenarios.building import build
from harness.suite.scenarios.loading import find
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

pytestmark = pytest.mark.slow

HEAVY = {
    "asyncio",
    "duckdb",
    "fastavro",
    "fsspec",
    "numpy.ma",
    "pandas",
    "pyarrow",
    "pyarrow.dataset",
    "pyarrow.orc",
    "pyarrow.parquet",
    "pyspark",
    "pytest",
    "rich",
    "rich.console",
    "sqlglot",
    "yaml",
    "harness.metadata.delta",
    "harness.metadata.iceberg",
    "harness.engines.duckdb.engine",
    "harness.engines.spark.engine",
    "harness.suite.oracle",
    "harness.metadata.delta.changes",
    "harness.metadata.deletes.loading",
    "harness.metadata.plan.encoding",
    "harness.metadata.files.avro",
    "harness.metadata.files.orc",
    "harness.engines.spark.transpile",
    "harness.diff.compare",
    "harness.testing",
    "harness.writing",
}

_WALK = """
import json, sys
from dataclasses import is_dataclass
heavy, location = set(json.loads(sys.argv[1])), sys.argv[2]
def seen():
    return sorted(heavy & set(sys.modules))
import harness
walk = {"import": seen()}
table = harness.open_table(location)
walk["open"] = seen()
assert harness.sql("SELECT count(*) n, sum(id)::bigint FROM t x", {"t": table}).fetchall() == [(2, 3)]
walk["sql"] = seen()
walk["compiled at import"] = sorted({
    c.__name__ for m in list(sys.modules.values()) if m.__name__.startswith("harness") for c in vars(m).values()
    if isinstance(c, type) and is_dataclass(c) and "__setattr__" in vars(c)
    and vars(c)["__setattr__"].__module__ != "harness.storage.records"
})
assert table.snapshot().to_arrow().num_rows == 2
walk["rows"] = seen()
from harness.cli import main
assert main(["info", location]) == 0
assert main(["sql", "SELECT count(*) FROM t", "--table", f"t={location}", "--format", "csv"]) == 0
walk["commands"] = seen()
assert harness.sql("SELECT id FROM t WHERE id > 1", {"t": table}).fetchall() == [(2,)]
walk["filter"] = seen()
sys.modules["pyspark"] = None  # as if it were not installed
from harness import *
for start in (spark_session, lambda: table.snapshot().to_spark()):
    try:
        start()
    except RequestError as error:
        assert "pip install" in str(error), error
walk["every name"] = seen()
print(json.dumps(walk))
"""


@pytest.mark.parametrize(
    ("make", "opened"),
    [(DeltaTable, {"pyarrow", "harness.metadata.delta"}), (IcebergTable, {"pyarrow", "harness.metadata.iceberg"})],
)
def test_a_journey_imports_what_it_needs(tmp_path: Path, make: Any, opened: set[str]) -> None:
    table = make.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}, {"id": 2}]))
    command = [sys.executable, "-c", _WALK, json.dumps(sorted(HEAVY)), str(tmp_path / "t")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    walk = json.loads(printed.splitlines()[-1])
    # Callers make `Limits`, and the reference shows its arguments. `PlannedScan` extends another dataclass.
    assert walk.pop("compiled at import") == ["Limits", "PlannedScan"]
    query = opened | {"duckdb", "harness.engines.duckdb.engine"}
    every = {*walk.pop("every name")}
    found = {journey: set(modules) for journey, modules in walk.items()}
    assert "harness.engines.spark.engine" not in every
    assert found == {
        "import": set(),
        "open": opened,
        "sql": query,
        "rows": query,
        "commands": query | {"click", "rich"} & found["commands"],
        "filter": found["commands"] | {"sqlglot"},
    }


_READS = """
import json, sys
import harness
loads = {}
for name, location, at, opening, reads in json.loads(sys.stdin.read()):
    for columns, where in reads:
        harness.open_table(location, **opening).snapshot(at).to_arrow(columns=columns, where=where)
        loads[f"{name}, {where}"] = sorted({"pandas", "numpy.ma"} & set(sys.modules))
print(json.dumps([(read, loaded) for read, loaded in loads.items() if loaded][:1]))
"""


def test_no_kind_of_read_imports_pandas_or_masked_arrays(tmp_path: Path) -> None:
    """Neither is needed. pyarrow imports pandas (0.2 s) for the first Python value that it converts.

    NumPy imports its masked arrays (0.03 s) for `unique` of a list or an array.
    """
    pytest.importorskip("pandas")
    names = {
        "iceberg/deletes/equality-deletes-in-avro-and-orc",
        "iceberg/deletes/stream-of-upserts",
        "iceberg/deletes/extra-columns-in-equality-delete",
        "iceberg/deletes/many-vectors-in-one-puffin",
        "iceberg/deletes/moved-table-v2",
        "iceberg/types/geographies",
        "iceberg/deletes/shared-position-delete-files",
        "iceberg/deletes/positions-over-row-groups",
        "iceberg/pruning/summary-cut-short",
        "iceberg/types/variants",
        "delta/catalog/deletes-in-staged-commits",
        "delta/deletion-vectors/shared-file",
        "delta/partitions/only-partition-columns",
        "delta/log/empty-table",
        "delta/partitions/every-type",
        "iceberg/partitions/identity-of-every-type",
    }
    tables: list[Any] = []
    for scenario in find():
        if scenario.name in names:
            built = build(scenario, tmp_path / scenario.name)
            reads = [(e.columns, e.where) for e in built.expectations if isinstance(e.expected, pa.Table)]
            expectation = built.expectations[0]
            tables.append((scenario.name, built.address, expectation.at.moment, expectation.opening, reads))
    assert {name for name, *_, reads in tables if reads} == names
    command = [sys.executable, "-W", "ignore", "-c", _READS]
    run = subprocess.run(command, input=json.dumps(tables), capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(run.stdout) == []
