"""What Unity Catalog says of one table, from either generation of its calls (frontier F4.5, F4.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import RequestError
from harness.plan.catalog_answer import CatalogAnswer, catalog_answer

_MANAGED = ("delta.feature.catalogManaged", "delta.feature.catalogOwned-preview")
_SUPPORTED = "supported"


class Unclear(Exception):
    """An answer lacks what it must say, or says what cannot be; its text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """A table as the catalog has it.

    kind: such as MANAGED, EXTERNAL or VIEW. format: such as DELTA or ICEBERG; None: it has no files of its own.
    location: its directory; None: the catalog does not say. id: by which older calls know it.
    managed: whether the catalog alone knows its commits; the property says so, not `kind`.
    sql: of a view, if it is said.
    """

    kind: str
    format: str | None
    location: str | None
    id: str | None
    managed: bool
    sql: str | None = None


def loaded_table(answer: Mapping[str, Any]) -> tuple[TableEntry, CatalogAnswer | None]:
    """The table in an answer of `loadTable`, and its commits if the catalog manages it.

    Raises:
        Unclear: the answer cannot be one.
    """
    metadata = _of(answer, "metadata", dict)
    managed = _is_managed(metadata.get("properties"))
    entry = TableEntry(
        kind=str(metadata.get("table-type") or ""),
        format="DELTA",
        location=_of(metadata, "location", str),
        id=None,
        managed=managed,
    )
    if not managed:
        return entry, None
    return entry, answered(_of(answer, "latest-table-version", int), _of(answer, "commits", list), "file-name")


def listed_table(answer: Mapping[str, Any]) -> TableEntry:
    """The table in an answer of `getTable`."""
    location, format_, id_ = (answer.get(key) for key in ("storage_location", "data_source_format", "table_id"))
    view = answer.get("view_definition")
    return TableEntry(
        kind=str(answer.get("table_type") or ""),
        format=format_.upper() if isinstance(format_, str) else None,
        location=location if isinstance(location, str) and location else None,
        id=id_ if isinstance(id_, str) else None,
        managed=_is_managed(answer.get("properties")),
        sql=view if isinstance(view, str) else None,
    )


def answered(latest: int, commits: Sequence[Any], name: str) -> CatalogAnswer:
    """The catalog's answer about commits; a latest version below 0 says that there are none beside version 0.

    name: the key of a commit's file name.

    Raises:
        Unclear: the answer cannot be one.
    """
    named = [(_of(commit, "version", int), _of(commit, name, str)) for commit in map(_object, commits)]
    try:
        found = catalog_answer(max(latest, 0), named)
    except RequestError as error:
        raise Unclear(error.message.removeprefix("Invalid option ")) from error
    assert found is not None
    return found


def _is_managed(properties: Any) -> bool:
    return isinstance(properties, dict) and any(properties.get(key) == _SUPPORTED for key in _MANAGED)


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Unclear(f"got {value!r:.80}, expected an object")
    return value


def _of(answer: Mapping[str, Any], key: str, kind: type) -> Any:
    value = answer.get(key)
    if type(value) is not kind:
        raise Unclear(f"{key} is {value!r:.80}, expected {kind.__name__}")
    return value
