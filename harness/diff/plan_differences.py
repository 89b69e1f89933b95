"""Differences between two lists of files, without reading any file.

| property              | counts as a difference                                                              |
|-----------------------|-------------------------------------------------------------------------------------|
| file                  | missing, added, or listed twice                                                     |
| delete                | missing, added, or different, unless statistics show that it deletes no row         |
| sequence number       | of the file or of a delete, if both plans have it                                   |
| partition             | another spec id or other values                                                     |
| format, first row id  | if both plans have it                                                               |
| statistics            | record count, and the counts and bounds that both plans have                        |

`harness.diff.plans` decides if a file that only one plan lists has matching rows, and if residuals are right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.diff.plan_result import PlanDifference, PlanDifferenceKind
from harness.errors import visible
from harness.metadata.iceberg.manifests import Content, DataFile
from harness.metadata.iceberg.server.listing import FileListing, ListedDelete, ListedFile
from harness.metadata.model.schema import Type, value_text

_STATISTIC_WORDS = {
    "value_counts": "value count",
    "null_value_counts": "null count",
    "nan_value_counts": "NaN count",
    "lower_bounds": "lower bound",
    "upper_bounds": "upper bound",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingContext:
    """The meaning of ids in the two lists.

    Attributes:
        names: The names of the left and the right plan in sentences, for example `the server's plan`.
        location: The location of the table, as recorded in its metadata.
        columns: The names of columns by field id.
        types: The types of the columns with statistics by field id.
        partition_key: Returns a key that is equal for two files only if they are in the same partition.
        partition_text: Returns the partition of a file as text for reports.
    """

    names: tuple[str, str]
    location: str
    columns: Mapping[int, str]
    types: Mapping[int, Type]
    partition_key: Callable[[DataFile], Hashable]
    partition_text: Callable[[DataFile], str]

    def short(self, path: str) -> str:
        """Return a recorded path as text for reports. A path inside the table becomes relative to it."""
        return path.removeprefix(f"{self.location.rstrip('/')}/")

    def difference(
        self, kind: PlanDifferenceKind, path: str, text: str, *, delete: str | None = None, rows: int | None = None
    ) -> PlanDifference:
        """Return a difference in a file. `text` describes the difference."""
        sentence = visible(f"{self.short(path)}: {text}")
        return PlanDifference(kind=kind, file=path, sentence=sentence, delete=delete, rows=rows)

    def column(self, field_id: int) -> str:
        """Return the name of a column, or its field id if no schema has it."""
        return self.columns.get(field_id, f"field {field_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingDifferences:
    """The differences between two lists of files.

    Attributes:
        differences: The differences in files that both plans list, and in files that one plan lists twice.
        only_left: Files that only the left plan lists.
        only_right: Files that only the right plan lists.
        notes: Sentences about properties that one whole plan lacks.
    """

    differences: tuple[PlanDifference, ...]
    only_left: tuple[ListedFile, ...]
    only_right: tuple[ListedFile, ...]
    notes: tuple[str, ...]


def compare_listings(left: FileListing, right: FileListing, context: ListingContext) -> ListingDifferences:
    """Return the differences between two lists of files."""
    lefts, rights = ({file.file.path: file for file in reversed(each.files)} for each in (left, right))
    targets: dict[tuple[str, int | None], str] = {
        (delete.path, delete.offset): delete.target
        for delete in (*left.deletes, *right.deletes)
        if delete.is_vector and delete.target is not None
    }
    pairs = _FilePairs(context, targets)
    differences = list(_repeated_files(left, right, context))
    for path, file in lefts.items():
        other = rights.get(path)
        if other is not None:
            differences += pairs.compare(file, other)
    return ListingDifferences(
        differences=tuple(differences),
        only_left=tuple(file for path, file in lefts.items() if path not in rights),
        only_right=tuple(file for path, file in rights.items() if path not in lefts),
        notes=(*_absent_properties(left, right, context.names), *_unused_deletes(left, right, context)),
    )


def _repeated_files(left: FileListing, right: FileListing, context: ListingContext) -> Iterator[PlanDifference]:
    counts = [Counter(file.file.path for file in each.files) for each in (left, right)]
    names = context.names
    for this, other, name in ((counts[0], counts[1], names[0]), (counts[1], counts[0], names[1])):
        for path, count in this.items():
            if count > max(1, other[path]):
                times = "twice" if count == 2 else f"{count:,} times"
                text = f"{name} lists the file {times}"
                yield context.difference(PlanDifferenceKind.REPEATED_FILE, path, text)


_PROPERTIES: tuple[tuple[str, Callable[[ListedFile], Any]], ...] = (
    ("sequence numbers", lambda file: file.sequence_number),
    ("first row ids", lambda file: file.file.first_row_id),
)


def _absent_properties(left: FileListing, right: FileListing, names: tuple[str, str]) -> Iterator[str]:
    """Yield a sentence for each property that only one of the plans has."""
    if not left.files or not right.files:
        return
    for words, value in _PROPERTIES:
        has_values = [any(value(file) is not None for file in each.files) for each in (left, right)]
        if has_values[0] != has_values[1]:
            yield f"{names[has_values.index(False)]} has no {words}, so they are not compared"


def _unused_deletes(left: FileListing, right: FileListing, context: ListingContext) -> Iterator[str]:
    """Yield a sentence for each plan that lists deletes without applying them, if the second plan applies them."""
    lefts, rights = ({_identity(d) for file in each.files for d in file.deletes} for each in (left, right))
    names = context.names
    for listing, this, other, name in ((left, lefts, rights, names[0]), (right, rights, lefts, names[1])):
        unused = {_identity(delete): delete for delete in listing.deletes}
        paths = sorted({delete.path for key, delete in unused.items() if key not in this and key in other})
        if paths:
            more = f" and {len(paths) - 3:,} more" if len(paths) > 3 else ""
            short = ", ".join(map(context.short, paths[:3]))
            yield f"{name} lists deletes that it applies to no file: {short}{more}"


def _identity(delete: ListedDelete) -> Hashable:
    return (delete.content, delete.path, delete.offset, delete.length, delete.equality_ids)


@dataclass(frozen=True, slots=True)
class _FilePairs:
    """The comparison of a file in two plans.

    Attributes:
        context: The meaning of ids.
        targets: The recorded path of the data file of each deletion vector, by the vector's file and offset.
    """

    context: ListingContext
    targets: Mapping[tuple[str, int | None], str]

    def compare(self, left: ListedFile, right: ListedFile) -> Iterator[PlanDifference]:
        """Yield the differences in a file."""
        yield from self._deletes(left, right)
        yield from self._attributes(left, right)

    def _deletes(self, left: ListedFile, right: ListedFile) -> Iterator[PlanDifference]:
        if not left.deletes and not right.deletes:
            return
        lefts, rights = ({_identity(delete): delete for delete in file.deletes} for file in (left, right))
        for key, delete in lefts.items():
            if key in rights:
                yield from self._numbers(left.file.path, delete, rights[key])
        only_left = [delete for key, delete in lefts.items() if key not in rights]
        only_right = [delete for key, delete in rights.items() if key not in lefts]
        if not only_left and not only_right:
            return
        for delete, other in _paired(only_left, only_right):
            only_left.remove(delete)
            only_right.remove(other)
            yield self._other_delete(left.file.path, delete, other)
        optional = [{_identity(delete) for delete in file.optional} for file in (left, right)]
        names, path = self.context.names, left.file.path
        for delete in only_left:
            if _identity(delete) not in optional[1]:
                text = f"{names[0]} has {self._describe(delete, path)}, which {names[1]} lacks"
                kind = PlanDifferenceKind.ADDED_DELETE
                yield self.context.difference(kind, path, text, delete=delete.path)
        for delete in only_right:
            if _identity(delete) not in optional[0]:
                text = f"{names[0]} lacks {self._describe(delete, path)}"
                kind = PlanDifferenceKind.MISSING_DELETE
                yield self.context.difference(kind, path, text, delete=delete.path)

    def _numbers(self, path: str, left: ListedDelete, right: ListedDelete) -> Iterator[PlanDifference]:
        """Yield the differences in the sequence number and the target of a delete that both plans have."""
        names = self.context.names
        if None not in (left.sequence_number, right.sequence_number) and left.sequence_number != right.sequence_number:
            text = (
                f"{names[0]} has the sequence number {left.sequence_number} for {self._describe(left, path)},"
                f" {names[1]} has {right.sequence_number}"
            )
            kind = PlanDifferenceKind.SEQUENCE_NUMBER
            yield self.context.difference(kind, path, text, delete=left.path)
        if left.target is not None and right.target is not None and left.target != right.target:
            what = f"the data file of {self._describe(left, path)}"
            targets = [self.context.short(target) for target in (left.target, right.target)]
            text = f"{names[0]} has {targets[0]} as {what}, {names[1]} has {targets[1]}"
            yield self.context.difference(PlanDifferenceKind.DIFFERENT_DELETE, path, text, delete=left.path)

    def _other_delete(self, path: str, left: ListedDelete, right: ListedDelete) -> PlanDifference:
        names = self.context.names
        text = f"{names[0]} has {self._describe(left, path)}, {names[1]} has {self._describe(right, path)}"
        return self.context.difference(PlanDifferenceKind.DIFFERENT_DELETE, path, text, delete=left.path)

    def _describe(self, delete: ListedDelete, path: str) -> str:
        """Return a noun phrase for a delete of the data file at `path`."""
        short = self.context.short(delete.path)
        if delete.content is Content.EQUALITY_DELETES:
            keys = ", ".join(map(self.context.column, delete.equality_ids))
            return f"the equality delete {short} (keys {keys})"
        if not delete.is_vector:
            return f"the position delete file {short}"
        target = self.targets.get((delete.path, delete.offset))
        owner = "" if target is None or target == path else f", which is for {self.context.short(target)}"
        return f"the deletion vector at offset {delete.offset} of {short} ({delete.length} bytes{owner})"

    def _attributes(self, left: ListedFile, right: ListedFile) -> Iterator[PlanDifference]:
        a, b = left.file, right.file
        context, kinds = self.context, PlanDifferenceKind
        if left.sequence_number != right.sequence_number:
            yield from self._number(
                a.path, kinds.SEQUENCE_NUMBER, "sequence number", left.sequence_number, right.sequence_number
            )
        if (a.spec_id, a.partition) != (b.spec_id, b.partition) and context.partition_key(a) != context.partition_key(
            b
        ):
            texts = (f"{context.partition_text(file)} of spec {file.spec_id}" for file in (a, b))
            yield self._unequal(a.path, kinds.PARTITION, "partition", *texts)
        if a.format != b.format:
            yield self._unequal(a.path, kinds.FORMAT, "format", a.format, b.format)
        if a.first_row_id != b.first_row_id:
            yield from self._number(a.path, kinds.FIRST_ROW_ID, "first row id", a.first_row_id, b.first_row_id)
        if a.record_count != b.record_count:
            yield from self._number(a.path, kinds.STATISTICS, "record count", a.record_count, b.record_count)
        if a.size != b.size:
            yield from self._number(a.path, kinds.SIZE, "size", a.size, b.size)
        for name, file in zip(context.names, (left, right), strict=True):
            if file.problem is not None:
                text = f"{name} has statistics that cannot be read: {file.problem}"
                yield context.difference(kinds.STATISTICS, a.path, text)
        if left.statistics and right.statistics:
            yield from self._statistics(left, right)

    def _statistics(self, left: ListedFile, right: ListedFile) -> Iterator[PlanDifference]:
        for name, word in _STATISTIC_WORDS.items():
            lefts, rights = left.statistics.get(name, {}), right.statistics.get(name, {})
            if lefts == rights:
                continue
            for field_id, value in lefts.items():
                other = rights.get(field_id)
                if value is None or other is None or value == other:
                    continue
                type_ = self.context.types.get(field_id) if name.endswith("bounds") else None
                texts = (value_text(each, type_) for each in (value, other))
                what = f"{word} of {self.context.column(field_id)}"
                yield self._unequal(left.file.path, PlanDifferenceKind.STATISTICS, what, *texts)

    def _number(
        self, path: str, kind: PlanDifferenceKind, what: str, left: int | None, right: int | None
    ) -> Iterator[PlanDifference]:
        """Yield a difference between two numbers, if both plans have the number."""
        if left is not None and right is not None:
            yield self._unequal(path, kind, what, f"{left}", f"{right}")

    def _unequal(self, path: str, kind: PlanDifferenceKind, what: str, left: str, right: str) -> PlanDifference:
        names = self.context.names
        return self.context.difference(kind, path, f"{names[0]} has the {what} {left}, {names[1]} has {right}")


def _paired(lefts: Iterable[ListedDelete], rights: Iterable[ListedDelete]) -> list[tuple[ListedDelete, ListedDelete]]:
    """Return pairs of deletes that are likely the same delete: two vectors, or one file with different keys."""
    available = {_slot(delete): delete for delete in rights}
    pairs = []
    for delete in lefts:
        other = available.pop(_slot(delete), None)
        if other is not None:
            pairs.append((delete, other))
    return pairs


def _slot(delete: ListedDelete) -> Hashable:
    return "vector" if delete.is_vector else (delete.content, delete.path)
