"""Statistics that stay in a checkpoint until a plan asks: of the right files, and of no more than damage leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.delta.checkpoint_statistics import CheckpointPart, CheckpointStatistics
from harness.delta.stats_structs import STATS_STRUCT
from harness.errors import CorruptFileError, HarnessWarning
from harness.limits import DEFAULT
from harness.writing.delta.builder import DeltaTable

STRUCT = pa.struct([("numRecords", pa.int64()), ("minValues", pa.struct([("id", pa.int64()), ("a.b", pa.int64())]))])


def part(first: int, adds: list[dict[str, object] | None], *, texts: bool = True) -> CheckpointPart:
    """A file of row groups of two rows."""
    fields = [("path", pa.string()), *([("stats", pa.string())] if texts else []), (STATS_STRUCT, STRUCT)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"add": pa.array(adds, pa.struct(fields))}), sink, row_group_size=2)
    return CheckpointPart("f", sink.getvalue().to_pybytes(), first, DEFAULT)


def add(text: str | None, rows: int | None = None) -> dict[str, object]:
    parsed = None if rows is None else {"numRecords": rows, "minValues": {"id": rows + 1, "a.b": rows + 2}}
    return {"path": "p", "stats": text, STATS_STRUCT: parsed}


def read(parts: list[CheckpointPart], rows: list[int], structs: list[tuple[str, ...]]) -> list[object]:
    found: dict[int, object] = {}
    for places, table in CheckpointStatistics(tuple(parts)).tables(np.array(rows, dtype=np.int64), structs):
        for place, row in zip(places.tolist(), table.to_pylist(), strict=True):
            found[place] = (row["stats"], row.get(STATS_STRUCT))
    return [found[place] for place in range(len(rows))]


def test_statistics_are_those_of_the_rows_asked_for_in_that_order():
    parts = [part(0, [add("a"), None, add("c"), add("d"), add("e")]), part(5, [None, add("g")])]
    assert read(parts, [6, 0, 3, 4], []) == [("g", None), ("a", None), ("d", None), ("e", None)]


@pytest.mark.parametrize("texts", [True, False])
def test_structs_are_read_where_a_row_has_no_text_and_only_what_is_asked_for(texts):
    parts = [part(0, [None, add(None, 1), add("c" if texts else None, 2), add(None, 3)], texts=texts)]
    (_, second), (_, fourth) = read(parts, [1, 3], [("numRecords",), ("minValues", "id")])
    assert second == {"numRecords": 1, "minValues": {"id": 2}}
    assert fourth == {"numRecords": 3, "minValues": {"id": 4}}


def test_a_name_with_a_dot_is_no_path():
    ((_, found),) = read([part(0, [add(None, 1)])], [0], [("numRecords",), ("minValues", "a.b")])
    assert found["minValues"]["a.b"] == 3


def damaged(folder: Path) -> tuple[str, bytes]:
    """A table whose checkpoint has statistics that no longer decode, and the bytes of the whole checkpoint."""
    table = DeltaTable.create(folder / "t", {"id": "long"})
    table.append(*(table.write_data([{"id": 10 * i}, {"id": 10 * i + 9}]) for i in range(6)))
    table.checkpoint()
    (path,) = (folder / "t" / "_delta_log").glob("*.checkpoint.parquet")
    adds = pq.read_table(path)
    pq.write_table(adds, path, compression="none", use_dictionary=False)
    whole = path.read_bytes()
    metadata = pq.ParquetFile(path).metadata.row_group(0)
    (chunk,) = (
        metadata.column(i) for i in range(metadata.num_columns) if metadata.column(i).path_in_schema == "add.stats"
    )
    start = chunk.data_page_offset
    path.write_bytes(whole[:start] + b"\xff" * 12 + whole[start + 12 :])
    return str(folder / "t"), whole


def test_damaged_statistics_skip_no_file_and_say_so(tmp_path):
    location, _ = damaged(tmp_path)
    snapshot = harness.open_table(location).snapshot()
    with pytest.warns(HarnessWarning, match="Cannot read statistics in the checkpoint") as caught:
        plan = snapshot.plan(where="id = 25")
    assert (plan.files.num_rows, set(plan.files.column("record_count").to_pylist())) == (6, {None})
    assert "files are not skipped by them" in str(caught[0].message)


def test_damaged_statistics_of_an_untrusted_table_are_an_error(tmp_path):
    location, whole = damaged(tmp_path)
    with pytest.raises(CorruptFileError, match="Cannot read statistics in the checkpoint"):
        harness.open_table(location, untrusted=True).snapshot().plan()
    (path,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    path.write_bytes(whole)
    assert harness.open_table(location, untrusted=True).snapshot().plan(where="id = 25").files.num_rows == 1


def test_what_was_skipped_has_its_count_once_it_is_looked_at(tmp_path):
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(*(table.write_data([{"id": i}] * (i + 1)) for i in range(4)))
    table.checkpoint()
    table.append(table.write_data([{"id": 9}] * 7))
    plan = harness.open_table(str(tmp_path / "t")).snapshot().plan(where="id = 2")
    assert plan.files.column("record_count").to_pylist() == [3]
    assert sorted(file.record_count for file in plan.skipped) == [1, 2, 4, 7]
