"""Skipping of manifests by the partition summaries in the manifest list, as far as these are trusted.

`harness.metadata.plan.trust` defines which summaries are trusted.

Spec: Iceberg, "Manifest Lists" (rules iceberg 3.6-3.9).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.filters.predicate import Predicate, fields_of
from harness.metadata.filters.skipping import ColumnBounds, bound_array, compare_bounds, exact_facts, may_match
from harness.metadata.iceberg.manifests import FieldSummary, ManifestFile
from harness.metadata.iceberg.model import PartitionSpec
from harness.metadata.iceberg.skipping import decode_bounds, partition_target, source_columns
from harness.metadata.iceberg.transforms import Void
from harness.metadata.model.arrow_values import Indices, Mask, array_of, from_numpy, null_where
from harness.metadata.model.schema import Field, Schema
from harness.metadata.plan.trust import Statement, Trust, guarded_faults, is_trusted_writer, trust_in
from harness.storage.records import dataclass

Writer = Callable[[ManifestFile], Mapping[str, str] | None]
"""Returns the summary of the snapshot that wrote a manifest, or None if it is no longer known."""


@dataclass(frozen=True, slots=True)
class ManifestFilter:
    """A filter on manifests of one spec, decided by their partition summaries.

    Attributes:
        spec: The partition spec.
        predicate: A predicate on the partition fields, from `harness.metadata.iceberg.skipping.projected`.
        schema: The schema of the read.
        writer: Returns the snapshot summary of a manifest's writer.
    """

    spec: PartitionSpec
    predicate: Predicate
    schema: Schema
    writer: Writer

    def may_hold(self, manifests: Sequence[ManifestFile]) -> Mask:
        """Return, for each manifest, whether it may list a file with a row that matches the filter."""
        return may_match(self.predicate, lambda field: self._facts(manifests, field), len(manifests))

    def _facts(self, manifests: Sequence[ManifestFile], field: Field) -> ColumnBounds:
        """Return the trusted part of the summaries of a partition field (iceberg 3.6-3.9)."""
        place = [f.field_id for f in self.spec.fields].index(field.id)
        summaries = [self._summary(manifest, place) for manifest in manifests]
        recorded = [each.lower for each in summaries], [each.upper for each in summaries]
        lower, upper = (decode_bounds(array_of(bounds, pa.binary()), field.type) for bounds in recorded)
        # Bounds are used only if both exist and the lower one is not above the upper one (3.8).
        untrusted = ~compare_bounds(pc.less_equal, lower, upper)
        match trust_in(Statement.SUMMARY_BOUNDS, field.type):
            case Trust.ROUNDED_UP:
                texts = upper.to_pylist()
                upper = bound_array([None if text is None else _rounded_up(text) for text in texts], field.type)
            case Trust.NAMED_WRITER:
                trusted = (is_trusted_writer(Statement.SUMMARY_BOUNDS, field.type, self.writer(m)) for m in manifests)
                untrusted |= ~np.fromiter(trusted, np.bool_, len(manifests))
            case Trust.NO:
                untrusted[:] = True
            case Trust.YES:
                pass
        nulls = np.array([0 if each.contains_null is False else -1 for each in summaries], dtype=np.int64)
        # Writers leave out bounds of types that they do not know. "No null" is then just as unreliable.
        has_bounds = [low is not None and high is not None for low, high in zip(*recorded, strict=True)]
        # Some writers record "no NaN" whatever the data holds (iceberg 3.7).
        return ColumnBounds.from_statistics(
            field.type,
            lower=null_where(lower, untrusted),
            upper=null_where(upper, untrusted),
            nulls=from_numpy(nulls),
            usable=np.array(has_bounds, dtype=np.bool_),
        )

    def _summary(self, manifest: ManifestFile, place: int) -> FieldSummary:
        """Return the manifest's summary of a partition field, or an empty summary if it lacks one for any field."""
        summaries = manifest.partitions
        is_complete = summaries is not None and len(summaries) == len(self.spec.fields)
        return summaries[place] if summaries is not None and is_complete else FieldSummary(contains_null=True)

    def trusted(self) -> tuple[str, ...]:
        """Return a phrase for each partition field whose summaries are trusted to skip manifests."""
        ids = fields_of(self.predicate)
        return tuple(
            f"partition summaries of {target.name}{_REMARKS.get(trust_in(Statement.SUMMARY_BOUNDS, target.type), '')}"
            for target in _targets(self.spec, self.schema)
            if target.id in ids
        )

    def guarded(self) -> tuple[str, ...]:
        """Return a sentence for each known fault of a writer that may affect the summaries that the filter uses."""
        ids = fields_of(self.predicate)
        targets = [target for target in _targets(self.spec, self.schema) if target.id in ids]
        return guarded_faults("iceberg", Statement.SUMMARY_BOUNDS, targets)

    def contradicted(
        self, manifests: Sequence[ManifestFile], numbers: Indices, tuples: Sequence[Mapping[int, Any]]
    ) -> Mask:
        """Return, for each partition tuple, whether it is outside the summaries of its manifest.

        A tuple outside the summaries proves that the writer is wrong, so no summary of the table may be used (iceberg
        3.9).

        Args:
            manifests: All opened manifests.
            numbers: For each tuple, the index in `manifests` of its manifest. These manifests have the spec of the
                filter.
            tuples: Internal values by partition field id.
        """
        is_outside = np.zeros(len(tuples), dtype=np.bool_)
        values_of = exact_facts(tuples)
        for target in _targets(self.spec, self.schema):
            summary, values = self._facts(manifests, target).take(numbers), values_of(target)
            is_outside |= values.has_nulls & ~summary.has_nulls
            is_outside |= compare_bounds(pc.less, values.lower, summary.lower)
            is_outside |= compare_bounds(pc.greater, values.upper, summary.upper)
        return is_outside


_REMARKS = {Trust.ROUNDED_UP: " (upper bounds rounded up)", Trust.NAMED_WRITER: " (of writers known to be right)"}


def _targets(spec: PartitionSpec, schema: Schema) -> list[Field]:
    """Return the fields of a spec that filters can use, with their types."""
    return [
        partition_target(f, source)
        for f in spec.fields
        if not isinstance(f.transform, Void)
        for source in source_columns(f, schema)
    ]


_LAST = "\U0010ffff"
_BEFORE_SURROGATES, _AFTER_SURROGATES = "\ud7ff", "\ue000"


def _rounded_up(text: str) -> str | None:
    """Return the smallest text above all texts that start with `text`, or None if there is none."""
    head = text.rstrip(_LAST)
    if not head:
        return None
    last = _AFTER_SURROGATES if head[-1] == _BEFORE_SURROGATES else chr(ord(head[-1]) + 1)
    return head[:-1] + last
