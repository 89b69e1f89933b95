"""Other projects' readers, each a script that `harness.testing.conformance.worker` serves in an interpreter that has
it.

A script imports its engine and nothing of harness, because the engines' packages clash with harness's and with each
other's. Each asks its engine for the rows in the way that its documentation shows, without work-arounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from harness.testing.conformance.workers import WorkerScript

_HERE = Path(__file__).parent
PINNED = json.loads((_HERE / "reference.json").read_text(encoding="utf-8"))
"""By format: the pyspark, packages and settings of its reference implementation."""


def _reader(name: str, modules: tuple[str, ...], install: str) -> WorkerScript:
    script = _HERE / f"{name.replace('-', '_')}_reader.py"
    return WorkerScript(name=name, script=script, modules=modules, install=install)


def _reference(format: str) -> WorkerScript:
    install = f"pyspark=={PINNED[format]['pyspark']} pyarrow 'pandas<3'"
    script = _HERE / "spark_reference_reader.py"
    return WorkerScript(
        name=f"spark-{format}", script=script, modules=("pyspark",), install=install, arguments=(format,)
    )


_ALL = (
    _reader("pyiceberg", ("pyiceberg",), "'pyiceberg[pyarrow]'"),
    _reader("deltalake", ("deltalake",), "deltalake"),
    _reader("polars", ("polars", "pyiceberg", "deltalake"), "polars 'pyiceberg[pyarrow]' deltalake"),
    _reader("daft", ("daft", "pyiceberg", "deltalake"), "daft 'pyiceberg[pyarrow]' deltalake"),
    _reader(
        "duckdb-iceberg",
        ("duckdb_extension_iceberg", "duckdb_extension_avro"),
        "duckdb==1.5.5 duckdb-extension-iceberg duckdb-extension-avro",
    ),
    _reader("duckdb-delta", ("duckdb_extension_delta",), "duckdb==1.5.5 duckdb-extension-delta"),
    _reference("iceberg"),
    _reference("delta"),
)

READERS: Mapping[str, WorkerScript] = {reader.name: reader for reader in _ALL}
"""By name of the engine."""
