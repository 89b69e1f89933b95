"""Files with GeoParquet metadata, whose binary columns DuckDB parses as geometries and writes anew (frontier F0.2).

GeoPandas writes such metadata, and so does DuckDB's own COPY. Connections of harness's own have the conversion turned
off. On a user's connection no setting is changed: there, such files come in through Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from harness.engines import sqltext
from harness.engines.footers import Footer
from harness.schema import BinaryType

CONVERSION = "enable_geoparquet_conversion"
"""DuckDB's setting; it has no say on columns that Parquet itself annotates as geometries."""


def without_conversion(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """The connection, which is harness's own, with the conversion turned off."""
    connection.execute(f"SET {CONVERSION} = false")
    return connection


def converted_files(connection: duckdb.DuckDBPyConnection, footers: Mapping[str, Footer]) -> frozenset[str]:
    """The physical paths of the files in which DuckDB may convert columns: binary ones at the top level.

    footers: of the files to look at, by physical path.
    """
    ((converts,),) = connection.execute(f"SELECT current_setting('{CONVERSION}')").fetchall()
    if not converts:
        return frozenset()
    binary = {
        path: footer.spelling
        for path, footer in footers.items()
        if any(isinstance(f.type, BinaryType) for f in footer.schema)
    }
    if not binary:
        return frozenset()
    listed = sqltext.paths(tuple(binary))
    keys = connection.execute(f"SELECT file_name FROM parquet_kv_metadata({listed}) WHERE key = 'geo'::BLOB").fetchall()
    spelled = {name for (name,) in keys}
    return frozenset(path for path, spelling in binary.items() if spelling in spelled)
