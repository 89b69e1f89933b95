"""Binary and geometry columns of files that DuckDB would rewrite (frontier F0.1, F0.2), on all connections."""

import json
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.errors import CorruptFileError
from harness.suite.oracle_engine import to_arrow as oracle_arrow
from harness.writing.iceberg.builder import IcebergTable

BIG = bytes.fromhex("00000000013ff00000000000004000000000000000")
LITTLE = bytes.fromhex("0101000000000000000000f03f0000000000000040")
GEO = {"geo": json.dumps({"version": "1.1.0", "primary_column": "b", "columns": {"b": {"encoding": "WKB"}}})}


@pytest.fixture(params=[True, False], ids=["converting", "not converting"])
def connection(request) -> Iterator[duckdb.DuckDBPyConnection]:
    """Return a user's connection with the user's settings."""
    with duckdb.connect() as connection:
        connection.execute(f"SET enable_geoparquet_conversion = {str(request.param).lower()}")
        before = settings(connection)
        yield connection
        assert settings(connection) == before


def settings(connection):
    return connection.execute("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall()


def snapshot(table):
    return harness.open_table(str(table.store.directory)).snapshot()


@pytest.mark.parametrize("order", ["geo first", "geo last"])
def test_binary_on_a_users_connection(connection, tmp_path, order):
    t = IcebergTable.create(tmp_path / "t", {"id": "long", "b": "binary"})
    t.append(
        t.write_data([{"id": 1, "b": BIG}], footer=GEO if order == "geo first" else {}),
        t.write_data([{"id": 2, "b": BIG}, {"id": 3, "b": b"\xff"}], footer=GEO if order == "geo last" else {}),
    )
    relation = snapshot(t).to_duckdb(connection)
    assert sorted(relation.fetchall()) == [(1, BIG), (2, BIG), (3, b"\xff")]
    assert snapshot(t).to_duckdb(connection, columns=["id"], where="id < 2").fetchall() == [(1,)]


def test_a_file_of_duckdbs_own_copy(connection, tmp_path):
    """Copy the file through a table. COPY writes metadata for the GEOMETRY column."""
    t = IcebergTable.create(tmp_path / "t", {"id": "int", "b": "binary"})
    data = t.write_data([{"id": 1, "b": LITTLE}])
    path = t.file_of(data.path)
    with duckdb.connect() as other:
        columns = "1::INTEGER AS id, st_geomfromwkb(from_hex('" + LITTLE.hex() + "')) AS b"
        other.execute(f"COPY (SELECT {columns}) TO '{path}' (FIELD_IDS {{id: 1, b: 2}}, GEOPARQUET_VERSION 'V1')")
    assert b"geo" in pq.read_metadata(path).metadata
    t.append(data)
    assert snapshot(t).to_duckdb(connection).fetchall() == [(1, LITTLE)]
    assert snapshot(t).to_arrow()["b"].to_pylist() == [LITTLE]


class Wkb(pa.ExtensionType):
    """An extension type that makes pyarrow annotate a column as a geometry, whatever its bytes are."""

    def __init__(self):
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self):
        return b"{}"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


@pytest.fixture
def annotated(tmp_path):
    """Create a table with one file whose column g is annotated."""
    pa.register_extension_type(Wkb())
    yield lambda values: annotated_table(tmp_path, values)
    pa.unregister_extension_type("geoarrow.wkb")


def annotated_table(directory, values):
    t = IcebergTable.create(directory / "t", {"id": "long", "g": "geometry"}, format_version=3)
    data = t.write_data([{"id": i} for i, _ in enumerate(values)])
    g = pa.ExtensionArray.from_storage(Wkb(), pa.array(values, pa.binary()))
    ids = [{"PARQUET:field_id": "1"}, {"PARQUET:field_id": "2"}]
    schema = pa.schema([pa.field("id", pa.int64(), metadata=ids[0]), pa.field("g", Wkb(), metadata=ids[1])])
    path = t.file_of(data.path)
    pq.write_table(pa.table([pa.array(range(len(values))), g], schema=schema), path, store_schema=False)
    assert "Geometry" in str(pq.ParquetFile(path).schema.column(1).logical_type)
    t.append(data)
    return t


def test_annotated_geometries_are_equal_everywhere(annotated, connection, spark):
    from harness.engines.spark import engine as spark_engine

    found = snapshot(annotated([BIG, LITTLE, None]))
    expected = [LITTLE, LITTLE, None]
    assert found.to_duckdb(connection).fetchall() == list(enumerate(expected))
    for rows in (found.to_arrow(), oracle_arrow(found.plan()), spark_engine.to_arrow(found.plan(), spark)):
        assert rows["g"].to_pylist() == expected


def test_annotated_bytes_that_are_not_a_geometry(annotated, spark):
    from harness.engines.duckdb import engine as duckdb_engine
    from harness.engines.spark import engine as spark_engine

    plan = snapshot(annotated([LITTLE, LITTLE + b"\0"])).plan()
    for read in (lambda: duckdb_engine.to_arrow(plan), lambda: oracle_arrow(plan)):
        with pytest.raises(CorruptFileError) as caught:
            read()
        assert caught.value.file.endswith(".parquet")
    with pytest.raises(CorruptFileError) as caught:
        spark_engine.to_arrow(plan, spark)
    assert (caught.value.field, caught.value.rule) == ("g", "frontier F1.7")
    assert str(caught.value).startswith(
        "Cannot read file: a geometry is not well-known binary: 1 bytes follow the geometry; restore it "
    )
