"""Whether an equality delete can hit a data file at all, from what their manifests say about the keys (iceberg 4.9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.iceberg.manifests import DataFile, ManifestEntry
from harness.iceberg.values import decode_bound
from harness.model.schema import (
    BinaryType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    FloatType,
    IntegerType,
    StringType,
    TimestampType,
    TimeType,
)

# Not uuid: its bounds have no agreed order (3.3). Not boolean: two values never exclude much.
_ORDERED = (BinaryType, DateType, DecimalType, FixedType, FloatType, IntegerType, StringType, TimestampType, TimeType)


def may_hit(delete: ManifestEntry, data: ManifestEntry, keys: Sequence[Field]) -> bool:
    """False only if no row of the equality delete can equal a row of the data file, by counts and bounds of the keys.

    Scope is not looked at; `DeleteIndex` has done that.

    Args:
        delete: the delete's entry, with statistics of the keys.
        data: the data file's entry, likewise.
        keys: the delete's top-level keys with their newest type. Keys inside structs must be left out: writers differ
            on whether a null struct counts as null of its fields. Fewer keys only make the answer True more often.
    """
    return all(_may_share(key, delete.file, data.file) for key in keys)


def _may_share(key: Field, delete: DataFile, data: DataFile) -> bool:
    """Whether some value of `key`, or null, may be in both files."""
    if _may_hold_null(key, delete) and _may_hold_null(key, data):
        return True
    if _only_null(key, delete) or _only_null(key, data):
        return False
    # Bounds leave NaN out, and NaN equals NaN (4.23).
    if isinstance(key.type, FloatType) and _may_hold_nan(key, delete) and _may_hold_nan(key, data):
        return True
    return not (_below(key, delete, data) or _below(key, data, delete))


def _may_hold_null(key: Field, file: DataFile) -> bool:
    return _count(file.null_value_counts, key, file) != 0


def _may_hold_nan(key: Field, file: DataFile) -> bool:
    return _count(file.nan_value_counts, key, file) != 0


def _only_null(key: Field, file: DataFile) -> bool:
    values, nulls = (_count(counts, key, file) for counts in (file.value_counts, file.null_value_counts))
    return values is not None and values == nulls


def _count(counts: Mapping[int, int] | None, key: Field, file: DataFile) -> int | None:
    """None: not known. A count of no values comes from writers that left the column out, and says nothing (3.19)."""
    if counts is None or (file.value_counts or {}).get(key.id) == 0:
        return None
    return counts.get(key.id)


def _below(key: Field, low: DataFile, high: DataFile) -> bool:
    """Whether every value in `low` is known to be less than every value in `high`."""
    if not isinstance(key.type, _ORDERED):
        return False
    low_bounds, high_bounds = _bounds(key, low), _bounds(key, high)
    if low_bounds is None or high_bounds is None or not low_bounds[1] < high_bounds[0]:
        return False
    # An upper bound cut without rounding up is met on disk (3.9): values that it begins may be above it.
    return not (isinstance(low_bounds[1], str | bytes) and high_bounds[0].startswith(low_bounds[1]))


def _bounds(key: Field, file: DataFile) -> tuple[Any, Any] | None:
    """Both bounds as internal values; None if one is unknown or they are inverted (iceberg 3.25)."""
    lower, upper = (file.lower_bounds or {}).get(key.id), (file.upper_bounds or {}).get(key.id)
    if lower is None or upper is None:
        return None
    decoded = decode_bound(key.type, lower), decode_bound(key.type, upper)
    if decoded[0] is None or decoded[1] is None or decoded[0] > decoded[1]:
        return None
    return decoded
