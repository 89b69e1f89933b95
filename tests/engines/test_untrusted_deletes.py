"""False statements of an untrusted table about files and rows skip no delete, with and without `prune="off"`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from footer_edits import edit

import harness
from harness.errors import CorruptDeleteError
from harness.metadata.plan.deletes import FILE_PATH_ID
from harness.writing.iceberg.builder import IcebergTable
from harness.writing.iceberg.files import IcebergFile

ALL = [{"id": i, "name": None if i == 4 else f"n{i}"} for i in range(6)]
LONG = 8

StatisticsEdit = Callable[[IcebergFile, IcebergFile, IcebergFile], None]
"""An edit of the statistics of the data file, another data file, and the delete file."""


def edit_statistics(file_index: int, **statements: dict[int, Any]) -> StatisticsEdit:
    """Replace statistics of one of the three files by name and field id. None removes a statistic."""

    def edit(*files: IcebergFile) -> None:
        for name, values in statements.items():
            true = {pair["key"]: pair["value"] for pair in files[file_index].data_file.get(name) or ()}
            pairs = {**true, **values}.items()
            files[file_index].data_file[name] = [
                {"key": key, "value": value} for key, value in pairs if value is not None
            ]

    return edit


def number(value: int) -> bytes:
    return value.to_bytes(LONG, "little", signed=True)


def bounded(file_index: int) -> StatisticsEdit:
    """Bounds of `id` that exclude all rows of the table."""
    return edit_statistics(file_index, lower_bounds={1: number(7)}, upper_bounds={1: number(9)})


def all_null(file_index: int, rows: int) -> StatisticsEdit:
    """Counts that make every `id` null. Bounds next to them would contradict the counts."""
    return edit_statistics(
        file_index, value_counts={1: rows}, null_value_counts={1: rows}, lower_bounds={1: None}, upper_bounds={1: None}
    )


EQUALITY: dict[str, tuple[list[dict[str, Any]], list[int], StatisticsEdit]] = {
    "nulls of the data": ([{"id": 2}], [0, 1, 3, 4, 5], all_null(0, rows=6)),
    "nulls of the delete": ([{"id": 2}], [0, 1, 3, 4, 5], all_null(2, rows=1)),
    "no null in the data": ([{"name": None}], [0, 1, 2, 3, 5], edit_statistics(0, null_value_counts={2: 0})),
    "no null in the delete": (
        [{"name": None}],
        [0, 1, 2, 3, 5],
        edit_statistics(2, null_value_counts={2: 0}, lower_bounds={2: b"x"}, upper_bounds={2: b"x"}),
    ),
    "bounds of the data": ([{"id": 2}], [0, 1, 3, 4, 5], bounded(0)),
    "bounds of the delete": ([{"id": 2}], [0, 1, 3, 4, 5], bounded(2)),
    "bounds of a text": (
        [{"name": "n2"}],
        [0, 1, 3, 4, 5],
        edit_statistics(2, lower_bounds={2: b"x"}, upper_bounds={2: b"y"}),
    ),
}


def equality(folder: Path, name: str) -> tuple[str, list[int]]:
    keys, expected, edit = EQUALITY[name]
    table = IcebergTable.create(folder / "t", {"id": "long", "name": "string"})
    data, other = table.write_data(ALL), table.write_data([{"id": 50, "name": "n50"}])
    delete = table.write_equality_deletes(list(keys[0]), keys)
    edit(data, other, delete)
    table.append(data, other)
    table.commit(add=[delete])
    return table.location, [*expected, 50]


def elsewhere(data: IcebergFile, other: IcebergFile, delete: IcebergFile) -> None:
    """Bounds of a path before all paths of the table."""
    path = data.data_file["file_path"].encode()
    edit_statistics(2, lower_bounds={FILE_PATH_ID: path[:-9] + b"\0"}, upper_bounds={FILE_PATH_ID: path[:-9] + b"\0"})(
        data, other, delete
    )


def of_another(data: IcebergFile, other: IcebergFile, delete: IcebergFile) -> None:
    path = other.data_file["file_path"].encode()
    edit_statistics(2, lower_bounds={FILE_PATH_ID: path}, upper_bounds={FILE_PATH_ID: path})(data, other, delete)


def positions(folder: Path, edit: StatisticsEdit) -> tuple[str, list[int]]:
    table = IcebergTable.create(folder / "t", {"id": "long", "name": "string"})
    data, other = table.write_data(ALL), table.write_data([{"id": 50, "name": "n50"}])
    delete = table.write_position_deletes([(data, 2)])
    edit(data, other, delete)
    table.append(data, other)
    table.commit(add=[delete])
    return table.location, [0, 1, 3, 4, 5, 50]


def ids(location: str, engine: str = "duckdb", **options: Any) -> list[int]:
    snapshot = harness.open_table(location, **options).snapshot()
    return sorted(snapshot.to_arrow(columns=["id"], engine=engine)["id"].to_pylist())


def check(location: str, expected: list[int], engine: str) -> None:
    assert [ids(location, engine, untrusted=True, prune=prune) for prune in ("all", "files", "off")] == [expected] * 3


ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.harness_spark)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", EQUALITY)
def test_no_statistic_skips_an_equality_delete(name: str, engine: str, tmp_path: Path) -> None:
    location, expected = equality(tmp_path, name)
    assert ids(location) != expected  # the reader accepts this risk
    check(location, expected, engine)


FOOTERS: dict[str, dict[int, Any]] = {"nulls": {3: 2}, "bounds": {5: number(10**6 + 1), 6: number(10**6)}}
"""Statistics of the only chunk by field: 3 null_count, 5 and 6 the bounds."""


@pytest.mark.parametrize("where", [None, "id < 10"])
@pytest.mark.parametrize("name", FOOTERS)
def test_no_statistic_of_a_footer_skips_a_delete(name: str, where: str | None, tmp_path: Path) -> None:
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    delete = table.write_equality_deletes(["id"], [{"id": 2}, {"id": 3}])
    table.append(table.write_data([{"id": i} for i in range(6)]))
    table.commit(add=[delete])
    edit(delete.file, {(4, 0, 1, 0, 3, 12, field): value for field, value in FOOTERS[name].items()})
    snapshot = harness.open_table(table.location, untrusted=True).snapshot()
    assert sorted(snapshot.to_arrow(where=where)["id"].to_pylist()) == [0, 1, 4, 5]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("edit", [elsewhere, of_another])
def test_no_bound_of_paths_skips_a_position_delete(edit: StatisticsEdit, engine: str, tmp_path: Path) -> None:
    check(*positions(tmp_path, edit), engine)


def test_a_delete_file_for_another_file_than_it_says(tmp_path: Path) -> None:
    def edit(data: IcebergFile, other: IcebergFile, delete: IcebergFile) -> None:
        delete.data_file["referenced_data_file"] = str(other.data_file["file_path"])

    location, _ = positions(tmp_path, edit)
    for where in (None, "id < 10"):
        with pytest.raises(CorruptDeleteError, match=r"is for data file .* but has rows for"):
            harness.open_table(location, untrusted=True).snapshot().to_arrow(where=where)
