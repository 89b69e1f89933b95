"""Write unusual tables with another project's writer, and run `harness check` on them.

`python unusual_tables.py WRITER DIR` writes one table per folder of DIR, in an interpreter that has the writer and
pyarrow but not harness. `python unusual_tables.py check DIR ...` prints the findings at level data.
"""

import atexit
import datetime as dt
import math
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

_Write = Callable[[str, pa.Table, "str | None"], None]
"""A function that writes a table by name, partitioned by a column or unpartitioned."""
_SUITE = Path(__file__).parents[1] / "harness" / "suite"
_US = pa.timestamp("us", "UTC")


def tables() -> Iterator[tuple[str, pa.Table]]:
    """Yield the tables by name. Tables whose names start with `part` are partitioned by their column `p`."""
    columns = {**_numbers(), **_texts(), **_moments()}
    yield from ((name, pa.table({"v": values})) for name, values in columns.items())
    yield "beside_nulls", pa.table({"id": [1, 2], "v": pa.array([None, None], pa.int64())})
    yield "part", pa.table({"p": ["a", "b", None, "a/b", "%20"], "id": [1, 2, 3, 4, 5]})
    yield "part_ts", pa.table({"p": pa.array([1700000000123456, -1], _US), "id": [1, 2]})
    yield "many", pa.table({"id": range(5000), "s": [f"{i:09d}" * 5 for i in range(5000)]})


def _numbers() -> dict[str, pa.Array]:
    decimals = {
        "dec5": (5, 1, "-1.5", None),
        "dec9": (9, 2, "0.1", "0.3"),
        "dec17": (17, 2, "900719925474099.31", "900719925474099.39"),
        "dec38": (38, 0, "9" * 38, "-" + "9" * 38),
        "dec38s": (38, 38, "0." + "1" * 38),
    }
    return {
        "nan": pa.array([1.0, math.nan, 2.0]),
        "all_nan": pa.array([math.nan, math.nan]),
        "nan_null": pa.array([math.nan, None, 1.0]),
        "zero": pa.array([-0.0, 0.0]),
        "neg_zero": pa.array([-0.0]),
        "inf": pa.array([math.inf, -math.inf, 1.0]),
        "f32": pa.array([0.1, 3.4, math.nan], pa.float32()),
        "f32_small": pa.array([1e-40, 3.4028235e38], pa.float32()),
        "int8": pa.array([-128, 127], pa.int8()),
        "int32": pa.array([-(2**31), 2**31 - 1], pa.int32()),
        "int64": pa.array([2**63 - 1, -(2**63)]),
        "int64_odd": pa.array([2**53 + 1, 2**53 + 3]),
        "bool": pa.array([True, False, None]),
        "empty": pa.array([], pa.int64()),
        **{
            name: pa.array([text and Decimal(text) for text in texts], pa.decimal128(precision, scale))
            for name, (precision, scale, *texts) in decimals.items()
        },
    }


def _texts() -> dict[str, pa.Array]:
    """Return texts and bytes, many longer than bounds, with characters of two UTF-16 units where bounds are cut."""
    smile, last = "\U0001f600", "\U0010ffff"
    return {
        "long_text": pa.array(["a" * 100, "b" * 200]),
        "surrogate": pa.array(["x" * 31 + smile * 5, "x" * 30 + smile * 9]),
        "last_char": pa.array([last * 40, last * 41]),
        "emoji": pa.array([smile * 40]),
        "empty_text": pa.array(["", "a", None]),
        "nul_text": pa.array(["a\0b", "a"]),
        "all_null": pa.array([None, None], pa.string()),
        "binary": pa.array([b"\xff" * 40, b"\x00", b""]),
        "fixed": pa.array([b"\xff" * 20, b"\x00" * 20], pa.binary(20)),
        "uuid": pa.array([uuid.UUID(int=2**128 - 1).bytes, uuid.UUID(int=1).bytes], pa.uuid()),
        "struct": pa.array([{"a": 1, "b": "x"}, {"a": None, "b": None}, None]),
        "struct_nan": pa.array([{"a": math.nan}, {"a": 1.0}]),
        "list": pa.array([[1, 2], [], None]),
        "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    }


def _moments() -> dict[str, pa.Array]:
    """Return times in microseconds around the epoch, the first and last year, and the calendar change of 1582."""
    return {
        "ts": pa.array([-1, 0, 1, 999], _US),
        "ts_edge": pa.array([-62135596800000000, 253402300799999999], _US),
        "ts_old": pa.array([-12219292800000001, -12219292799999999], _US),
        "ts_within_ms": pa.array([1700000000123456, 1700000000123999], _US),
        "ntz": pa.array([1700000000123456, -1], pa.timestamp("us")),
        "date": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 4)]),
    }


def _deltalake(root: Path) -> _Write:
    from deltalake import write_deltalake

    return lambda name, table, by: write_deltalake(root / name, table, partition_by=by)


def _polars(root: Path) -> _Write:
    import polars as pl

    def write(name: str, table: pa.Table, by: str | None) -> None:
        options = {"partition_by": [by]} if by else None
        pl.DataFrame(table).write_delta(str(root / name), delta_write_options=options)

    return write


def _pyiceberg(root: Path) -> _Write:
    from pyiceberg.catalog.memory import InMemoryCatalog

    catalog = InMemoryCatalog("memory")
    catalog.create_namespace("tables")

    def write(name: str, table: pa.Table, by: str | None) -> None:
        target = catalog.create_table(f"tables.{name}", schema=table.schema, location=(root / name).as_uri())
        if by:
            with target.update_spec() as spec:
                spec.add_identity(by)
        target.append(table)

    return write


def _sail(format: str) -> Callable[[Path], _Write]:
    def writer(root: Path) -> _Write:
        from pysail.spark import SparkConnectServer
        from pyspark.sql import SparkSession

        server = SparkConnectServer()
        server.start()
        atexit.register(server.stop)  # keeps the server alive until then
        spark = SparkSession.builder.remote(f"sc://localhost:{server.listening_address[1]}").getOrCreate()
        return lambda name, table, by: _saved(spark, format, root / name, table, by)

    return writer


def _spark_delta(root: Path) -> _Write:
    spark = _started("delta")
    return lambda name, table, by: _saved(spark, "delta", root / name, table, by)


def _spark_iceberg(root: Path) -> _Write:
    """Return a writer with Apache Iceberg on Spark, in a catalog of folders whose namespace is the last part of the
    root.
    """
    spark = _started("iceberg")
    spark.conf.set("spark.sql.catalog.folders", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.folders.type", "hadoop")
    spark.conf.set("spark.sql.catalog.folders.warehouse", str(root.parent))

    def write(name: str, table: pa.Table, by: str | None) -> None:
        frame = spark.createDataFrame(table).coalesce(1)
        writer = frame.writeTo(f"folders.`{root.name}`.`{name}`")
        (writer.partitionedBy(frame[by]) if by else writer).create()

    return write


def _started(format: str) -> Any:
    """Start a Spark session with the jars and settings of the readers."""
    sys.path.insert(0, str(_SUITE))
    from other_readers import _started

    return _started(format)


def _saved(spark: Any, format: str, place: Path, table: pa.Table, by: str | None) -> None:
    written = spark.createDataFrame(table).coalesce(1).write.format(format)
    (written.partitionBy(by) if by else written).save(str(place))


WRITERS: dict[str, Callable[[Path], _Write]] = {
    "deltalake": _deltalake,
    "polars": _polars,
    "pyiceberg": _pyiceberg,
    "sail-delta": _sail("delta"),
    "sail-iceberg": _sail("iceberg"),
    "spark-delta": _spark_delta,
    "spark-iceberg": _spark_iceberg,
}
"""The writers by name."""


def write_all(writer: str, root: Path) -> None:
    """Empty the root, write every table below it, and print the tables that the writer refuses."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    write = WRITERS[writer](root.resolve())
    for name, table in tables():
        try:
            write(name, table, "p" if name.startswith("part") else None)
        except Exception as error:  # a refusal, in whatever class the writer uses
            shutil.rmtree(root / name, ignore_errors=True)
            print(f"{writer} does not write {name}: {type(error).__name__}: {str(error).strip()[:120]!r}")


def check_all(root: Path) -> None:
    """Print the findings for each table below the root, and the number of tables with findings."""
    from harness import open_table

    places = sorted(path for path in root.iterdir() if path.is_dir())
    count = 0
    for place in places:
        is_iceberg = (place / "metadata").is_dir()
        report = open_table(str(place), allow_version_guess=is_iceberg).check(level="data")
        count += bool(report.findings)
        for each in report.findings:
            field_text = f"{each.breach.place.field} of {each.breach.place.column}: {each.breach.recorded}"
            print(f"{root.name} {place.name}: {each.rule.id}: {field_text}; {each.breach.actual or each.breach.detail}")
        for sentence in report.unchecked:
            print(f"{root.name} {place.name}: {sentence}")
    print(f"{root.name}: findings on {count} of {len(places)} tables")


if __name__ == "__main__":
    _action, *_roots = sys.argv[1:]
    for _root in _roots:
        if _action == "check":
            check_all(Path(_root))
        else:
            write_all(_action, Path(_root))
