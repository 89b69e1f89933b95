"""Engines by name: built-in engines, and engines that packages register."""

import sys
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pyarrow as pa
import pytest

import harness
from harness.engines.registry import GROUP, Engine, engine_names, find_engine, start_engines
from harness.metadata.model.schema import arrow_field

STARTED: list[str] = []
FAKE = SimpleNamespace(
    name="fake",
    version=lambda: "1",
    dialect="postgres",
    start=lambda: STARTED.append("fake"),
    to_arrow=lambda plan: pa.schema([arrow_field(f) for f in plan.columns]).empty_table(),
    query=lambda text, plans: pa.table({"text": [text], "plans": [len(plans)]}),
    lifetimes=True,
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    engines = SimpleNamespace(fake=FAKE, bare=SimpleNamespace(name="bare"), whole=Engine(**vars(FAKE)))
    monkeypatch.setitem(sys.modules, "fake_engine", engines)  # type: ignore[arg-type]
    values = {name: f"fake_engine:{name}" for name in vars(engines)} | {"gone": "no_such_module", "duckdb": "gone"}
    points = [EntryPoint(name, value, GROUP) for name, value in values.items()]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points if group == GROUP else [])


def test_a_package_registers_an_engine_and_takes_no_name_of_harness() -> None:
    found = find_engine("fake")
    assert (found.name, found.to_arrow, found.query, found.count) == ("fake", FAKE.to_arrow, FAKE.query, None)
    assert find_engine("whole") == found
    assert find_engine("duckdb").name == "duckdb"
    assert engine_names() == ("duckdb", "spark", "oracle", "bare", "fake", "gone", "whole")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "Unknown engine 'none': did you mean gone?"),
        ("gone", "Cannot use the engine gone: No module named 'no_such_module'"),
        ("bare", "Cannot use the engine bare: fake_engine:bare has no version or to_arrow"),
    ],
)
def test_an_invalid_engine_is_refused(name: str, message: str) -> None:
    with pytest.raises(harness.RequestError) as caught:
        find_engine(name)
    assert caught.value.message == message


def test_an_engine_is_started_once_for_a_command() -> None:
    STARTED.clear()
    start_engines(["fake", "duckdb", "fake"])
    assert STARTED == ["fake"]


def test_compare_and_sql_find_a_registered_engine(make) -> None:  # type: ignore[no-untyped-def]
    t = make({"id": "long"})
    t.append(t.write_data([{"id": 1}]))
    table = harness.open_table(t.location)
    found = harness.compare(table, table, engines=("duckdb", "fake"))
    assert (found.left.rows, found.right.rows, found.right.engine) == (1, 0, "fake 1")
    asked = harness.sql("SELECT id FROM orders", {"orders": table}, engine="fake", dialect="postgres")
    assert asked.column("plans").to_pylist() == [1]
    with pytest.raises(harness.RequestError, match="in the dialect duckdb on fake: it accepts postgres"):
        harness.sql("SELECT id FROM orders", {"orders": table}, engine="fake")
    with pytest.raises(harness.RequestError, match="on oracle: it only reads plans"):
        harness.sql("SELECT id FROM orders", {"orders": table}, engine="oracle")
