"""Where Delta Lake and harness differ on a scenario, and why harness stays as it is."""

from __future__ import annotations

DIFFERENCES: dict[str, str] = {}
"""`scenario` for all of its reads, or `scenario#n` for its nth, to the reason."""


def known(scenario: str, read: int) -> str | None:
    """Why a read of a scenario differs; None: it must not."""
    return DIFFERENCES.get(f"{scenario}#{read}", DIFFERENCES.get(scenario))
