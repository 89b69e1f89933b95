"""The picture of a plan: a bar per partition, or per file of an unpartitioned table, with rows read and skipped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import counted, size_text, without_secrets
from harness.metadata.model.arrow_values import distinct_values, to_numpy
from harness.metadata.model.drawing import Bar, BarKind, Drawing
from harness.metadata.plan.scan_plan import BY_PARTITION, BY_STATISTICS, KEPT, ScanPlan
from harness.storage.records import dataclass

_MOST_BARS = 12
_MOST_ROWS = 1 << 53
"""Floats represent sums up to this number exactly. No file has more rows, whatever its metadata records."""


def layout(plan: ScanPlan) -> Drawing:
    """Return a picture of the partitions of a plan, or of its files if the table is unpartitioned.

    If there are many, only the largest have bars of their own.

    The length of a bar is the number of recorded rows, or of bytes if the row count of any file is unknown. Deleted
    rows are counted only for position deletes whose data files are all in one bar. Remarks mention all other deletes.
    """
    files = _files(plan)
    sizes = np.bincount(files.groups, weights=files.amounts)
    order = np.argsort(-sizes, kind="stable").tolist()
    drawn = order if len(order) <= _MOST_BARS else order[: _MOST_BARS - 1]
    labels = {group: files.label(group) for group in drawn}
    drawn.sort(key=(lambda group: _natural(labels[group])) if files.noun == "partition" else None)
    bars = [files.bar(labels[group], files.groups == group) for group in drawn]
    if rest_size := len(order) - len(drawn):
        rest = np.isin(files.groups, drawn, invert=True)
        bars.append(files.bar(f"{rest_size:,} more {files.noun}s", rest, is_rest=True))
    skipped_manifests = plan.counts.manifests_skipped
    note = f"{counted(len(sizes), files.noun)}, {files.sentence()}"
    note += f", not drawn: files of {counted(skipped_manifests, 'skipped manifest')}" if skipped_manifests else ""
    return Drawing(title="layout", note=note, bars=tuple(bars))


def _natural(label: str) -> list[tuple[int, str]]:
    """Return a sort key that compares numbers inside texts numerically."""
    return [(len(part.lstrip("0")), part) if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", label)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileGroups:
    """The files of a plan, both files to read and skipped files, as columns.

    Attributes:
        noun: The kind of group, `partition` or `file`.
        texts: The label of each group: its partition, or the path of its file.
        unit: The unit of `amounts` and `deleted`: `row` or `byte`.
        groups: The group of each file.
        amounts: The size of each file.
        decisions: The decision of planning on each file.
        deleted: The deleted part of each file's amount.
        has_positions: Files with position deletes that are not counted in `deleted`.
        has_equality: Files with equality deletes.
    """

    noun: str
    texts: Sequence[str]
    unit: str
    groups: npt.NDArray[np.int64]
    amounts: npt.NDArray[np.int64]
    decisions: npt.NDArray[np.int8]
    deleted: npt.NDArray[np.int64]
    has_positions: npt.NDArray[np.bool_]
    has_equality: npt.NDArray[np.bool_]

    def label(self, group: int) -> str:
        """Return the label of a group: its partition, or the name of its file."""
        if self.noun == "partition":
            return self.texts[group] or "no partition"
        return without_secrets(self.texts[group]).rstrip("/").rpartition("/")[2]

    def bar(self, label: str, selection: npt.NDArray[np.bool_], *, is_rest: bool = False) -> Bar:
        """Return a bar for the files that the mask `selection` selects."""
        read, deleted, skipped = self._sums(selection)
        remarks = [f"{_percent(deleted, read)} deleted"] if deleted else []
        remarks += ["position deletes"] if self.has_positions[selection].any() else []
        remarks += ["equality deletes"] if self.has_equality[selection].any() else []
        decisions = self.decisions[selection]
        reasons = {"partition": decisions == BY_PARTITION, "statistics": decisions == BY_STATISTICS}
        if by := [reason for reason, mask in reasons.items() if mask.any()]:
            skipped_files = np.count_nonzero(decisions != KEPT)
            share = (
                "" if skipped_files == len(decisions) else f"{skipped_files:,} of {counted(len(decisions), 'file')} "
            )
            remarks.append(f"{share}skipped by {' and '.join(by)}")
        parts = ((BarKind.READ, read - deleted), (BarKind.DELETED, deleted), (BarKind.SKIPPED, skipped))
        value = self._amount(read + skipped)
        return Bar(label=label, parts=parts, value=value, remark=", ".join(remarks), is_rest=is_rest)

    def sentence(self) -> str:
        """Return the totals of all files as text."""
        read, deleted, skipped = self._sums(np.ones(len(self.groups), dtype=np.bool_))
        words = ((read + skipped, ""), (skipped, " skipped"), (deleted, " deleted"))
        return ", ".join(f"{self._amount(number)}{word}" for number, word in words if number or not word)

    def _sums(self, selection: npt.NDArray[np.bool_]) -> tuple[int, int, int]:
        """Return three totals: the amount to read, the deleted part of that amount, and the skipped amount."""
        is_kept = self.decisions == KEPT
        columns = (self.amounts * is_kept, self.deleted, self.amounts * ~is_kept)
        read, deleted, skipped = (int(column[selection].sum(dtype=np.float64)) for column in columns)
        return read, min(deleted, read), skipped

    def _amount(self, number: int) -> str:
        return size_text(number) if self.unit == "byte" else counted(number, self.unit)


def _percent(part: int, whole: int) -> str:
    share = round(100 * part / whole)
    return "< 1 %" if share == 0 else "> 99 %" if share == 100 and part < whole else f"{share} %"


def _files(plan: ScanPlan) -> _FileGroups:
    names, skipped, planned = ["path", "record_count", "size", "partition"], plan.skipped, plan.files
    files, tuples, decisions = planned.select(names), plan.partitions, np.full(planned.num_rows, KEPT, dtype=np.int8)
    if len(skipped):
        files = pa.concat_tables([files, skipped.files.select(names)])
        tuples, decisions = skipped.partitions, np.concatenate([decisions, skipped.decisions])
    numbers = to_numpy(files.column("partition"))
    labels = {number: str(tuples[number])[1:-1] for number in distinct_values(numbers).tolist()}
    groups, texts = np.arange(files.num_rows), files.column("path").to_pylist()
    is_partitioned = any(labels.values())
    if is_partitioned:  # equal tuples of different specs share a bar
        texts = list(dict.fromkeys(labels.values()))
        place_of, places = np.zeros(len(tuples), dtype=np.int64), {text: place for place, text in enumerate(texts)}
        place_of[list(labels)] = [places[text] for text in labels.values()]
        groups = place_of[numbers]
    counts, sizes = files.column("record_count"), files.column("size")
    unit, amounts = ("byte", sizes.fill_null(0)) if counts.null_count else ("row", counts)
    return _FileGroups(
        noun="partition" if is_partitioned else "file",
        texts=texts,
        unit=unit,
        groups=groups,
        amounts=np.clip(to_numpy(amounts), 0, _MOST_ROWS),
        decisions=decisions,
        **_deletes(plan, groups, is_counted=unit == "row" and _has_one_state(plan)),
    )


def _has_one_state(plan: ScanPlan) -> bool:
    """Return whether position deletes hide rows of a single state, so that their numbers of rows can be added.

    In a change data feed, vectors mark changed rows. In a plan with lifetimes, later vectors repeat earlier ones.
    """
    return plan.lifetimes is None and "_change_type" not in {f.name for f in plan.schema.fields}


def _deletes(plan: ScanPlan, groups: npt.NDArray[np.int64], *, is_counted: bool) -> dict[str, Any]:
    """Return the attributes of `_FileGroups` that describe deletes."""
    deleted, others = np.zeros(len(groups), dtype=np.int64), np.zeros(len(groups), dtype=np.bool_)
    group_of = groups.tolist()
    for delete, files in plan.position_hits():
        if is_counted and delete.record_count is not None and len({group_of[file] for file in files}) == 1:
            deleted[files[0]] += min(max(delete.record_count, 0), _MOST_ROWS)
        else:
            others[list(files)] = True
    has_equality = np.zeros(len(groups), dtype=np.bool_)
    scopes = to_numpy(plan.files.column("delete_set"))
    has_equality[: len(scopes)] = np.array([bool(deletes) for deletes in plan.delete_sets])[scopes]
    return {"deleted": deleted, "has_positions": others, "has_equality": has_equality}
