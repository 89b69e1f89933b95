"""Files that cannot be read, as a frame: who reads one of them fails, and who leaves it out does not.

Filters on the values of a file's partition tuple leave it out, as they do files that can be read.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import StructField, StructType

from harness.engines.shared.arrow_worker import told
from harness.engines.shared.column_values import constant
from harness.engines.shared.union_arms import UnionArm
from harness.engines.spark.columns import Translation
from harness.engines.spark.constants import FileConstants
from harness.engines.spark.gateway import DiskFile, PlannedReads
from harness.engines.spark.types import storage_type


def refused_arm(gateway: PlannedReads, arm: UnionArm) -> DataFrame:
    """The columns of an arm whose files cannot be read, as `c0`, `c1`, ….

    All other columns than those of the partition tuple are stored ones to Spark, so that it takes nothing about them
    for known: a filter that holds for no null would else leave the files out.
    """
    assert arm.group.faults is not None
    constants = FileConstants(len(arm.files))
    translation = Translation(lambda place: functions.col(f"p{place}"), constants)
    expressions: list[Column] = []
    stored: list[StructField] = []
    for f in arm.columns:
        if all(f.id in file.constants for file in arm.files):
            value = constant([file.constants[f.id] for file in arm.files], f.type)
            expressions.append(translation.expression(value))
        else:
            expressions.append(functions.col(f"p{len(stored)}"))
            stored.append(StructField(f"refused{len(stored)}", storage_type(f.type)))
    plan = arm.plan
    faults = [f.within(table=plan.table, snapshot=plan.snapshot, format=plan.format) for f in arm.group.faults]
    frame = gateway.refused_frame(
        read_schema=StructType(stored),
        files=[DiskFile(file.name.physical, 1) for file in arm.files],
        reasons=[str(told(fault)) for fault in faults],
        constants=constants.table(),
    )
    return frame.select(*[expression.alias(f"c{i}") for i, expression in enumerate(expressions)])
