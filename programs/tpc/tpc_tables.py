"""Write the data of TPC-H and TPC-DS as tables of deltalake and PyIceberg, and delete some rows.

    python programs/tpc/tpc_tables.py build/tpc/sf0.1

Run this in an environment with `deltalake`, `pyiceberg[sql-sqlite]`, and pyarrow. It writes `<format>/<suite>/<table>`,
and `deleted.json` with the values of the first column whose rows were deleted.
"""

import argparse
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

FORMATS = ("delta", "iceberg")
_SUITES = ("tpch", "tpcds")
_SMALL, _DELETED, _FILES = 1_000, 12, 3
"""The rows below which a table keeps all rows, the number of deleted values, and the number of files of a new table."""


def chosen_values(rows: pa.Table) -> list[int]:
    """Return some values of the first column, from its first to its last."""
    if rows.num_rows < _SMALL:
        return []
    values = sorted(pc.unique(rows.column(0)).drop_null().to_pylist())
    return values[:: max(1, len(values) // _DELETED)][:_DELETED]


def pieces(rows: pa.Table) -> list[pa.Table]:
    """Return the rows of each file."""
    size = max(1, -(-rows.num_rows // _FILES))
    return [rows.slice(start, size) for start in range(0, max(1, rows.num_rows), size)]


def write_delta(place: Path, rows: pa.Table, deleted: list[int]) -> None:
    """Write a table with deltalake."""
    import deltalake

    for piece in pieces(rows):
        deltalake.write_deltalake(str(place), piece, mode="append")
    if deleted:
        listed = ", ".join(map(str, deleted))
        deltalake.DeltaTable(str(place)).delete(f"{rows.column_names[0]} IN ({listed})")


def write_iceberg(place: Path, rows: pa.Table, deleted: list[int]) -> None:
    """Write a table with PyIceberg."""
    from pyiceberg.catalog.memory import InMemoryCatalog
    from pyiceberg.expressions import In

    place.parent.mkdir(parents=True, exist_ok=True)
    catalog = InMemoryCatalog("tpc", warehouse=place.parent.as_uri())
    catalog.create_namespace("tpc")
    table = catalog.create_table(f"tpc.{place.name}", schema=rows.schema, location=place.as_uri())
    for piece in pieces(rows):
        table.append(piece)
    if deleted:
        table.delete(In(rows.column_names[0], deleted))


_WRITERS = {"delta": write_delta, "iceberg": write_iceberg}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("place", type=Path)
    place = parser.parse_args().place.resolve()
    record = place / "deleted.json"
    if record.is_file():
        return
    deleted: dict[str, dict[str, list[int]]] = {}
    for suite in _SUITES:
        deleted[suite] = {}
        for file in sorted((place / suite).glob("*.parquet")):
            rows = pq.read_table(file)
            deleted[suite][file.stem] = chosen_values(rows)
            for format_, write in _WRITERS.items():
                write(place / format_ / suite / file.stem, rows, deleted[suite][file.stem])
    record.write_text(json.dumps(deleted, indent=1), "utf-8")


if __name__ == "__main__":
    main()
