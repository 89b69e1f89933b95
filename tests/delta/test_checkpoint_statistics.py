"""Lazily read statistics of checkpoints: they belong to the right files, and damaged ones are not used."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.errors import CorruptFileError
from harness.metadata.delta.checkpoint_files import STATS_STRUCT
from harness.metadata.delta.checkpoint_statistics import CheckpointPart, CheckpointStatistics
from harness.storage.limits import DEFAULT
from harness.writing.delta.builder import DeltaTable

STRUCT = pa.struct([("numRecords", pa.int64()), ("minValues", pa.struct([("id", pa.int64()), ("a.b", pa.int64())]))])


def part(first: int, adds: list[dict[str, object] | None], *, texts: bool = True) -> CheckpointPart:
    """Return a checkpoint file with row groups of two rows."""
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


def test_statistics_are_returned_in_the_order_of_the_requested_rows():
    parts = [part(0, [add("a"), None, add("c"), add("d"), add("e")]), part(5, [None, add("g")])]
    assert read(parts, [6, 0, 3, 4], []) == [("g", None), ("a", None), ("d", None), ("e", None)]


@pytest.mark.parametrize("texts", [True, False])
def test_structs_are_read_for_rows_without_text_and_only_requested_fields(texts):
    parts = [part(0, [None, add(None, 1), add("c" if texts else None, 2), add(None, 3)], texts=texts)]
    (_, second), (_, fourth) = read(parts, [1, 3], [("numRecords",), ("minValues", "id")])
    assert second == {"numRecords": 1, "minValues": {"id": 2}}
    assert fourth == {"numRecords": 3, "minValues": {"id": 4}}


def test_a_name_with_a_dot_is_not_a_path():
    ((_, found),) = read([part(0, [add(None, 1)])], [0], [("numRecords",), ("minValues", "a.b")])
    assert found["minValues"]["a.b"] == 3


@pytest.mark.parametrize("stats_json", [False, True], ids=["structs", "structs beside one text"])
def test_bounds_in_int96_beyond_the_range_of_nanos_lose_no_row(tmp_path, stats_json):
    """Databricks writes INT96 bounds. In nanoseconds, the year 2960 would become 1791 (delta F10)."""
    within = {"type": "struct", "fields": [{"name": "at", "type": "timestamp", "nullable": True, "metadata": {}}]}
    table = DeltaTable.create(tmp_path / "t", {"id": "long", "at": "timestamp", "in": within})
    far, near = (datetime(year, 5, 1, tzinfo=UTC) for year in (2960, 2020))
    table.append(*(table.write_data([{"id": i, "at": at, "in": {"at": at}}]) for i, at in enumerate((far, near))))
    table.checkpoint(stats_json=stats_json, stats_parsed=True)
    (path,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    actions = pq.read_table(path)
    if stats_json:
        rows = actions.to_pylist()
        next(row for row in rows if row["add"])["add"]["stats"] = None
        actions = pa.Table.from_pylist(rows, actions.schema)
    pq.write_table(actions, path, use_deprecated_int96_timestamps=True)
    snapshot = harness.open_table(str(tmp_path / "t")).snapshot()
    for where in ("at = TIMESTAMPTZ '2960-05-01 00:00:00Z'", "\"in\".at > TIMESTAMPTZ '2900-01-01 00:00:00Z'"):
        assert snapshot.to_arrow(columns=["id"], where=where).column("id").to_pylist() == [0]
        assert snapshot.plan(where=where).files.num_rows == 1
    harness.open_table(str(tmp_path / "t")).pull(tmp_path / "slice", where="id = 0")
    pulled = harness.open_table(str(tmp_path / "slice")).snapshot()
    assert pulled.to_arrow(columns=["at"], where="at > TIMESTAMPTZ '2900-01-01 00:00:00Z'").to_pylist() == [{"at": far}]


def viewed(type_: pa.DataType) -> pa.DataType:
    """Return the type with string views at every level, as delta-rs holds texts in memory."""
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(viewed(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(viewed(type_.key_type), viewed(type_.item_type))
    return pa.string_view() if pa.types.is_string(type_) else type_


@pytest.mark.parametrize("stats_json", [True, False], ids=["texts", "structs"])
def test_the_arrow_layout_of_a_checkpoint_does_not_matter(tmp_path, stats_json):
    table = DeltaTable.create(tmp_path / "t", {"s": "string"}, configuration={"a": "b"})
    table.append(*(table.write_data([{"s": text}]) for text in "abc"))
    table.checkpoint(stats_json=stats_json, stats_parsed=True)
    table.expire_log(table.version)
    (path,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    actions = pq.read_table(path)
    names, columns = actions.column_names, [column.cast(viewed(column.type)) for column in actions.columns]
    pq.write_table(pa.table(columns, names), path)
    snapshot = harness.open_table(str(tmp_path / "t")).snapshot()
    assert snapshot.plan(where="s = 'b'").files.num_rows == 1
    assert sorted(snapshot.to_arrow().column("s").to_pylist()) == ["a", "b", "c"]


def damaged(folder: Path) -> tuple[str, bytes]:
    """A table whose checkpoint has statistics that cannot be decoded, and the bytes of the intact checkpoint."""
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


def test_damaged_statistics_of_an_untrusted_table_are_an_error(tmp_path):
    location, whole = damaged(tmp_path)
    with pytest.raises(CorruptFileError, match="Cannot read statistics in the checkpoint"):
        harness.open_table(location, untrusted=True).snapshot().plan()
    (path,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    path.write_bytes(whole)
    assert (
        harness.open_table(location, untrusted=True).snapshot().plan(where="id = 25").files.num_rows == 6
    )  # no file is skipped
