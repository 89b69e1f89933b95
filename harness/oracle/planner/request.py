"""What a caller of the planner asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.plan.catalog_answer import CatalogAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The arguments of `harness.oracle.planner.plan_unpruned`."""

    location: str
    snapshot_id: int | None
    version: int | None
    timestamp_ms: int | None
    ref: str | None
    columns: tuple[str, ...] | None
    where: str | None
    path_map: Mapping[str, str]
    answer: CatalogAnswer | None = None
    published_only: bool = False
