"""Random histories of commits with every kind of delete, read by DuckDB and held against a plain model of the rules.

The model keeps rows as Python values with the file, the position and the sequence number that they were written with,
and kills them by the words of iceberg 4.3 to 4.7, 4.26 and 4.29. It knows no manifest and no bitmap.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.engines.duckdb import engine, lowering, sparse
from harness.engines.duckdb.engine import Use
from harness.engines.shared import key_sets
from harness.engines.shared.duckdb_instance import cursor
from harness.table import open_table
from harness.writing.iceberg.builder import DataFileHandle, IcebergTable

SCHEMA = {"id": "int", "s": "string", "p": "int"}
FILTERS: dict[str, Callable[[Any], bool]] = {
    "id > 1": lambda r: r.id is not None and r.id > 1,
    "id = 1 OR s = 'a'": lambda r: r.id == 1 or r.s == "a",
    "s IS NULL": lambda r: r.s is None,
    "NOT (s = 'b')": lambda r: r.s is not None and r.s != "b",
    "p = 1": lambda r: r.p == 1,
    "p IS NULL OR id < 2": lambda r: r.p is None or (r.id is not None and r.id < 2),
    "_pos >= 2": lambda r: r.position >= 2,
    "_pos = 0 AND id IN (0, 3)": lambda r: r.position == 0 and r.id in (0, 3),
    "id <> 2 AND p IN (0, 1)": lambda r: r.id not in (None, 2) and r.p in (0, 1),
}
VALUES = {
    "id": lambda r: r.id,
    "s": lambda r: r.s,
    "p": lambda r: r.p,
    "_pos": lambda r: r.position,
    "_file": lambda r: r.path,
    "_row_id": lambda r: r.row_id,
}
KEY_SETS = (("id",), ("s",), ("s", "id"), ("p", "id"), ("p",))
FORMATS = st.sampled_from(["parquet", "parquet", "parquet", "avro", "orc"])


@dataclass(eq=False)
class Row:
    id: int | None
    s: str | None
    p: int | None
    path: str = ""
    position: int = -1
    sequence_number: int = 0
    spec_id: int = 0
    row_id: int | None = None
    dead: bool = False

    def values(self) -> dict[str, Any]:
        return {"id": self.id, "s": self.s, "p": self.p}


@dataclass(repr=False)
class Model:
    """A table under construction, what its rows must be, and in `log` how it came about."""

    table: IcebergTable
    version: int
    rows: dict[DataFileHandle, list[Row]] = field(default_factory=dict)
    vectors: dict[DataFileHandle, tuple[DataFileHandle, set[int]]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    sequence_number: int = 0
    next_row_id: int = 0

    def __repr__(self) -> str:
        return "\n".join([f"Model of version {self.version}", *self.log])

    def commit(self, draw: st.DrawFn) -> None:
        self.sequence_number += 1
        adds: list[DataFileHandle] = []
        removes: list[DataFileHandle] = []
        if not self.rows or draw(st.booleans()):
            adds += self.write_data(draw)
        if self.rows and draw(st.booleans()):
            (adds, removes) = self.delete_positions(draw, adds, removes)
        for _ in range(draw(st.sampled_from([0, 1, 1, 2]))):
            adds += self.delete_keys(draw)
        if adds:
            self.table.commit(add=adds, remove=removes, operation="overwrite")
        else:
            self.sequence_number -= 1

    def write_data(self, draw: st.DrawFn) -> list[DataFileHandle]:
        made = []
        row = st.builds(Row, st.none() | st.integers(0, 3), st.sampled_from(["a", "b", "A", None]), st.none())
        spec_id = draw(st.sampled_from([0, 1]))  # one a commit: row ids follow manifests, which hold one spec each
        for content in draw(st.lists(st.lists(row, min_size=1, max_size=7), min_size=1, max_size=3)):
            p, format_ = draw(st.sampled_from([0, 1, None])), draw(FORMATS)
            for r in content:
                r.p = p
            more: dict[str, Any] = {"row_group_size": draw(st.integers(1, 4))} if format_ == "parquet" else {}
            columns = ["id", "s", "p"]
            if spec_id == 0 and draw(st.booleans()):
                columns = ["s", "id"]  # p comes from the partition alone
            partition = {"p": p} if spec_id == 0 else {}
            handle = self.table.write_data(
                [r.values() for r in content],
                columns=columns,
                spec_id=spec_id,
                partition=partition,
                format=format_,
                **more,
            )
            for position, r in enumerate(content):
                r.path, r.position, r.spec_id = handle.path, position, spec_id
                r.sequence_number = self.sequence_number
                if self.version >= 3:
                    r.row_id = self.next_row_id + position
            self.next_row_id += len(content)
            self.rows[handle] = content
            made.append(handle)
            rows = [(r.id, r.s, r.p) for r in content]
            self.log.append(
                f"{self.sequence_number}: {format_} {columns} {partition} {more} {rows} in {handle.file.name}"
            )
        return made

    def delete_positions(
        self, draw: st.DrawFn, adds: list[DataFileHandle], removes: list[DataFileHandle]
    ) -> tuple[list[DataFileHandle], list[DataFileHandle]]:
        chosen = draw(st.lists(st.sampled_from(list(self.rows)), min_size=1, max_size=3, unique=True))
        dead = {f: draw(st.sets(st.integers(0, len(self.rows[f]) - 1), min_size=1)) for f in chosen}
        if self.version >= 3:
            for f in chosen:
                if f in self.vectors:
                    old, positions = self.vectors[f]
                    removes = [*removes, old] if old not in removes else removes
                    dead[f] |= positions
            for f, vector in zip(dead, self.table.write_deletion_vectors(dead), strict=True):
                self.vectors[f] = (vector, dead[f])
                adds = [*adds, vector]
        else:
            for _, members in itertools.groupby(sorted(chosen, key=place), key=place):
                pairs = [(f, p) for f in members for p in dead[f]]
                format_ = draw(FORMATS)
                adds = [
                    *adds,
                    self.table.write_position_deletes(draw(st.permutations(pairs)), ordered="as given", format=format_),
                ]
        for f, positions in dead.items():
            self.log.append(f"{self.sequence_number}: positions {sorted(positions)} of {f.file.name}")
            for position in positions:
                self.rows[f][position].dead = True
        return adds, removes

    def delete_keys(self, draw: st.DrawFn) -> list[DataFileHandle]:
        keys = draw(st.sampled_from(KEY_SETS))
        spec_id = draw(st.sampled_from([0, 1]))
        p = draw(st.sampled_from([0, 1, None]))
        partition = {"p": p} if spec_id == 0 else {}
        key = {
            "id": st.none() | st.integers(0, 3),
            "s": st.sampled_from(["a", "b", "A", None]),
            "p": st.sampled_from([0, 1, None]) if spec_id else st.just(p),
        }
        gone = draw(st.lists(st.fixed_dictionaries({k: key[k] for k in keys}), max_size=3))
        handle = self.table.write_equality_deletes(
            keys, gone, spec_id=spec_id, partition=partition, format=draw(FORMATS)
        )
        self.log.append(f"{self.sequence_number}: keys {gone} of {keys} {'everywhere' if spec_id else partition}")
        matched = {tuple(row[k] for k in keys) for row in gone}
        for row in itertools.chain.from_iterable(self.rows.values()):
            in_scope = row.sequence_number < self.sequence_number and (
                spec_id == 1 or (row.spec_id == 0 and row.p == p)
            )
            if in_scope and tuple(row.values()[k] for k in keys) in matched:
                row.dead = True
        return [handle]

    def expected(self, columns: list[str], where: str | None) -> list[tuple[Any, ...]]:
        live = [r for r in itertools.chain.from_iterable(self.rows.values()) if "_deleted" in columns or not r.dead]
        chosen = [r for r in live if where is None or FILTERS[where](r)]
        values = {**VALUES, "_deleted": lambda r: r.dead}
        return sorted((tuple(values[c](r) for c in columns) for r in chosen), key=repr)


def place(f: DataFileHandle) -> str:
    return repr((f.spec_id, f.data_file["partition"]))


@st.composite
def models(draw: st.DrawFn) -> Model:
    version = draw(st.sampled_from([2, 3]))
    directory = Path(tempfile.mkdtemp(prefix="harness"))
    table = IcebergTable.create(directory / "t", SCHEMA, format_version=version, partition_spec=[("p", "identity")])
    table.set_partition_spec([])
    model = Model(table, version)
    weakref.finalize(model, shutil.rmtree, directory)
    for _ in range(draw(st.integers(2, 7))):
        model.commit(draw)
    return model


@st.composite
def queries(draw: st.DrawFn) -> tuple[list[str], str | None]:
    columns = draw(st.lists(st.sampled_from([*VALUES, "_deleted"]), min_size=1, unique=True))
    return columns, draw(st.none() | st.sampled_from(list(FILTERS)))


@settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
@given(model=models(), asked=st.lists(queries(), min_size=1, max_size=3))
def test_rows_are_those_of_the_model(model: Model, asked: list[tuple[list[str], str | None]]) -> None:
    for (columns, where), prune in itertools.product(asked, ("off", "files", "all")):
        plan = open_table(model.table.location, prune=prune).snapshot().plan(columns=columns, where=where)
        expected = model.expected(columns, where)
        assert read(plan) == expected, prune
    columns = ["_file", "_pos", "id"]
    plan, expected = open_table(model.table.location).snapshot().plan(columns=columns), model.expected(columns, None)
    con = cursor()
    engine.register(plan, con, "v", use=Use.VIEW)
    assert sorted(con.execute("SELECT * FROM v").fetchall(), key=repr) == expected
    assert con.execute("SELECT count(*) FROM v").fetchall() == [(len(expected),)]
    assert read(plan, pooled=True) == expected
    assert read(plan, joined=True) == expected


def read(plan: Any, *, pooled: bool = False, joined: bool = False) -> list[tuple[Any, ...]]:
    """The rows. pooled: one anti join for all equality deletes. joined: files are joined by position, two together.

    Then keys of equality deletes are padded too, few as they are.
    """
    with pytest.MonkeyPatch.context() as patch:
        if joined:
            patch.setattr(sparse, "padding", lambda keys, probes: 3)
            patch.setattr(
                lowering,
                "runs",
                lambda arms, *_: [
                    [tuple(range(len(counts))[i::3]) for i in range(min(3, len(counts)))] for counts in arms
                ],
            )
        if pooled:
            patch.setattr(key_sets, "joins_by_set", lambda plan: False)
        arrow = engine.to_arrow(plan)
    return sorted(zip(*[c.to_pylist() for c in arrow.columns], strict=True), key=repr)
