"""A slice with fewer rows or columns: what it cannot do without, and what the metadata says without the others."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from harness.delta.actions import Metadata
from harness.errors import RequestError, UnsupportedError
from harness.model.schema import Field
from harness.slices.delta.contents import Contents

_SKIPPING = "delta.dataSkippingStatsColumns"
_EXPRESSIONS = ("delta.generationExpression", "delta.invariants")
_CONSTRAINT = "delta.constraints."
_CLUSTERING = "delta.clustering"


def check_rewritable(contents: Contents, columns: tuple[Field, ...] | None) -> None:
    """Refuses what files cannot lose rows or columns of.

    Raises:
        UnsupportedError: the versions have files of changes.
        RequestError: a column is left out that the table needs.
    """
    if any(commit.cdc for commit in contents.commits):
        raise UnsupportedError(
            "Cannot cut rows or columns: the versions have files of changes, which would still have them; pull one "
            "version, or whole files",
            table=contents.table.location,
        )
    if columns is None:
        return
    for metadata in (contents.root.metadata, *(c.metadata for c in contents.commits if c.metadata is not None)):
        _check_columns(metadata, columns, contents)


def _check_columns(metadata: Metadata, columns: tuple[Field, ...], contents: Contents) -> None:
    kept = {f.name for f in columns}
    schema = json.loads(metadata.schema_string)
    gone = [f for f in schema["fields"] if f["name"] not in kept]
    partition = {name.casefold() for name in metadata.partition_columns}
    needed = {f["name"]: "the table is partitioned by it" for f in gone if f["name"].casefold() in partition}
    texts = {
        f"the column {f['name']}": str(f["metadata"][key])
        for f in schema["fields"]
        if f["name"] in kept
        for key in _EXPRESSIONS
        if key in f.get("metadata", {})
    }
    texts |= {
        f"the constraint {key.removeprefix(_CONSTRAINT)}": text
        for key, text in metadata.configuration.items()
        if key.startswith(_CONSTRAINT)
    }
    domain = contents.root.domains.get(_CLUSTERING)
    texts |= {} if domain is None else {"the clustering": domain.configuration}
    for f in gone:
        physical = f.get("metadata", {}).get("delta.columnMapping.physicalName", f["name"])
        for by, text in texts.items():
            if any(_names(text, name) for name in (f["name"], physical)):
                needed[f["name"]] = f"{by} needs it"
        if f["name"] in needed:
            raise RequestError(
                f"Cannot leave out column {f['name']}: {needed[f['name']]}; name it in columns",
                table=contents.table.location,
                field=f["name"],
                options=("columns",),
            )


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", text, re.IGNORECASE) is not None


def narrowed(metadata: Metadata, columns: tuple[Field, ...]) -> Metadata:
    """The metadata with these columns alone; which columns have statistics is no longer said by name."""
    kept = {f.name for f in columns}
    schema: dict[str, Any] = json.loads(metadata.schema_string)
    schema["fields"] = [f for f in schema["fields"] if f["name"] in kept]
    configuration = {name: text for name, text in metadata.configuration.items() if name != _SKIPPING}
    return replace(metadata, schema_string=json.dumps(schema), configuration=configuration)
