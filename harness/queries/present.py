"""When a query is made; apart from what reads queries, for that is slow to import."""

from __future__ import annotations

import datetime
from dataclasses import field

from harness.records import dataclass


def _present() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


@dataclass(frozen=True, slots=True)
class Now:
    """When a query is made.

    earliest: no run of it has an earlier moment; in UTC, without a zone. It is the present one by default.
    """

    earliest: datetime.datetime = field(default_factory=_present)
