"""Files with GeoParquet metadata, whose binary columns DuckDB parses as geometries and writes anew (frontier F0.2).

GeoPandas writes such metadata, and so does DuckDB's own COPY. Connections of harness's own have the conversion turned
off. On a user's connection no setting is changed: there, such files come in through Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.engines.shared.duckdb_files import DuckDBFiles
from harness.engines.shared.footers import Footer
from harness.model.schema import BinaryType

CONVERSION = "enable_geoparquet_conversion"
"""DuckDB's setting; it has no say on columns that Parquet itself annotates as geometries."""


def converted_files(files: DuckDBFiles, footers: Mapping[str, Footer]) -> frozenset[str]:
    """The physical paths of the files in which DuckDB may convert columns: binary ones at the top level.

    files: opens them. footers: of the files to look at, by physical path.
    """
    ((converts,),) = files.connection.execute(f"SELECT current_setting('{CONVERSION}')").fetchall()
    if not converts:
        return frozenset()
    binary = [path for path, footer in footers.items() if any(isinstance(f.type, BinaryType) for f in footer.schema)]
    if not binary:
        return frozenset()
    paths = {files.name(path): path for path in binary}
    query = f"SELECT file_name FROM parquet_kv_metadata({files.listed(binary)}) WHERE key = 'geo'::BLOB"
    return frozenset(paths[name] for (name,) in files.connection.execute(query).fetchall())
