"""What a scenario knows of the catalog that manages its table, as arguments of a read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.errors import RequestError
from harness.testing.scenarios.arguments import Arguments, checked


def opening_of(
    catalog: Mapping[str, Any] | str | None, staged: Mapping[int, str], held: Mapping[int, bytes]
) -> dict[str, Any]:
    """Arguments of `harness.open_table`, and of the oracle's planner.

    Args:
        catalog: as in a scenario's expectation.
        staged: names of staged commits by version. held: content of those that only the catalog has.

    Raises:
        RequestError: it is no answer, or names a version that is neither staged nor held.
    """
    if catalog is None:
        return {}
    if catalog == "published":
        return {"published_only": True}
    given = Arguments(catalog, "'catalog'")
    latest, ratified = given.integer("max-version"), given.of(list, "ratified", [])
    given.finish()
    known: dict[int, str | tuple[int, bytes]] = {**staged, **{version: (version, held[version]) for version in held}}
    return {"max_version": latest, "ratified": tuple(_commit(each, known) for each in ratified)}


def _commit(given: Any, known: Mapping[int, str | tuple[int, bytes]]) -> str | tuple[int, bytes]:
    if isinstance(given, str):
        return given  # a name as it stands, which may be of no commit
    version = checked(int, given, "'ratified'")
    if version not in known:
        raise RequestError(f"Invalid 'ratified': version {version} was neither staged nor held")
    return known[version]
