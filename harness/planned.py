"""Plans that were made in another process, and the rows that they read."""

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
    """Return the rows of a plan, for example one read by `ScanPlan.from_ipc`, without planning again.

    As in `open_table`, every file of the plan is checked against the table's roots before any file is opened.

    Args:
        plan: The plan.
        location: The table's location. A relative path is resolved against the current working directory. None for the
            location that the plan names; set it if you do not trust the source of the plan.
        storage_options: As for `open_table`.
        allowed_roots: Directories, in addition to `location`, that files of the plan may be in.
        outside: How to treat files elsewhere in the store of `location`: `refuse` raises an error, `warn` reads them.
        limits: As for `open_table`.
        untrusted: As for `open_table`: whether somebody you do not trust may have written the table.

    Returns:
        The rows.

    Raises:
        OutsideTableError: The plan names a file that may not be read.
        RequestError: An option has an invalid value.
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
