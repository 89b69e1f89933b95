"""harness, as a user calls it."""

import contextlib
import io
from collections.abc import Callable, Sequence

import harness


def versions() -> str:
    import duckdb
    import pyarrow as pa

    return f"harness {harness.__version__}, duckdb {duckdb.__version__}, pyarrow {pa.__version__}"


def query(location: str, select: str, where: str | None = None) -> Callable[[], list[int]]:
    """The table is opened and planned each time."""
    text = f"SELECT {select} FROM t{'' if where is None else f' WHERE {where}'}"

    def read() -> list[int]:
        return [int(value) for value in harness.sql(text, {"t": harness.open_table(location)}).fetchall()[0][:3]]

    return read


def planned_before(location: str, select: str, threads: int | None = None) -> Callable[[], list[int]]:
    """The table is planned once, and the relation asked each time."""
    import duckdb

    connection = duckdb.connect(config={} if threads is None else {"threads": threads})
    rows = harness.open_table(location).snapshot().to_duckdb(connection)
    return lambda: [int(value) for value in rows.aggregate(select).fetchall()[0][:3]]


def arrow(location: str, columns: Sequence[str]) -> Callable[[], list[int]]:
    return lambda: [harness.open_table(location).snapshot().to_arrow(columns=columns).num_rows]


def stream(location: str, columns: Sequence[str]) -> Callable[[], list[int]]:
    """The rows as batches, none of which is kept."""

    def read() -> list[int]:
        with harness.open_table(location).snapshot().to_batches(columns=columns) as batches:
            return [sum(batch.num_rows for batch in batches)]

    return read


def plan(location: str, where: str | None = None) -> Callable[[], list[int]]:
    """The process knows nothing of the table, as when it asks for the first time."""
    from harness.storage.decoded import DECODED

    ask = plan_again(location, where)

    def first() -> list[int]:
        DECODED.clear()
        return ask()

    return first


def plan_again(location: str, where: str | None = None) -> Callable[[], list[int]]:
    """The process holds what it decoded of the metadata before."""
    return lambda: [harness.open_table(location).snapshot().plan(where=where).files.num_rows]


def small(locations: Sequence[str]) -> Callable[[], list[int]]:
    return lambda: [sum(harness.open_table(at).snapshot().to_arrow().num_rows for at in locations)]


def compare(left: str, right: str, keys: Sequence[str] = ()) -> Callable[[], list[int]]:
    """1: they are equal."""

    def read() -> list[int]:
        sides = (harness.open_table(at).snapshot() for at in (left, right))
        return [int(harness.compare(*sides, keys=keys).equal)]

    return read


def command(words: Sequence[str]) -> Callable[[], list[int] | None]:
    """The command `harness`; the numbers of the second line that it prints as CSV, else none."""

    def run() -> list[int] | None:
        from harness.cli import main

        printed = io.BytesIO()
        with contextlib.redirect_stdout(io.TextIOWrapper(printed, encoding="utf-8", write_through=True)):
            code = main(list(words))
            lines = printed.getvalue().decode().splitlines()
        if code != 0:
            raise RuntimeError(f"harness {words[0]} ended with {code}")
        return [int(value) for value in lines[1].split(",")] if "csv" in words else None

    return run
