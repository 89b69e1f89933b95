"""PyIceberg."""

from collections.abc import Callable, Sequence
from importlib.metadata import version

from pyiceberg.table import StaticTable


def versions() -> str:
    return ", ".join(f"{name} {version(name)}" for name in ("pyiceberg", "pyarrow"))


def sums(metadata: str) -> Callable[[], list[int]]:
    """Return count(*), sum(k), and sum(id), computed from Arrow, because PyIceberg has no SQL."""

    def read() -> list[int]:
        import pyarrow.compute as pc

        rows = StaticTable.from_metadata(metadata).scan(selected_fields=("k", "id")).to_arrow()
        return [rows.num_rows, pc.sum(rows["k"]).as_py(), pc.sum(rows["id"]).as_py()]

    return read


def appends(metadata: str, start: int) -> Callable[[], list[int]]:
    """Return the answer for the changes of a range of appends. PyIceberg reads no other changes."""

    def read() -> list[int]:
        import pyarrow.compute as pc

        rows = StaticTable.from_metadata(metadata).incremental_append_scan(from_snapshot_id_exclusive=start).to_arrow()
        return [rows.num_rows, 0, pc.sum(rows["id"]).as_py()]

    return read


def arrow(metadata: str, columns: Sequence[str]) -> Callable[[], list[int]]:
    return lambda: [StaticTable.from_metadata(metadata).scan(selected_fields=tuple(columns)).to_arrow().num_rows]


def small(metadata: Sequence[str]) -> Callable[[], list[int]]:
    return lambda: [sum(StaticTable.from_metadata(at).scan().to_arrow().num_rows for at in metadata)]


def plan(metadata: str, where: str | None = None) -> Callable[[], list[int]]:
    def read() -> list[int]:
        table = StaticTable.from_metadata(metadata)
        return [len(list((table.scan() if where is None else table.scan(row_filter=where)).plan_files()))]

    return read
