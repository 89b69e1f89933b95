"""The floor, which is hardly possible to beat: DuckDB's plain reads of files, and plain decoding of metadata."""

from collections.abc import Callable, Sequence

import duckdb


def versions() -> str:
    """Return the version of DuckDB, and of pyarrow, which makes the Arrow tables."""
    import pyarrow as pa

    return f"duckdb {duckdb.__version__}, pyarrow {pa.__version__}"


def query(
    files: Sequence[str], select: str, where: str | None = None, threads: int | None = None
) -> Callable[[], list[int]]:
    connection = duckdb.connect(config={} if threads is None else {"threads": threads})
    text = f"SELECT {select} FROM read_parquet({files!r}){'' if where is None else f' WHERE {where}'}"
    return lambda: [int(value) for value in connection.sql(text).fetchall()[0][:3]]


def arrow(files: Sequence[str], columns: Sequence[str]) -> Callable[[], list[int]]:
    connection = duckdb.connect()
    text = f"SELECT {', '.join(columns)} FROM read_parquet({files!r})"
    return lambda: [connection.sql(text).to_arrow_table().num_rows]


def stream(files: Sequence[str], columns: Sequence[str]) -> Callable[[], list[int]]:
    connection = duckdb.connect()
    text = f"SELECT {', '.join(columns)} FROM read_parquet({files!r})"
    return lambda: [sum(batch.num_rows for batch in connection.sql(text).to_arrow_reader(100_000))]


def small(tables: Sequence[Sequence[str]]) -> Callable[[], None]:
    connection = duckdb.connect()
    texts = [f"SELECT * FROM read_parquet({list(files)!r}, union_by_name = true)" for files in tables]

    def read() -> None:
        for text in texts:
            connection.sql(text).to_arrow_table()

    return read


def twice(files: Sequence[str], select: str) -> Callable[[], None]:
    """Scan twice, as a comparison of two tables must."""
    connection = duckdb.connect()
    text = f"SELECT {select} FROM read_parquet({files!r})"

    def read() -> None:
        for _ in range(2):
            connection.sql(text).fetchall()

    return read


def both_ends(ends: Sequence[Sequence[str]], select: str) -> Callable[[], None]:
    """Scan the files of both ends of a range of changes."""
    connection = duckdb.connect()
    texts = [f"SELECT {select} FROM read_parquet({files!r})" for files in ends]

    def read() -> None:
        for text in texts:
            connection.sql(text).fetchall()

    return read


def manifests(files: Sequence[str]) -> Callable[[], None]:
    """Read and decompress the blocks of manifests without decoding them."""
    import fastavro

    def read() -> None:
        for file in files:
            with open(file, "rb") as opened:
                for _ in fastavro.block_reader(opened):
                    pass

    return read


def checkpoint(files: Sequence[str]) -> Callable[[], None]:
    """Read the columns of a checkpoint as Arrow without converting them."""
    import pyarrow.parquet as pq

    def read() -> None:
        for file in files:
            pq.read_table(file)

    return read
