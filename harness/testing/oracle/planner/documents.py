"""Values of JSON documents, checked as they are taken; and the request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from harness.errors import CorruptFileError, InvalidTableError
from harness.metadata.plan.read_options import CatalogAnswer
from harness.testing.oracle.engine.bounded import MOST_VALUES, check

T = TypeVar("T")
Document = Mapping[str, Any]


def parse_json(text: str | bytes, *, file: str) -> Any:
    """The value of a JSON text, integers exact."""
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        check(sum(map(decoded.count, "{[,:")), MOST_VALUES, "values")
        return json.loads(decoded, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"Cannot parse JSON: {error}", file=file) from error


def optional(document: Document, key: str, kind: type[T], *, file: str) -> T | None:
    """The value of a key; None where it is null or absent."""
    value = document.get(key)
    if value is None or type(value) is kind:
        return value
    raise InvalidTableError(f"Invalid {key}: got {value!r}, expected {kind.__name__}", file=file, field=key)


def needed(document: Any, key: str, kind: type[T], *, file: str, cause: str | None = None) -> T:
    """The value of a key. Raises InvalidTableError if the value is null, absent, or of another kind."""
    value = optional(mapping(document, file=file), key, kind, file=file)
    if value is None:
        raise InvalidTableError(f"Missing {key}, expected {kind.__name__}", cause=cause, file=file, field=key)
    return value


def mapping(value: Any, *, file: str) -> dict[str, Any]:
    """The value as a JSON object. Raises InvalidTableError for any other."""
    if not isinstance(value, dict):
        raise InvalidTableError(f"Invalid document: got {value!r:.80}, expected an object", file=file)
    return value


def of_kind(value: Any, kind: type) -> Any:
    """The value, of this type and no subclass. Raises ValueError for any other."""
    if type(value) is not kind:
        raise ValueError(f"got {value!r:.80}, expected {kind.__name__}")
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """The arguments of `harness.testing.oracle.planner.plan.plan_unpruned`."""

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
