"""What the footers of the planned files tell before any row is read: the same warnings from both engines."""

import warnings
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.engines.registry import find_engine
from harness.engines.spark import engine as spark_engine
from harness.errors import HarnessWarning, in_format
from harness.testing.writing.delta.builder import DeltaTable
from harness.testing.writing.iceberg.builder import IcebergTable

ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.harness_spark)]


def read(location: Path, engine: str, request: pytest.FixtureRequest, **how: Any) -> tuple[list[Any], list[str]]:
    """The rows, sorted, and the texts of all warnings."""
    plan = harness.open_table(str(location)).snapshot().plan(**how)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", HarnessWarning)
        if engine == "spark":
            found = spark_engine.to_arrow(plan, request.getfixturevalue("spark"))
        else:
            found = find_engine(engine).to_arrow(plan)
    rows = sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)
    return rows, [str(warning.message) for warning in caught if issubclass(warning.category, HarnessWarning)]


@pytest.mark.parametrize("engine", ENGINES)
def test_delta_files_of_other_names_are_warned_of(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """delta T7, T10: what column mapping would find is not found without it, and one warning says so."""
    t = DeltaTable.create(tmp_path / "t", {"id": "long", "s": "string"})
    names = {"id": "col-1", "s": "col-2"}
    strangers = [t.write_data([{"id": i, "s": "x"}], names=names) for i in (1, 2)]
    t.append(t.write_data([{"id": 0}]), *strangers)
    rows, said = read(t.directory, engine, request)
    assert rows == [(0, None), (None, None), (None, None)]
    assert len(said) == 1
    assert f"{strangers[0].path} (" in said[0]
    assert ", and 1 more files, of table" in said[0]
    assert said[0].endswith("[delta T7]")  # the rule by which the values are null, as iceberg 5.2 is
    assert in_format("iceberg 5.2", "delta") == "delta T7"


@pytest.mark.parametrize("engine", ENGINES)
def test_iceberg_files_of_other_ids_are_warned_of(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """iceberg 5.2: it cannot be told from a table all of whose columns were dropped since, which this one is."""
    t = IcebergTable.create(tmp_path / "t", {"a": "long"})
    old = t.write_data([{"a": 1}])
    t.append(old)
    t.add_column("b", "long")
    t.drop_column("a")
    t.append(t.write_data([{"b": 2}]))
    rows, said = read(t.store.directory, engine, request)
    assert rows == [(2,), (None,)]
    assert len(said) == 1
    assert said[0].startswith(f"Data file {old.path} of table")
    assert said[0].endswith("[iceberg 5.2]")
