"""Trust in the recorded statistics of a table: by statement, type, and writer.

`CLAIMS` is the policy for Iceberg if `prune` is not passed. `WRITER_FAULTS` lists the known faults of writers of both
formats. Both are also in docs/reference/trust.md.

The policy overrules the default of rule iceberg 3.9.

Spec: Iceberg, "Manifest Lists" (rule iceberg 3.9, trap T14).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from harness.metadata.model.schema import BinaryType, DecimalType, Field, FixedType, FloatType, StringType, Type
from harness.storage.records import dataclass


class Statement(enum.Enum):
    """Kinds of statements that metadata makes about files. The values describe them for people."""

    RECORD_COUNT = "record counts of manifests and files"
    PARTITION = "partition tuples of files"
    SUMMARY_BOUNDS = "bounds in partition summaries"
    SUMMARY_NULLS = "partition summaries: no null"
    SUMMARY_NANS = "partition summaries: no NaN"
    SUMMARY_EMPTY = "partition summaries without bounds: no value"
    COLUMN_BOUNDS = "bounds of columns in files"
    NULL_COUNT = "null and value counts of columns in files"
    NAN_COUNT = "NaN counts of columns in files"


class Trust(enum.Enum):
    """Levels of trust in a statement, which decide whether it may skip a manifest or file."""

    YES = "yes"
    ROUNDED_UP = "yes, with the upper bound rounded up in case it was truncated"
    NAMED_WRITER = "only if the snapshot names a writer that is known to be right"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of the trust policy.

    Attributes:
        statement: The kind of statement.
        trust: The level of trust in it.
        reason: The reason for this level.
        types: The types that the line covers; empty for all types that no earlier line names.
    """

    statement: Statement
    trust: Trust
    reason: str
    types: tuple[type[Type], ...] = ()


CLAIMS: Final = (
    Claim(Statement.RECORD_COUNT, Trust.NO, "real tables record wrong counts, and reading an empty file costs little"),
    Claim(Statement.PARTITION, Trust.YES, "they are values of the rows, not statistics"),
    Claim(
        Statement.SUMMARY_BOUNDS, Trust.ROUNDED_UP, "a known writer truncates texts without rounding up", (StringType,)
    ),
    Claim(
        Statement.SUMMARY_BOUNDS,
        Trust.NAMED_WRITER,
        "a known writer reuses the buffers that its bounds point into",
        (BinaryType, FixedType),
    ),
    Claim(
        Statement.SUMMARY_BOUNDS,
        Trust.YES,
        "if both exist, can be decoded, and are not inverted (3.8); no fault is known",
    ),
    Claim(Statement.SUMMARY_NULLS, Trust.YES, "if the summary also has bounds"),
    Claim(Statement.SUMMARY_NANS, Trust.NO, "some writers always record it (3.7)"),
    Claim(Statement.SUMMARY_EMPTY, Trust.NO, "a known writer leaves out bounds although there are values"),
    Claim(Statement.COLUMN_BOUNDS, Trust.YES, "if they can be decoded and are not inverted (3.25)"),
    Claim(Statement.NULL_COUNT, Trust.YES, "if they are plausible (3.19); a count of 0 values is ignored"),
    Claim(Statement.NAN_COUNT, Trust.YES, "if they are recorded; bounds do not cover NaN (3.21)"),
)
"""The default policy. The first line that matches applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterFault:
    """A known fault of a writer.

    Attributes:
        writer: The writer.
        statement: The kind of statement that can be wrong.
        types: The types that are affected; empty for all.
        wrong: A description of the fault.
        until: The first correct release as (major, minor); None if releases cannot be distinguished.
        format: The format of the tables.
        guard: Why no row is lost, or what users can do.
        source: A link to a description of the fault.
    """

    writer: str
    statement: Statement
    types: tuple[type[Type], ...] = ()
    wrong: str
    until: tuple[int, int] | None = None
    format: Literal["iceberg", "delta"] = "iceberg"
    guard: str
    source: str


WRITER_FAULTS: Final = (
    WriterFault(
        writer="Apache Iceberg (Java)",
        statement=Statement.SUMMARY_BOUNDS,
        types=(BinaryType, FixedType),
        wrong="bounds belong to another file, after a delete of whole files",
        until=(1, 11),
        guard="used only for later releases of this writer, which name themselves in the summary of the snapshot",
        source="https://github.com/apache/iceberg/issues/15128",
    ),
    WriterFault(
        writer="DuckDB's iceberg extension, until June 2026",
        statement=Statement.SUMMARY_BOUNDS,
        types=(StringType,),
        wrong="upper bounds are cut to 16 bytes and not rounded up",
        guard="upper bounds of texts from any writer are rounded up",
        source="https://github.com/duckdb/duckdb-iceberg/issues/1047",
    ),
    WriterFault(
        writer="ClickHouse 26.3 to 26.9",
        statement=Statement.SUMMARY_EMPTY,
        wrong="bounds are missing for most transforms, as if there were no values",
        guard="missing bounds are ignored",
        source="https://github.com/ClickHouse/ClickHouse/issues/118905",
    ),
    WriterFault(
        writer="not known",
        statement=Statement.COLUMN_BOUNDS,
        wrong="lower bounds above upper bounds",
        guard="inverted bounds of files and manifests are ignored",
        source="https://github.com/ClickHouse/ClickHouse/issues/116499",
    ),
    WriterFault(
        writer="Apache Iceberg (Java) before 1.4",
        statement=Statement.COLUMN_BOUNDS,
        types=(StringType, BinaryType),
        wrong="bounds leave out row groups whose values are too long for statistics",
        guard='none, because these manifests do not name their writer: rewrite them, or read with prune="off"',
        source="https://github.com/trinodb/trino/issues/19052",
    ),
    WriterFault(
        writer="iceberg-rust 0.5",
        statement=Statement.COLUMN_BOUNDS,
        wrong="upper bounds of files with several row groups are too small",
        guard='none, because these manifests do not name their writer: rewrite them, or read with prune="off"',
        source="https://github.com/apache/iceberg-rust/issues/1519",
    ),
    WriterFault(
        writer="delta-rs until 1.6.6, and Polars, which uses it",
        statement=Statement.COLUMN_BOUNDS,
        types=(DecimalType,),
        wrong="decimals are converted through a double and limited to 2^63",
        format="delta",
        guard="bounds of Delta's decimals are widened by the precision that a double loses; bounds at 2^63 are ignored",
        source="https://github.com/delta-io/delta-rs/issues/4757",
    ),
    WriterFault(
        writer="delta-rs until 1.6.6, Polars, which uses it, and Sail 0.7",
        statement=Statement.COLUMN_BOUNDS,
        types=(FloatType,),
        wrong="the maximum ignores NaN",
        format="delta",
        guard="a maximum of floats in a Delta log never skips a file if NaN could satisfy the comparison",
        source="https://github.com/delta-io/delta/pull/7101",
    ),
)
"""The known faults of writers."""

_JAVA: Final = re.compile(r"Apache Iceberg (\d+)\.(\d+)(?:\.|\s|$)")
"""The name of Apache Iceberg in `iceberg-version` of a snapshot's summary."""


def trust_in(statement: Statement, type_: Type) -> Trust:
    """Return the trust in a statement about values of a type."""
    return next(c.trust for c in CLAIMS if c.statement is statement and (not c.types or isinstance(type_, c.types)))


def is_trusted_writer(statement: Statement, type_: Type, summary: Mapping[str, str] | None) -> bool:
    """Return whether a snapshot's summary names a writer whose statements of a kind are correct for a type.

    Args:
        statement: The kind of statement.
        type_: The type.
        summary: The summary of the snapshot; None if there is none.
    """
    release = _JAVA.match((summary or {}).get("iceberg-version", ""))
    if release is None:
        return False
    version = int(release[1]), int(release[2])
    return not any(
        fault.statement is statement and isinstance(type_, fault.types) and version < fault.until
        for fault in WRITER_FAULTS
        if fault.until is not None
    )


def guarded_faults(format: str, statement: Statement, fields: Iterable[Field]) -> tuple[str, ...]:
    """Return the known faults that can affect a filter on some columns, but against which harness guards.

    No row is lost because of these faults. Faults that affect all types are guarded against in every filter, so they
    are left out.

    Args:
        format: The format of the table.
        statement: The kind of statement that the filter uses.
        fields: The columns of the filter.

    Returns:
        For each fault, a text with the columns, the fault, and its source.
    """
    columns = list(fields)
    faults = {
        fault: ", ".join(f.name for f in columns if isinstance(f.type, fault.types))
        for fault in WRITER_FAULTS
        if fault.format == format
        and fault.statement is statement
        and fault.types
        and not fault.guard.startswith("none")
    }
    return tuple(f"{names}: {fault.wrong} ({fault.source})" for fault, names in faults.items() if names)
