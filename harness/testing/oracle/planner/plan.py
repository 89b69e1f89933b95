"""A second planner, for the oracle: straight from the specifications, and without any skipping.

    plan = plan_unpruned("warehouse/orders", where="region = 'eu'")
    assert find_engine("oracle").to_arrow(plan) == …

It reads metadata, manifests and logs with the plainest code that does it, one after the other, and shares none with
the formats of harness. So where both planners give the same rows, skipping and replay did no harm. Numbers of rules in
its modules are those of the pages in `docs/rules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harness.errors import AmbiguousTableError, HarnessError, RequestError
from harness.metadata.plan.read_options import Ratified, catalog_answer
from harness.metadata.plan.scan_plan import ScanPlan, within_roots
from harness.storage.gate import Outside, Roots
from harness.storage.paths import join
from harness.storage.stores import Storage
from harness.testing.oracle.planner.delta import plan_delta
from harness.testing.oracle.planner.documents import ReadRequest
from harness.testing.oracle.planner.iceberg import plan_iceberg

__all__ = ["plan_unpruned"]


def plan_unpruned(
    location: str,
    *,
    snapshot_id: int | None = None,
    version: int | None = None,
    timestamp_ms: int | None = None,
    ref: str | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    path_map: Mapping[str, str] | None = None,
    max_version: int | None = None,
    ratified: Iterable[Ratified] | None = None,
    published_only: bool = False,
    allowed_roots: Sequence[str] = (),
    outside: Outside = Outside.WARN,
) -> ScanPlan:
    """The plan of a read that opens every live file of the snapshot, for any engine.

    Args:
        location: a table's directory or, for Iceberg, a metadata file.
        snapshot_id, version: a snapshot of an Iceberg table; a version of a Delta table, which either may name.
        timestamp_ms: the state at a time, in milliseconds since 1970-01-01 UTC, inclusive.
        ref: a branch or tag of an Iceberg table.
        columns: names in the order wanted; None: all of the schema.
        where: a boolean SQL expression; it skips no file.
        path_map: prefixes of recorded paths and where they are now.
        max_version, ratified, published_only, allowed_roots, outside: as for `harness.open_table`.

    Raises:
        RequestError: a selector, a column or the filter is wrong; SnapshotNotFoundError is one.
        TableNotFoundError, InvalidTableError, MissingFileError, UnsupportedError: as for `harness.open_table` and
            `Snapshot.plan`; so is OutsideTableError.
    """
    request = ReadRequest(
        location=location,
        snapshot_id=snapshot_id,
        version=version,
        timestamp_ms=timestamp_ms,
        ref=ref,
        columns=None if columns is None else tuple(columns),
        where=where,
        path_map=path_map or {},
        answer=catalog_answer(max_version, ratified, published_only=published_only),
        published_only=published_only,
    )
    try:
        storage = Storage(roots=Roots.of(location, (*request.path_map.values(), *allowed_roots), outside=outside))
        is_delta = storage.is_directory(join(location, "_delta_log"))
        if not is_delta and version is not None:
            raise RequestError("Cannot select a version: Iceberg tables have snapshot ids")
        names = storage.names(join(location, "metadata")) if is_delta else ()
        if any(name == "version-hint.text" or name.endswith(".metadata.json") for name in names):
            raise AmbiguousTableError("There is both a Delta log and Iceberg metadata", rule="delta U1")
        return within_roots((plan_delta if is_delta else plan_iceberg)(request, storage))
    except HarnessError as error:
        raise error.within(table=location) from error.__cause__
