"""The trust in a table's word about its contents: by statement, type and writer.

`CLAIMS` is the policy for Iceberg where `prune` is not given, `WRITER_FAULTS` the register of known faults of writers of both
formats. Both stand in docs/reference/trust.md as well. Source: iceberg 3.9, T14; this overrules the default of 3.9.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from harness.metadata.model.schema import BinaryType, DecimalType, Field, FixedType, FloatType, StringType, Type
from harness.storage.records import dataclass


class Statement(enum.Enum):
    """Something that metadata says; the value is what people call it."""

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
    """The ways to take a statement: may a manifest or file be skipped because of it?"""

    YES = "yes"
    ROUNDED_UP = "yes, as if the upper bound had been cut without rounding it up"
    NAMED_WRITER = "where the snapshot names its writer, and that one is right"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Claim:
    """A line of the policy. types: that it is about; empty: all that no line before it names. reason: why so."""

    statement: Statement
    trust: Trust
    reason: str
    types: tuple[type[Type], ...] = ()


CLAIMS: Final = (
    Claim(Statement.RECORD_COUNT, Trust.NO, "real tables count wrongly, and an empty file costs little"),
    Claim(Statement.PARTITION, Trust.YES, "they are values of the rows, not statistics"),
    Claim(Statement.SUMMARY_BOUNDS, Trust.ROUNDED_UP, "a known writer cuts texts without rounding up", (StringType,)),
    Claim(
        Statement.SUMMARY_BOUNDS,
        Trust.NAMED_WRITER,
        "a known writer reuses the buffers that its bounds point into",
        (BinaryType, FixedType),
    ),
    Claim(Statement.SUMMARY_BOUNDS, Trust.YES, "both, decodable and not inverted (3.8); no lie is known"),
    Claim(Statement.SUMMARY_NULLS, Trust.YES, "where there are bounds beside it"),
    Claim(Statement.SUMMARY_NANS, Trust.NO, "some writers say so whatever there is (3.7)"),
    Claim(Statement.SUMMARY_EMPTY, Trust.NO, "a known writer leaves out bounds of values that there are"),
    Claim(Statement.COLUMN_BOUNDS, Trust.YES, "decodable and not inverted (3.25)"),
    Claim(Statement.NULL_COUNT, Trust.YES, "plausible ones (3.19); not a count of no values at all"),
    Claim(Statement.NAN_COUNT, Trust.YES, "where they are recorded; bounds say nothing of NaN (3.21)"),
)
"""The policy unless the caller chooses otherwise, first match first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterFault:
    """A known fault of a writer.

    until: the first release, as (major, minor), that is right; None: not told apart by release.
    format: of the tables. guard: why no row is lost by it, or what to do. source: where it is described.
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
        wrong="bounds are those of another file, after a delete of whole files",
        until=(1, 11),
        guard="used of this writer's later releases only, which name themselves in the snapshot's summary",
        source="https://github.com/apache/iceberg/issues/15128",
    ),
    WriterFault(
        writer="DuckDB's iceberg extension, until June 2026",
        statement=Statement.SUMMARY_BOUNDS,
        types=(StringType,),
        wrong="upper bounds are cut to 16 bytes and not rounded up",
        guard="upper bounds of texts are rounded up, whoever wrote them",
        source="https://github.com/duckdb/duckdb-iceberg/issues/1047",
    ),
    WriterFault(
        writer="ClickHouse 26.3 to 26.9",
        statement=Statement.SUMMARY_EMPTY,
        wrong="bounds are missing for most transforms, as if there were no values",
        guard="missing bounds say nothing",
        source="https://github.com/ClickHouse/ClickHouse/issues/118905",
    ),
    WriterFault(
        writer="not known",
        statement=Statement.COLUMN_BOUNDS,
        wrong="lower bounds above upper bounds",
        guard="inverted bounds say nothing, of files as of manifests",
        source="https://github.com/ClickHouse/ClickHouse/issues/116499",
    ),
    WriterFault(
        writer="Apache Iceberg (Java) before 1.4",
        statement=Statement.COLUMN_BOUNDS,
        types=(StringType, BinaryType),
        wrong="bounds leave out row groups whose values are too long for statistics",
        guard='none, since such manifests name no writer: rewrite them, or read with prune="off"',
        source="https://github.com/trinodb/trino/issues/19052",
    ),
    WriterFault(
        writer="iceberg-rust 0.5",
        statement=Statement.COLUMN_BOUNDS,
        wrong="upper bounds of files with several row groups are too small",
        guard='none, since such manifests name no writer: rewrite them, or read with prune="off"',
        source="https://github.com/apache/iceberg-rust/issues/1519",
    ),
    WriterFault(
        writer="delta-rs until 1.6.6, and Polars, which writes by it",
        statement=Statement.COLUMN_BOUNDS,
        types=(DecimalType,),
        wrong="decimals go through a double, and end at 2^63",
        format="delta",
        guard="bounds of Delta's decimals are widened by what a double loses; those at 2^63 say nothing",
        source="https://github.com/delta-io/delta-rs/issues/4757",
    ),
    WriterFault(
        writer="delta-rs until 1.6.6, Polars, which writes by it, and Sail 0.7",
        statement=Statement.COLUMN_BOUNDS,
        types=(FloatType,),
        wrong="the maximum leaves NaN out",
        format="delta",
        guard="a maximum of floats in a Delta log never skips a file by a comparison that NaN passes",
        source="https://github.com/delta-io/delta/pull/7101",
    ),
)
"""The register of writers."""

_JAVA: Final = re.compile(r"Apache Iceberg (\d+)\.(\d+)(?:\.|\s|$)")
"""The text of Apache Iceberg in `iceberg-version` of a snapshot's summary."""


def trust_in(statement: Statement, type_: Type) -> Trust:
    """The policy on a statement about values of `type_`."""
    return next(c.trust for c in CLAIMS if c.statement is statement and (not c.types or isinstance(type_, c.types)))


def is_trusted_writer(statement: Statement, type_: Type, summary: Mapping[str, str] | None) -> bool:
    """True if a snapshot's summary names a writer that is right about a statement on `type_`; None: no summary."""
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
    """The known faults that a filter meets where it goes by a statement about columns, and that lose no row.

    A fault of any type is guarded against in each filter, and is not said.

    Returns: for each fault the columns, the words of the register, and the source.
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
