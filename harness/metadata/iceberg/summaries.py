"""The manifests that a filter can skip by the partition summaries of the manifest list, as far as these are trusted.

Source: iceberg 3.6-3.9. What is trusted is said in `harness.metadata.plan.trust`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.metadata.filters.predicate import Predicate, fields_of, may_match
from harness.metadata.iceberg.manifests import FieldSummary, ManifestFile
from harness.metadata.iceberg.model import PartitionSpec
from harness.metadata.iceberg.skipping import partition_target, source_columns
from harness.metadata.iceberg.transforms import Void
from harness.metadata.iceberg.values import decode_bound
from harness.metadata.model.column_stats import ColumnStats
from harness.metadata.model.schema import Field, FloatType, Schema
from harness.metadata.plan.trust import Statement, Trust, guards, is_trusted_writer, trust_in
from harness.storage.records import dataclass

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

    def guarded(self) -> tuple[str, ...]:
        """The known faults of writers that the filter meets in the summaries, a sentence each."""
        ids = fields_of(self.predicate)
        targets = [target for target in _targets(self.spec, self.schema) if target.id in ids]
        return guards("iceberg", Statement.SUMMARY_BOUNDS, targets)

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
