"""Plans that another process made, with their rows"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from harness.metadata.model.arguments import validate_call
from harness.metadata.plan.scan_plan import ScanPlan
from harness.metadata.planned_scan import with_storage, within_roots
from harness.snapshot import PlannedRows
from harness.storage.limits import DEFAULT, Limits
from harness.table import open_storage


@validate_call
def open_plan(
    plan: ScanPlan,
    *,
    location: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    allowed_roots: Sequence[str] = (),
    outside: str = "refuse",
    limits: Limits | None = None,
    untrusted: bool = False,
) -> PlannedRows:
    """Return the rows of a plan, such as one that `ScanPlan.from_ipc` read; nothing is planned again.

    Every file of the plan is held against the roots of the table, as in `open_table`, before any is opened.

    Args:
        plan: The plan.
        location: The table's location. None for the location that the plan names: state it if you do not trust where
            the plan comes from. A relative one starts in the process's directory.
        storage_options: As for `open_table`.
        allowed_roots: Directories that the plan's files may be in, beside `location`.
        outside: What becomes of files elsewhere in the store of `location`: `refuse`, or `warn`, which reads them.
        limits: As for `open_table`.
        untrusted: Whether somebody else wrote the table, as for `open_table`.

    Raises:
        OutsideTableError: A file may not be read.
        RequestError: An option is wrong.
    """
    place = plan.table if location is None else os.fspath(location)
    storage = open_storage(
        place,
        options=storage_options or {},
        limits=DEFAULT if limits is None else limits,
        targets=(),
        allowed_roots=tuple(map(str, allowed_roots)),
        outside=outside,
        untrusted=untrusted,
    )
    if place.endswith(".metadata.json"):
        storage = storage.including_table(place, place)
    return PlannedRows(within_roots(with_storage(plan, storage.for_read())))
