"""Harness, called as users call it."""

import contextlib
import io
from collections.abc import Callable, Sequence

import harness


def versions() -> str:
    import duckdb
    import pyarrow as pa

    return f"harness {harness.__version__}, duckdb {duckdb.__version__}, pyarrow {pa.__version__}"


def query(location: str, select: str, where: str | None = None) -> Callable[[], list[int]]:
    """Open and plan the table each time."""
    text = f"SELECT {select} FROM t{'' if where is None else f' WHERE {where}'}"

    def read() -> list[int]:
        return [int(value) for value in harness.sql(text, {"t": harness.open_table(location)}).fetchall()[0][:3]]

    return read


def planned_before(location: str, select: str, threads: int | None = None) -> Callable[[], list[int]]:
    """Plan the table once, and run the relation each time."""
    import duckdb

    connection = duckdb.connect(config={} if threads is None else {"threads": threads})
    rows = harness.open_table(location).snapshot().to_duckdb(connection)
    return lambda: [int(value) for value in rows.aggregate(select).fetchall()[0][:3]]


def arrow(location: str, columns: Sequence[str]) -> Callable[[], list[int]]:
    return lambda: [harness.open_table(location).snapshot().to_arrow(columns=columns).num_rows]


def stream(location: str, columns: Sequence[str]) -> Callable[[], list[int]]:
    """Read the rows as batches without keeping them."""

    def read() -> list[int]:
        with harness.open_table(location).snapshot().to_batches(columns=columns) as batches:
            return [sum(batch.num_rows for batch in batches)]

    return read


def plan(location: str, where: str | None = None) -> Callable[[], list[int]]:
    """Plan in a process without cached metadata, as for the first read."""
    from harness.storage.decoded import DECODED

    ask = plan_again(location, where)

    def first() -> list[int]:
        DECODED.clear()
        return ask()

    return first


def plan_again(location: str, where: str | None = None) -> Callable[[], list[int]]:
    """Plan in a process with cached metadata."""
    return lambda: [harness.open_table(location).snapshot().plan(where=where).files.num_rows]


def small(locations: Sequence[str]) -> Callable[[], list[int]]:
    return lambda: [sum(harness.open_table(at).snapshot().to_arrow().num_rows for at in locations)]


def compare(left: str, right: str, keys: Sequence[str] = ()) -> Callable[[], list[int]]:
    """Compare two tables. The answer is 1 if they are equal."""

    def read() -> list[int]:
        sides = (harness.open_table(at).snapshot() for at in (left, right))
        return [int(harness.compare(*sides, keys=keys).equal)]

    return read


def read_at(location: str, at: Sequence[int | None], select: str) -> Callable[[], None]:
    """Read the rows of several snapshots or versions, for example of both ends of a range of changes."""

    def read() -> None:
        table = harness.open_table(location)
        for point in at:
            harness.sql(f"SELECT {select} FROM t", {"t": table.snapshot(point)}).fetchall()

    return read


_COUNTS = "count(*) FILTER (_change_type = 'insert'), count(*) FILTER (_change_type = 'delete'), sum(id)"


def changes(location: str, start: int, maxima: Sequence[str]) -> Callable[[], list[int]]:
    """Read the changes of a range, with other columns of the table."""
    select = f"{_COUNTS}, {', '.join(f'max({column})' for column in maxima)}"

    def read() -> list[int]:
        rows = harness.open_table(location).changes(start).to_duckdb()
        return [int(value) for value in rows.aggregate(select).fetchall()[0][:3]]

    return read


def changes_as_batches(location: str, start: int) -> Callable[[], list[int]]:
    """Read all columns of the changes of a range as batches without keeping them."""
    import pyarrow.compute as pc

    def read() -> list[int]:
        inserts = rows = ids = 0
        with harness.open_table(location).changes(start).to_batches() as batches:
            for batch in batches:
                inserts += pc.sum(pc.equal(batch["_change_type"], "insert")).as_py() or 0
                ids += pc.sum(batch["id"]).as_py() or 0
                rows += batch.num_rows
        return [inserts, rows - inserts, ids]

    return read


def changes_to_file(location: str, start: int, memory: str) -> Callable[[], list[int]]:
    """Write the changes of a range to a Parquet file, in a DuckDB instance with little memory."""
    import tempfile

    import duckdb

    def write() -> list[int]:
        with tempfile.TemporaryDirectory() as folder, duckdb.connect(config={"memory_limit": memory}) as connection:
            file = f"{folder}/changes.parquet"
            harness.open_table(location).changes(start).to_duckdb(connection).write_parquet(file)
            return [int(value) for value in connection.read_parquet(file).aggregate(_COUNTS).fetchall()[0]]

    return write


def trace(location: str, where: str) -> Callable[[], list[int]]:
    """Follow the rows that match a condition. The answer is their number."""
    return lambda: [len(harness.open_table(location).trace(where=where).rows)]


def command(words: Sequence[str]) -> Callable[[], list[int] | None]:
    """Run the command `harness`. The answer is the numbers on the second line of its CSV output, if there is one."""

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
