"""Reads of scenarios in which Apache Iceberg's reader for Spark does otherwise than harness, with the reason for each.

All were looked into with version 1.12.0. Every other read of every scenario agrees, and these must go on to differ.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """reads: numbers of the scenario's expectations, from 1. reason: what Iceberg does, and why harness does not."""

    reads: tuple[int, ...]
    reason: str


# Damage and forgeries that harness refuses and Iceberg does not look for.
_UNCHECKED = {
    "deletes/equality-delete-without-ids": "takes a delete file without keys as one that deletes every row",
    "deletes/vector-beyond-the-file": "ignores a deleted position that the data file does not have",
    "deletes/vector-without-referenced-file": "leaves out a deletion vector that says no data file",
    "manifests/file-listed-twice": "reads a data file as often as it is listed",
    "manifests/truncated": "takes a manifest whose last block is cut off for one that ends there, and loses its rows",
    "metadata/view": "looks at no field of metadata that is a view's alone",
}

_OTHERWISE = {
    "deletes/extra-columns-in-equality-delete": Difference(
        (2,),
        "skips delete files by bounds of columns that are no keys, which here are stale, so a deleted row comes back; "
        "without these bounds it agrees",
    ),
    "deletes/key-dropped": Difference(
        (1,), "fails where a dropped key's name was taken again: 'Invalid schema: multiple fields for name id'"
    ),
    "deletes/moved-table-v2": Difference((1, 2), "opens recorded paths only: a table that was moved is not there"),
    "deletes/moved-table-v3": Difference((1,), "opens recorded paths only: a table that was moved is not there"),
    "deletes/nan-key": Difference((1,), "takes keys of type double, which the format forbids; NaN equals NaN"),
    "deletes/nested-key-under-null-struct": Difference(
        (1,), "compares a nested key with its structs, so that a null struct is not a struct of a null"
    ),
    "deletes/vector-in-a-bare-file": Difference(
        (1,), "reads deletion vectors by offset and length and never looks at the Puffin file around them"
    ),
    "files/codec-brotli": Difference((1,), "has no Brotli: ClassNotFoundException of Hadoop's BrotliCodec"),
    "files/wrong-file-size": Difference((1,), "trusts the manifest's file size, and cannot find the Parquet footer"),
    "manifests/bounds-are-not-trusted-for-nan": Difference(
        (1,), "skips the file by bounds that leave NaN out, though NaN is above all numbers in Spark's filters"
    ),
    "manifests/inverted-bounds": Difference((1, 2), "trusts bounds whose lower is above the upper"),
    "manifests/wrong-partition-summary": Difference((1, 2), "trusts the manifest list's partition summaries"),
    "partitions/nan-and-null": Difference(
        (2, 3),
        "skips the partition of NaN though NaN is above all numbers in Spark's filters, and that of -0.0 though "
        "-0.0 = 0 there",
    ),
    "schema/date-to-timestamp": Difference(
        (1,), "cannot read days as timestamps yet: DateDayVector and TimeStampMicroVector do not fit"
    ),
    "schema/narrowed-type": Difference(
        (1,), "refuses too, but as something unsupported: 'Unsupported type: int' while it reads the column"
    ),
    "schema/types-of-v3": Difference((1,), "has no timestamp of nanoseconds in Spark"),
}

DIFFERENCES = {
    f"iceberg/{name}": difference
    for name, difference in (
        *((name, Difference((1,), reason)) for name, reason in _UNCHECKED.items()),
        *_OTHERWISE.items(),
    )
}
