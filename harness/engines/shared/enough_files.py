"""The first files of a plan that have enough rows, where a query is content with any: `SELECT * FROM orders LIMIT 5`.

Rows are counted by the files' own footers, less the deleted positions: recorded counts may be wrong (iceberg 7.2). A
file that a filter or an equality delete may take rows from counts for nothing.
"""

from __future__ import annotations

from dataclasses import replace

from harness.engines.shared.file_groups import Looks
from harness.engines.shared.union_arms import PlannedFiles
from harness.plan.scan_plan import ScanPlan


def with_enough(plan: ScanPlan, looks: Looks) -> ScanPlan:
    """The plan of as many of its first files as have `plan.enough` rows, or of all; files are looked at until then.

    Raises:
        HarnessError: as looking at the files, and reading their positional deletes.
    """
    total, enough = plan.files.num_rows, plan.enough
    if enough is None or plan.filter is not None:
        return plan
    rows, start, end = 0, 0, 1
    while start < total:
        rows += _rows(plan, start, min(end, total), looks)
        if rows >= enough:
            return _first(plan, min(end, total))
        start, end = end, 2 * end + 1  # looks wait for each other, so there are more with each
    return plan


def _rows(plan: ScanPlan, start: int, end: int, looks: Looks) -> int:
    """The rows that certainly are in the files of these ordinals."""
    part = plan.files.slice(start, end - start)
    planned = PlannedFiles.of(replace(plan, files=part))
    counted = [i for i in planned if planned.format[i] == "parquet" and not plan.delete_sets[planned.delete_set[i]]]
    files = [planned.scan_file(i, (None, False), exact=False) for i in counted]
    looks.prefetch(files)
    deleted = plan.load_positions([start + i for i in counted if planned.has_positions[i]])
    found = [looks.opened(file).rows or 0 for file in files]
    return sum(max(rows - len(deleted.get(start + i, ())), 0) for i, rows in zip(counted, found, strict=True))


def _first(plan: ScanPlan, count: int) -> ScanPlan:
    """The plan of the first files. A file's ordinal stays what it is, so all that goes by ordinals does."""
    versions = plan.row_commit_versions
    return replace(
        plan,
        files=plan.files.slice(0, count),
        row_commit_versions=None if versions is None else versions.slice(0, count),
    )
