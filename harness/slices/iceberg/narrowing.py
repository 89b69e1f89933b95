"""A slice with fewer columns: which of them it cannot do without, and what the metadata says without the others."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from typing import Any

from harness.errors import RequestError
from harness.iceberg.manifests import Content
from harness.iceberg.transforms import Void
from harness.model.schema import Field, walk
from harness.slices.iceberg.contents import Contents

_NAME_MAPPING = "schema.name-mapping.default"


def check_columns(contents: Contents, columns: tuple[Field, ...], *, compact: bool) -> None:
    """Refuses columns without those that partitions or equality deletes need.

    Raises:
        RequestError: names what lacks.
    """
    ids = {f.id for _, f in walk(columns)}
    specs = contents.source.metadata.specs
    known = contents.selection.schema.by_id()
    used = {entry.file.spec_id for entry in contents.files(*Content)} | {contents.source.metadata.default_spec_id}
    for spec_id in used & specs.keys():
        for f in specs[spec_id].fields:
            if not isinstance(f.transform, Void):
                # The source of a field may be a column that the table has dropped; then the slice need not have it.
                sources = [id_ for id_ in f.source_ids if id_ in known]
                _require(sources, ids, contents, f"the partition field {f.name}")
    if not compact:
        for entry in contents.files(Content.EQUALITY_DELETES):
            _require(entry.file.equality_ids or (), ids, contents, "an equality delete")


def _require(needed: Iterable[int], ids: set[int], contents: Contents, by: str) -> None:
    metadata = contents.source.metadata
    known = contents.selection.schema.by_id()
    for id_ in needed:
        if id_ in ids:
            continue
        name = known[id_][0][0] if id_ in known else f"of id {id_}, which the table has dropped"
        raise RequestError(
            f"Cannot leave out column {name}: {by} needs it; name it in columns",
            table=metadata.location,
            field=name,
            options=("columns", "compact"),
        )


def narrowed(
    source: Mapping[str, Any], columns: tuple[Field, ...], contents: Contents
) -> tuple[dict[str, Any], list[str]]:
    """The document with these columns alone, and what it lacks besides, a sentence each."""
    document = copy.deepcopy(dict(source))
    kept = {f.id for f in columns}
    ids = {f.id for _, f in walk(columns)}
    for schema in (*(document.get("schemas") or ()), *([document["schema"]] if "schema" in document else ())):
        schema["fields"] = [f for f in schema["fields"] if f["id"] in kept]
        if "identifier-field-ids" in schema:
            schema["identifier-field-ids"] = [i for i in schema["identifier-field-ids"] if i in ids]
    told = _without_orders(document, ids)
    _without_specs(document, ids, contents)
    properties = document.get("properties") or {}
    gone = {f.name for schema in contents.source.metadata.schemas.values() for f in schema.fields if f.id not in kept}
    document["properties"] = {
        name: text
        for name, text in properties.items()
        if not any(name.endswith(f".column.{column}") for column in gone)
    }
    if _NAME_MAPPING in properties:
        mapping = [m for m in json.loads(properties[_NAME_MAPPING]) if m.get("field-id") in kept]
        document["properties"][_NAME_MAPPING] = json.dumps(mapping)
    return document, told


def _without_orders(document: dict[str, Any], ids: set[int]) -> list[str]:
    """Sort orders by a column that is gone are gone too."""
    orders = document.get("sort-orders") or []
    kept = [order for order in orders if all(source in ids for f in order["fields"] for source in _sources(f))]
    if len(kept) == len(orders):
        return []
    if not any(order["order-id"] == 0 for order in kept):
        kept.append({"order-id": 0, "fields": []})
    document["sort-orders"] = kept
    if document.get("default-sort-order-id") not in {order["order-id"] for order in kept}:
        document["default-sort-order-id"] = 0
    return ["Left out sort orders, as they have columns that are left out"]


def _without_specs(document: dict[str, Any], ids: set[int], contents: Contents) -> None:
    """Specs that no file of the slice has, by columns that are gone."""
    used = {entry.file.spec_id for entry in contents.files(*Content)} | {document.get("default-spec-id", 0)}
    specs = document.get("partition-specs")
    if specs is not None:
        document["partition-specs"] = [
            spec
            for spec in specs
            if spec["spec-id"] in used or all(source in ids for f in spec["fields"] for source in _sources(f))
        ]


def _sources(field: Mapping[str, Any]) -> list[int]:
    return [field["source-id"]] if "source-id" in field else list(field.get("source-ids") or ())
