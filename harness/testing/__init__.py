"""Tools for tests of your own code.

    from harness.testing import IcebergTable

    table = IcebergTable.create(tmp_path / "orders", {"id": "long", "region": "string"})
    table.append(table.write_data([{"id": 1, "region": "eu"}]))

`plugin` defines the pytest fixtures, `lake` the tables that they make, and `same_rows` their assertion. `jobs` runs
Spark jobs on tables that a test names. `lake_catalog` is a REST catalog that plans scans. Names are imported on first
use.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from harness.testing.jobs.job import SparkJob
    from harness.testing.jobs.tables import Write
    from harness.testing.lake import LakeTable
    from harness.testing.lake_catalog import LakeCatalog
    from harness.testing.literals import SameRows, TableLiteral, literal
    from harness.testing.plan_faults import PlanFault
    from harness.testing.plugin import AssertSameRows, MakeLakeTable
    from harness.testing.same_rows import assert_same_rows
    from harness.testing.session import HarnessSession
    from harness.testing.spark_job import SparkJobTest
    from harness.writing.delta.builder import DeltaTable
    from harness.writing.delta.checkpoint import WrittenCheckpoint
    from harness.writing.delta.files import DeltaFile
    from harness.writing.iceberg.avro import AvroDocument
    from harness.writing.iceberg.builder import IcebergTable
    from harness.writing.iceberg.files import IcebergFile

__all__ = [
    "AssertSameRows",
    "AvroDocument",
    "DeltaFile",
    "DeltaTable",
    "HarnessSession",
    "IcebergFile",
    "IcebergTable",
    "LakeCatalog",
    "LakeTable",
    "MakeLakeTable",
    "PlanFault",
    "SameRows",
    "SparkJob",
    "SparkJobTest",
    "TableLiteral",
    "Write",
    "WrittenCheckpoint",
    "assert_same_rows",
    "literal",
]

_LAZY = {
    "WrittenCheckpoint": "writing.delta.checkpoint",
    "IcebergFile": "writing.iceberg.files",
    "DeltaFile": "writing.delta.files",
    "AvroDocument": "writing.iceberg.avro",
    "AssertSameRows": "testing.plugin",
    "DeltaTable": "writing.delta.builder",
    "HarnessSession": "testing.session",
    "IcebergTable": "writing.iceberg.builder",
    "LakeCatalog": "testing.lake_catalog",
    "LakeTable": "testing.lake",
    "MakeLakeTable": "testing.plugin",
    "PlanFault": "testing.plan_faults",
    "SameRows": "testing.literals",
    "SparkJob": "testing.jobs.job",
    "SparkJobTest": "testing.spark_job",
    "TableLiteral": "testing.literals",
    "Write": "testing.jobs.tables",
    "assert_same_rows": "testing.same_rows",
    "literal": "testing.literals",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from harness import _imported

    return _imported(_LAZY[name], name)


def __dir__() -> list[str]:
    return sorted(__all__)
