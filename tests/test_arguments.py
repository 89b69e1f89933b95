"""Arguments of a wrong type raise a harness error that names the argument, not a plain Python error."""

import inspect
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import harness
from harness.errors import RequestError
from harness.types import OpenOptions, TableOptions
from harness.writing.delta.builder import DeltaTable


class Condition:
    """A condition of another library, for example Polars."""

    def __repr__(self) -> str:
        return "condition"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("lake")
    table = DeltaTable.create(lake / "t", {"id": "long", "s": "string"})
    table.append(table.write_data([{"id": 1, "s": "a"}]))
    return lake


CONDITION, CONNECTION = Condition(), object()
WHERE = "Invalid where: got a Condition, expected a condition as SQL text"
CALLS = [
    (lambda t: t.snapshot().plan(where=CONDITION), WHERE),
    (lambda t: t.snapshot().to_arrow(where=CONDITION), WHERE),
    (lambda t: t.snapshot().plan(where=True), "Invalid where: got True"),
    (lambda t: t.snapshot().plan("id"), "Invalid columns: got 'id', expected a list of names"),
    (lambda t: t.snapshot().plan({"id": 1}), "Invalid columns: got a dict, expected a list of names"),
    (lambda t: t.snapshot().plan([CONDITION]), "Invalid columns: got a list, expected a list of names"),
    (lambda t: t.snapshot().to_arrow(engine=["duckdb"]), "Invalid engine: got a list, expected text"),
    (lambda t: t.snapshot().to_duckdb("x"), "Invalid connection: got 'x', expected a DuckDB connection"),
    (lambda t: t.snapshot(True), "Invalid at: got True, expected a snapshot id, a time, or text"),
    (lambda t: t.head(at=0.5), "Invalid at: got 0.5"),
    (lambda t: t.snapshot(when=1), "Unknown argument when of snapshot: its arguments are at"),
    (lambda t: t.snapshot(b"main"), "Invalid at: got b'main', expected a snapshot id, a time, or text"),
    (lambda t: t.changes(0.5), "Invalid from_: got 0.5"),
    (lambda t: t.changes(0, b"main"), "Invalid to: got b'main'"),
    (lambda t: t.changes(0, mode=True), "Invalid mode: got True, expected text"),
    (lambda t: t.changes(0, keys="id"), "Invalid keys: got 'id', expected a list of names"),
    (lambda t: t.changes(0, from_inclusive=1), "Invalid from_inclusive: got 1, expected True or False"),
    (lambda t: t.changes(0, where=CONDITION), WHERE),
    (lambda t: t.metadata(5), "Invalid name: got 5, expected text"),
    (lambda t: harness.open_table(t.location, path_map="a=b"), "Invalid path_map: got 'a=b', expected a mapping"),
    (lambda t: harness.open_table(t.location, storage_options=["a"]), "Invalid storage_options: got a list"),
    (lambda t: harness.open_table(t.location, allowed_roots="/x"), "Invalid allowed_roots: got '/x', expected a list"),
    (lambda t: harness.open_table(t.location, limits={"rows": 1}), r"got a dict, expected harness.Limits\(…\)"),
    (lambda t: harness.open_table(t.location, untrusted="no"), "Invalid untrusted: got 'no', expected True or False"),
    (lambda t: harness.open_table(t.location, prune=None), "Invalid prune: got None"),
    (lambda t: harness.open_table(t.location, max_version=3, ratified=5), "Invalid ratified: got 5"),
    (
        lambda t: harness.open_table(t.location, prunes="off"),
        "Unknown argument prunes of open_table: did you mean prune?",
    ),
    (lambda t: harness.connect({"t": t}, connection=CONNECTION), "Unknown argument connection of connect"),
    (lambda t: harness.connect({5: t}), "Invalid name 5"),
    (lambda t: harness.connect({"t": t}).sql(5), "Invalid query: got 5, expected text"),
    (lambda t: harness.attach(t.location, duckdb.connect()), "Invalid connection: got '/"),
    (lambda t: harness.attach(duckdb.connect(), {"t": t}, tables="t"), "Invalid names: got 't'"),
    (lambda t: harness.sql(None), "Invalid query: got None, expected text"),
    (lambda t: harness.sql("FROM t", {"t": t}, connection="x"), "Invalid connection: got 'x'"),
    (lambda t: harness.detach(5), "Invalid connection: got 5"),
    (lambda t: harness.compare(t, t, keys={"id": 1}), "Invalid keys: got a dict, expected a list of names"),
    (lambda t: harness.compare(t, t, engines=5), "Invalid engines: got 5"),
    (lambda t: harness.compare(t, t, exclude="s"), "Invalid exclude: got 's'"),
    (lambda t: harness.compare(t, t, types={"floats"}), "Invalid types: got a set, expected text"),
    (lambda t: harness.compare(t, t, tolerance=[1]), "Invalid tolerance: got a list, expected a mapping"),
    (lambda t: harness.compare(t, t, max_rows="5"), "Invalid max_rows: got '5'"),
    (lambda t: harness.compare(t, t, where=CONDITION), WHERE),
    (lambda t: harness.Query(5), "Invalid text: got 5"),
    (lambda t: harness.Query("FROM t", [t]), "Invalid tables: got a list, expected a mapping"),
    (lambda t: t.pull(None), "Invalid directory: got None, expected a path"),
    (lambda t: t.pull(""), "Invalid directory: got '', expected a path"),
    (lambda t: t.pull("slice", where=CONDITION), WHERE),
    (lambda t: t.pull("slice", anonymise=True), "Invalid anonymise: got True, expected text"),
    (lambda t: t.pull("slice", where=5), "Invalid where: got 5"),
    (lambda t: harness.read_untrusted(t.location, where=CONDITION), WHERE),
    (lambda t: harness.read_untrusted(t.location, bounds={"threads": 5}), r"expected harness.Bounds\(…\)"),
    (lambda t: harness.open_warehouse(5), "Invalid warehouse: got 5, expected a path"),
    (lambda t: harness.open_unity(5), "Invalid uri: got 5"),
    (lambda t: harness.spark_session(tables=["t"]), "Invalid tables: got a list, expected a mapping"),
]


@pytest.mark.parametrize(("call", "message"), CALLS, ids=[message for _, message in CALLS])
def test_an_argument_of_a_wrong_type_is_named(lake: Path, call: Any, message: str) -> None:
    table = harness.open_table(lake / "t")
    with pytest.raises(RequestError, match=f"^[^\n]*{message}"):
        call(table)


def test_values_that_mean_the_same_are_taken(lake: Path, tmp_path: Path) -> None:
    table = harness.open_table(lake / "t", allowed_roots=[tmp_path], untrusted=np.False_)
    snapshot = table.snapshot(np.int64(1))
    assert snapshot.to_arrow(columns=np.array(["id"])).to_pylist() == [{"id": 1}]
    assert snapshot.plan(columns=(name for name in ["id"])).columns[0].name == "id"
    assert harness.open_warehouse(lake).tables() == (("t",),)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (harness.open_table, OpenOptions),
        (harness.connect, OpenOptions),
        (harness.read_untrusted, TableOptions),
    ],
)
def test_each_option_of_opening_is_an_argument_in_the_signature(function: Any, options: Any) -> None:
    assert options.__annotations__.keys() <= inspect.signature(function).parameters.keys()
    assert TableOptions.__annotations__.keys() <= options.__annotations__.keys()
