"""The parts in which two nested values differ: fields of structs, elements of lists, and entries of maps.

Parts are named as in DuckDB's SQL: `s.x`, `l[1]` for the first element, `m['k']` for the value of a key. Lists of
different lengths differ as a whole. If one value is null, the values differ as a whole too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from harness.diff.canonical import canonical_values, decode_array
from harness.diff.closeness import close_pairs
from harness.diff.paths import ELEMENT, VALUE, ColumnPath, child_names
from harness.diff.printing import show, show_pair, show_values
from harness.diff.result import PartDifference
from harness.diff.tolerances import Tolerance
from harness.metadata.model.arrow_values import children_of, elements_of, is_list

MOST_PARTS = 20
"""The most parts of a column that are shown for a row."""
_MOST_SEARCHED = 1_000


@dataclass(frozen=True, slots=True)
class _Part:
    """A part that differs between two nested values.

    Attributes:
        path: The part's path inside the column, as used by tolerances.
        text: The part's name in reports, with the column.
        left: An array of the left value, or None if the left side has no such entry.
        right: The same for the right side.
    """

    path: ColumnPath
    text: str
    left: pa.Array | None
    right: pa.Array | None


def is_nested(type_: pa.DataType) -> bool:
    """Return whether values of a type have parts."""
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return is_nested(type_.value_type)
    return bool(child_names(type_))


def differing_parts(
    column: str,
    left: pa.Array,
    right: pa.Array,
    tolerances: Mapping[ColumnPath, Tolerance],
) -> tuple[tuple[PartDifference, ...], bool]:
    """Return the first parts of two values that differ by more than the tolerances, and whether there are more.

    Args:
        column: The column's name.
        left: An array of one value.
        right: An array of one value.
        tolerances: The tolerances by path inside the column.
    """
    result = list(islice(_find_parts((), column, left, right), _MOST_SEARCHED + 1))
    parts = _parts_beyond_tolerance(result[:_MOST_SEARCHED], tolerances) or [_Part((), column, left, right)]
    differences = tuple(PartDifference(column, part.text, *_texts(part)) for part in parts[:MOST_PARTS])
    return differences, len(parts) > MOST_PARTS or len(result) > _MOST_SEARCHED


def _find_parts(path: ColumnPath, text: str, left: pa.Array, right: pa.Array) -> Iterator[_Part]:
    left, right = decode_array(left), decode_array(right)
    if canonical_values(left) == canonical_values(right):
        return
    kinds, both = (left.type, right.type), left.null_count + right.null_count == 0
    if both and all(map(pa.types.is_struct, kinds)):
        others = dict(zip(child_names(right.type), children_of(right), strict=True))
        for name, child in zip(child_names(left.type), children_of(left), strict=True):
            yield from _find_parts((*path, name), f"{text}.{name}", child, others[name])
        return
    if both and all(map(is_list, kinds)):
        elements = elements_of(left), elements_of(right)
        if len(elements[0]) == len(elements[1]):
            pairs = zip(*(canonical_values(each) for each in elements), strict=True)
            for i in (i for i, (a, b) in enumerate(pairs) if a != b):
                a, b = (each.slice(i, 1) for each in elements)
                yield from _find_parts((*path, ELEMENT), f"{text}[{i + 1}]", a, b)
            return
    if both and all(map(pa.types.is_map, kinds)):
        lefts, rights = _entries(left), _entries(right)
        if lefts is not None and rights is not None:
            yield from _entry_parts((*path, VALUE), text, lefts, rights)
            return
    yield _Part(path, text, left, right)


def _entries(map_: pa.Array) -> dict[object, tuple[str, pa.Array]] | None:
    """Return the printed key and the value of each map entry, by key, or None if two entries have the same key."""
    keys, values = children_of(map_)
    entries = zip(
        canonical_values(keys), show_values(keys), (values.slice(i, 1) for i in range(len(keys))), strict=True
    )
    result = {key: (text, value) for key, text, value in entries}
    return result if len(result) == len(keys) else None


def _entry_parts(
    path: ColumnPath,
    text: str,
    left: dict[object, tuple[str, pa.Array]],
    right: dict[object, tuple[str, pa.Array]],
) -> Iterator[_Part]:
    for key, (key_text, _) in sorted({**right, **left}.items(), key=lambda entry: entry[1][0]):
        name = f"{text}[{key_text}]"
        if key in left and key in right:
            yield from _find_parts(path, name, left[key][1], right[key][1])
        else:
            yield _Part(path, name, *(side[key][1] if key in side else None for side in (left, right)))


def _parts_beyond_tolerance(parts: Sequence[_Part], tolerances: Mapping[ColumnPath, Tolerance]) -> list[_Part]:
    passed = set()
    for path, tolerance in tolerances.items():
        parts_at_path = [(part, part.left, part.right) for part in parts if part.path == path]
        pairs = [(part, left, right) for part, left, right in parts_at_path if left is not None and right is not None]
        if pairs:
            left, right = (pa.table({"v": pa.concat_arrays([each[side] for each in pairs])}) for side in (1, 2))
            places = [(i, i) for i in range(len(pairs))]
            close = close_pairs(left, right, places, {"v": {(): tolerance}})["v"]
            passed |= {part.text for (part, _, _), is_close in zip(pairs, close, strict=True) if is_close}
    return [part for part in parts if part.text not in passed]


def _texts(part: _Part) -> tuple[str | None, str | None]:
    if part.left is not None and part.right is not None:
        return show_pair(part.left, 0, part.right, 0)
    left, right = (None if each is None else show(each, 0) for each in (part.left, part.right))
    return left, right
