"""Footers that were read are not read again, and tell the types that DuckDB shows."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.engines.data_files import FileName
from harness.engines.duckdb.instance import DuckDBFiles
from harness.engines.footers import read_footers
from harness.errors import MissingFileError
from harness.storage.stores import Storage


def test_a_local_file_whose_end_was_read_is_not_looked_at_once_more(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "[a]*.parquet"
    pq.write_table(pa.table({"id": [1, 2]}), path)
    access = DuckDBFiles(duckdb.connect(), Storage())
    monkeypatch.setattr(Storage, "fault", lambda self, path: "it was looked at")
    assert read_footers(access, [FileName(str(path), str(path))], table="t")[str(path)].rows == 2
    assert access.listed([str(path)]) == f"['{tmp_path}/[[]a][*].parquet']"
    with pytest.raises(MissingFileError, match="it was looked at"):
        access.listed([str(tmp_path / "other.parquet")])


SHOWN = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("ms"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
    "DECIMAL(9,2)": pa.decimal128(9, 2),
    "DECIMAL(38,10)": pa.decimal128(38, 10),
}


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (SHOWN, tuple(SHOWN)),
        ({"t": pa.timestamp("us")}, ("TIMESTAMP",)),
        ({"ä": pa.int64(), "Ö": pa.int64()}, ("BIGINT", "BIGINT")),
        ({"a": pa.int64(), "A": pa.int64()}, None),  # DuckDB gives the second another name
        ({"": pa.int64()}, None),
        ({"a": pa.binary()}, None),  # text, where a connection says so
        ({"a": pa.list_(pa.int64())}, None),
        ({"a": pa.struct({"a": pa.int64()})}, None),
        ({"a": pa.int64(), "m": pa.map_(pa.string(), pa.int64())}, None),
        ({"a": pa.uint32()}, None),
    ],
)
def test_types_that_a_footer_tells_are_those_that_the_binder_shows(
    tmp_path: Path, columns: dict[str, pa.DataType], shown: tuple[str, ...] | None
) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.schema(list(columns.items())).empty_table(), path)
    access = DuckDBFiles(duckdb.connect(), Storage())
    footer = read_footers(access, [FileName(path, path)], table="t")[path]
    assert footer.shown == shown
    if shown is not None:
        bound = access.connection.sql(f"SELECT * FROM read_parquet('{path}')")
        assert bound.columns == list(columns)
        assert tuple(map(str, bound.types)) == shown
