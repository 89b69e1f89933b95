"""What is learnt from Parquet footers that nobody may have meant well with."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.engines.shared.data_files import FileName
from harness.engines.shared.duckdb_files import DuckDBFiles
from harness.engines.shared.duckdb_instance import cursor
from harness.engines.shared.footers import codecs
from harness.engines.spark.native_reads import reads_natively
from harness.model.file_schema import PhysicalField
from harness.model.schema import Field, IntegerType
from harness.plan.projection import Stored
from harness.storage.stores import Storage


@pytest.fixture
def crafted(tmp_path: Path) -> str:
    """A file with a column of text that its footer says is one of numbers, beside the size statistics of text.

    pyarrow 26 ends the process where it is asked for the column's chunk: whoever does, ends this test's.
    """
    path = tmp_path / "crafted.parquet"
    table = pa.table({"a": pa.array([1, 2], pa.int32()), "b": pa.array([b"x", b"y"], pa.binary())})
    pq.write_table(table, path, compression="gzip", use_dictionary=False, store_schema=False, write_statistics=False)
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    type_of_text, type_of_numbers = b"\x15\x0c", b"\x15\x02"  # fields 1, BYTE_ARRAY and INT32
    footer = data[start:-8]
    assert footer.count(type_of_text) == 2  # in the schema, and in the chunk
    path.write_bytes(data[:start] + footer.replace(type_of_text, type_of_numbers) + data[-8:])
    return str(path)


def test_codecs_of_a_crafted_footer(crafted: str) -> None:
    assert codecs(DuckDBFiles(cursor(), Storage()), [crafted]) == {"GZIP"}


@pytest.mark.parametrize(("compression", "native"), [("zstd", True), ("brotli", False)])
def test_spark_reads_no_brotli(tmp_path: Path, crafted: str, compression: str, native: bool) -> None:
    other = str(tmp_path / "other.parquet")
    pq.write_table(pa.table({"a": pa.array([1], pa.int32())}), other, compression=compression)
    stored = PhysicalField(name="a", id=1, type=IntegerType(32), children=())
    names = [FileName(path, path) for path in (crafted, other)]
    wanted = (Field(id=1, name="a", type=IntegerType(32)),)
    sources = (Stored(place=0, physical=stored),)
    assert (
        reads_natively("parquet", (stored,), wanted, sources, positions=False, files=names, storage=Storage()) is native
    )


def test_nothing_is_known_of_a_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "none.parquet"
    path.write_bytes(b"PAR1PAR1")
    assert codecs(DuckDBFiles(cursor(), Storage()), [str(path)]) == frozenset()
