"""The manifests that a filter can skip by the partition summaries of the manifest list, as far as these are trusted.

Source: iceberg 3.6-3.9. What is trusted is said in `harness.metadata.iceberg.summaries`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from harness.metadata.filters.predicate import Predicate, fields_of, may_match
from harness.metadata.iceberg.manifests import FieldSummary, ManifestFile
from harness.metadata.iceberg.model import PartitionSpec
from harness.metadata.iceberg.skipping import partition_target, source_columns
from harness.metadata.iceberg.transforms import Void
from harness.metadata.iceberg.values import decode_bound
from harness.metadata.model.column_stats import ColumnStats
from harness.metadata.model.schema import BinaryType, DecimalType, Field, FixedType, FloatType, Schema, StringType, Type
from harness.storage.records import dataclass

# The trust in an Iceberg table's word about its contents: by statement, type and writer. `CLAIMS` is the policy where
# `prune` is not given, `LIES` the register of known faults of writers. Both stand in docs/reference/trust.md as well.
# Source: iceberg 3.9, T14; this overrules the default of 3.9.


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
class Lie:
    """A known fault of a writer.

    until: the first release, as (major, minor), that is right; None: not told apart by release.
    guard: why no row is lost by it, or what to do. source: where it is described.
    """

    writer: str
    statement: Statement
    types: tuple[type[Type], ...] = ()
    wrong: str
    until: tuple[int, int] | None = None
    guard: str
    source: str


LIES: Final = (
    Lie(
        writer="Apache Iceberg (Java)",
        statement=Statement.SUMMARY_BOUNDS,
        types=(BinaryType, FixedType),
        wrong="bounds are those of another file, after a delete of whole files",
        until=(1, 11),
        guard="used of this writer's later releases only, which name themselves in the snapshot's summary",
        source="https://github.com/apache/iceberg/issues/15128",
    ),
    Lie(
        writer="DuckDB's iceberg extension, until June 2026",
        statement=Statement.SUMMARY_BOUNDS,
        types=(StringType,),
        wrong="upper bounds are cut to 16 bytes and not rounded up",
        guard="upper bounds of texts are rounded up, whoever wrote them",
        source="https://github.com/duckdb/duckdb-iceberg/issues/1047",
    ),
    Lie(
        writer="ClickHouse 26.3 to 26.9",
        statement=Statement.SUMMARY_EMPTY,
        wrong="bounds are missing for most transforms, as if there were no values",
        guard="missing bounds say nothing",
        source="https://github.com/ClickHouse/ClickHouse/issues/118905",
    ),
    Lie(
        writer="not known",
        statement=Statement.COLUMN_BOUNDS,
        wrong="lower bounds above upper bounds",
        guard="inverted bounds say nothing, of files as of manifests",
        source="https://github.com/ClickHouse/ClickHouse/issues/116499",
    ),
    Lie(
        writer="Apache Iceberg (Java) before 1.4",
        statement=Statement.COLUMN_BOUNDS,
        types=(StringType, BinaryType),
        wrong="bounds leave out row groups whose values are too long for statistics",
        guard='none, since such manifests name no writer: rewrite them, or read with prune="off"',
        source="https://github.com/trinodb/trino/issues/19052",
    ),
    Lie(
        writer="iceberg-rust 0.5",
        statement=Statement.COLUMN_BOUNDS,
        wrong="upper bounds of files with several row groups are too small",
        guard='none, since such manifests name no writer: rewrite them, or read with prune="off"',
        source="https://github.com/apache/iceberg-rust/issues/1519",
    ),
    Lie(
        writer="delta-rs until 1.6.6, and Polars, which writes by it",
        statement=Statement.COLUMN_BOUNDS,
        types=(DecimalType,),
        wrong="decimals go through a double, and end at 2^63",
        guard="bounds of Delta's decimals are widened by what a double loses; those at 2^63 say nothing",
        source="https://github.com/delta-io/delta-rs/issues/4757",
    ),
    Lie(
        writer="delta-rs until 1.6.6, Polars, which writes by it, and Sail 0.7",
        statement=Statement.COLUMN_BOUNDS,
        types=(FloatType,),
        wrong="the maximum leaves NaN out",
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
        lie.statement is statement and isinstance(type_, lie.types) and version < lie.until
        for lie in LIES
        if lie.until is not None
    )


Writer = Callable[[ManifestFile], Mapping[str, str] | None]
"""The summary of the snapshot that wrote a manifest; None: it is not known any more."""


@dataclass(frozen=True, slots=True)
class ManifestFilter:
    """A filter against the partition summaries of manifests of one spec."""

    spec: PartitionSpec
    predicate: Predicate  # on partition fields, `harness.metadata.iceberg.skipping.projected`
    schema: Schema
    writer: Writer

    def may_hold(self, manifest: ManifestFile) -> bool:
        """False only if no file of the manifest can have a row that makes the filter true."""
        by_id, writer = self._summaries(manifest), self.writer(manifest)
        return by_id is None or may_match(self.predicate, lambda field: _summary_stats(by_id[field.id], field, writer))

    def _summaries(self, manifest: ManifestFile) -> Mapping[int, FieldSummary] | None:
        """Summaries by partition field id; None: the manifest has none, or not one a field."""
        summaries = manifest.partitions
        if summaries is None or len(summaries) != len(self.spec.fields):
            return None
        return {f.field_id: summary for f, summary in zip(self.spec.fields, summaries, strict=True)}

    def trusted(self) -> tuple[str, ...]:
        """The summaries that are trusted where a manifest is skipped: of which partition fields, and how far."""
        ids = fields_of(self.predicate)
        return tuple(
            f"partition summaries of {target.name}{_REMARKS.get(trust_in(Statement.SUMMARY_BOUNDS, target.type), '')}"
            for target in _targets(self.spec, self.schema)
            if target.id in ids
        )

    def contradicted_by(self, manifest: ManifestFile) -> Callable[[Mapping[int, Any]], bool]:
        """A test whether a partition tuple of an opened manifest is outside of its summaries (iceberg 3.9).

        Such a tuple proves the writer wrong: summaries of this table should not be used any more.
        """
        by_id, writer = self._summaries(manifest), self.writer(manifest)
        if by_id is None:
            return lambda values: False
        targets = _targets(self.spec, self.schema)
        known = [(target.id, _summary_stats(by_id[target.id], target, writer)) for target in targets]
        return lambda values: not all(_is_within(values.get(id_), stats) for id_, stats in known)


_REMARKS = {Trust.ROUNDED_UP: " (upper bounds rounded up)", Trust.NAMED_WRITER: " (of writers known to be right)"}


def _targets(spec: PartitionSpec, schema: Schema) -> list[Field]:
    """The fields of a spec that have values which filters may speak of, typed."""
    return [
        partition_target(f, source)
        for f in spec.fields
        if not isinstance(f.transform, Void)
        for source in source_columns(f, schema)
    ]


def _is_within(value: Any, known: ColumnStats) -> bool:
    if value is None:
        return known.null_count != 0
    if value != value:  # NaN has no place between bounds
        return True
    below = known.lower is not None and value < known.lower
    above = known.upper is not None and value > known.upper
    return not (below or above)


def _summary_stats(summary: FieldSummary, field: Field, writer: Mapping[str, str] | None) -> ColumnStats:
    """A summary as statistics of the partition field, as far as it is trusted (iceberg 3.6-3.9)."""
    if summary.lower is None or summary.upper is None:
        # Writers leave out bounds of types that they do not know, and the word on nulls is no better then.
        return ColumnStats()
    lower, upper = _trusted_bounds(summary.lower, summary.upper, field, writer)
    return ColumnStats(
        lower=lower,
        upper=upper,
        null_count=None if summary.contains_null else 0,
        # Some writers say "no NaN" whatever the data holds (iceberg 3.7).
        nan_count=None if isinstance(field.type, FloatType) else 0,
    )


def _trusted_bounds(lower: bytes, upper: bytes, field: Field, writer: Mapping[str, str] | None) -> tuple[Any, Any]:
    low, high = decode_bound(field.type, lower), decode_bound(field.type, upper)
    if low is None or high is None or low > high:
        return None, None
    match trust_in(Statement.SUMMARY_BOUNDS, field.type):
        case Trust.YES:
            return low, high
        case Trust.ROUNDED_UP:
            return low, _rounded_up(high)
        case Trust.NAMED_WRITER if is_trusted_writer(Statement.SUMMARY_BOUNDS, field.type, writer):
            return low, high
        case _:
            return None, None


_LAST = "\U0010ffff"
_BEFORE_SURROGATES, _AFTER_SURROGATES = "\ud7ff", "\ue000"


def _rounded_up(text: str) -> str | None:
    """The least text above all that begin with `text`; None if there is none."""
    head = text.rstrip(_LAST)
    if not head:
        return None
    last = _AFTER_SURROGATES if head[-1] == _BEFORE_SURROGATES else chr(ord(head[-1]) + 1)
    return head[:-1] + last
