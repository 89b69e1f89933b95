"""Drawn files, deletes, runs of files, filters and threads: no row is taken for its neighbour (iceberg 4.15, trap T2).

A filter that reached one side of a positional join, or a scan that gave row groups or files in another order, would
shift positions. Each row knows its place in the table, so a row that is lost or that should be is seen.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from harness.engines.duckdb import lowering
from harness.engines.duckdb import relations as engine
from harness.engines.duckdb.lowering import Run
from harness.engines.duckdb.relations import Use
from harness.metadata.plan.scan_plan import ScanPlan
from harness.table import open_table
from harness.testing.writing.iceberg.builder import IcebergTable

Ids = npt.NDArray[np.int64]
FILTERS: dict[str, Callable[[Ids, Ids], npt.NDArray[np.bool_]]] = {
    "true": lambda ids, at: ids >= 0,
    "id % 3 = 1": lambda ids, at: ids % 3 == 1,
    "id >= 5000": lambda ids, at: ids >= 5000,
    "id BETWEEN 2047 AND 4097": lambda ids, at: (ids >= 2047) & (ids <= 4097),
    "k IS NULL": lambda ids, at: ids % 7 == 0,
    "k = 3 AND id < 9000": lambda ids, at: (ids % 7 == 3) & (ids < 9000),
    "_pos >= 2048": lambda ids, at: at >= 2048,
    "_pos < 10 OR id > 12000": lambda ids, at: (at < 10) | (ids > 12000),
    "id IN (0, 2048, 4096, 6000)": lambda ids, at: np.isin(ids, (0, 2048, 4096, 6000)),
}


@dataclass(frozen=True)
class File:
    rows: int
    row_group: int
    deleted: tuple[int, ...]


@st.composite
def files(draw: st.DrawFn) -> File:
    rows = draw(st.sampled_from([1, 100, 2048, 5000, 7001]))
    last = st.integers(0, rows - 1)
    match draw(st.sampled_from(["none", "ends", "some", "range", "most"])):
        case "none":
            deleted: Sequence[int] = ()
        case "ends":
            deleted = sorted({0, rows - 1})
        case "some":
            deleted = sorted(draw(st.sets(last, max_size=20)))
        case "range":
            start, stop = sorted((draw(last), draw(last)))
            deleted = range(start, stop + 1)
        case _:
            deleted = [i for i in range(rows) if i % 50]
    return File(rows, draw(st.sampled_from([50, 1000, 2048, 3000, 10_000])), tuple(deleted))


def written(directory: Path, drawn: Sequence[File]) -> tuple[IcebergTable, Ids, Ids]:
    """A table of the files, and the number and position of each row that is left."""
    t = IcebergTable.create(directory / "t", {"id": "long", "k": "int"}, format_version=3)
    first, handles, ids, places = 0, [], [], []
    for file in drawn:
        own = np.arange(first, first + file.rows)
        k = pa.array(own % 7, pa.int32(), mask=own % 7 == 0)
        handles.append(t.write_data(pa.table({"id": own, "k": k}), row_group_size=file.row_group))
        left = np.setdiff1d(np.arange(file.rows), file.deleted)
        ids.append(first + left)
        places.append(left)
        first += file.rows
    t.append(*handles)
    dead = {handle: file.deleted for handle, file in zip(handles, drawn, strict=True) if file.deleted}
    if dead:
        t.commit(add=t.write_deletion_vectors(dead))
    return t, np.concatenate(ids), np.concatenate(places)


def filtered(t: IcebergTable, where: str, draw: Callable[[st.SearchStrategy[bool]], bool]) -> ScanPlan:
    """A plan with a filter. Of which files it keeps whole the metadata may lie, at the cost of time and not of rows."""
    plan = open_table(t.location).snapshot().plan(columns=["id"], where=where)
    if draw(st.booleans()):
        return plan
    lie = np.array([draw(st.booleans()) for _ in range(plan.files.num_rows)], dtype=np.bool_)
    return replace(plan, kept_whole=lambda: lie)


def cuts(draw: Callable[[st.SearchStrategy[int]], int]) -> Callable[..., list[list[Run]]]:
    """Runs of drawn files, neighbours or not, in a drawn order."""

    def runs(deleted: Sequence[Sequence[int]], others: int, threads: int) -> list[list[Run]]:
        dealt = []
        for counts in deleted:
            chosen: dict[int, list[int]] = {}
            for place in range(len(counts)):
                chosen.setdefault(draw(st.integers(0, 2)), []).append(place)
            dealt.append([tuple(run) for _, run in sorted(chosen.items())])
        return dealt

    return runs


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=10)
@given(drawn=st.lists(files(), min_size=1, max_size=4), data=st.data())
def test_rows_are_those_that_are_left(drawn: list[File], data: st.DataObject) -> None:
    threads, in_order = data.draw(st.sampled_from([1, 2, 4])), data.draw(st.sampled_from(["true", "false"]))
    directory = Path(tempfile.mkdtemp(prefix="harness"))
    try:
        t, ids, places = written(directory, drawn)
        plan = open_table(t.location).snapshot().plan(columns=["id", "k", "_pos", "_file"])
        with duckdb.connect() as con, pytest.MonkeyPatch.context() as patch:
            con.execute(f"SET threads = {threads}")
            con.execute(f"SET preserve_insertion_order = {in_order}")
            patch.setattr(lowering, "_POSITIONAL_JOIN_VERSIONS", {duckdb.__version__})
            patch.setattr(lowering, "runs", cuts(data.draw))
            engine.register(plan, con, "joined", use=Use.ONCE)
            engine.register(plan, con, "looked_up", use=Use.VIEW)
            event(f"deletes: {any(file.deleted for file in drawn)}")
            for where, keep in FILTERS.items():
                expected = np.sort(ids[keep(ids, places)])
                for view in ("joined", "looked_up"):
                    found = con.execute(f"SELECT id FROM {view} WHERE {where}").fetchnumpy()["id"]
                    assert np.array_equal(np.sort(found), expected), (view, where)
            planned = data.draw(st.sampled_from(sorted(FILTERS)))
            engine.register(filtered(t, planned, data.draw), con, "filtered", use=Use.ONCE)
            found = np.sort(con.execute("SELECT id FROM filtered WHERE id <> 3000").fetchnumpy()["id"])
            expected = np.sort(ids[FILTERS[planned](ids, places)])
            assert np.array_equal(found, expected[expected != 3000]), planned
            counted = con.execute("SELECT count(*), count(k), sum(_pos), count(DISTINCT _file) FROM joined").fetchall()
            alive = sum(file.rows > len(file.deleted) for file in drawn)
            assert counted == [(len(ids), int((ids % 7 != 0).sum()), int(places.sum()) if len(ids) else None, alive)]
    finally:
        shutil.rmtree(directory)
