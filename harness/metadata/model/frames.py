"""Arrow tables as DataFrames of pandas and Polars, in types that lose nothing.

UUIDs, which are an extension type in Arrow, are text there: pandas cannot show them, and Polars gives bytes.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from harness.errors import RequestError, html_lines, html_text
from harness.metadata.model.arrow_values import (
    array_of,
    can_rebuild,
    child_types,
    children_of,
    nested_type,
    with_children,
)
from harness.metadata.model.schema import Schema

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


def to_pandas(rows: pa.Table) -> pd.DataFrame:
    """The rows with Arrow dtypes, in which nothing is rounded. Raises RequestError without pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise _missing("pandas") from None
    return _with_text(rows).to_pandas(types_mapper=pd.ArrowDtype)


def to_polars(rows: pa.Table) -> pl.DataFrame:
    """The rows in Polars' own types. Raises RequestError without Polars."""
    try:
        import polars as pl
    except ImportError:
        raise _missing("polars") from None
    found = pl.from_arrow(_with_text(rows))
    assert isinstance(found, pl.DataFrame), "a table is no single column"
    return found


def _missing(package: str) -> RequestError:
    return RequestError(f"Cannot make a DataFrame: {package} is not installed, pip install {package}")


def _with_text(rows: pa.Table) -> pa.Table:
    types = [_text_type(field.type) for field in rows.schema]
    if types == rows.schema.types:
        return rows
    columns = [
        pa.chunked_array([_convert(chunk, type_) for chunk in column.chunks], type_)
        for column, type_ in zip(rows.columns, types, strict=True)
    ]
    return pa.table(columns, schema=pa.schema([f.with_type(t) for f, t in zip(rows.schema, types, strict=True)]))


def _text_type(type_: pa.DataType) -> pa.DataType:
    if isinstance(type_, pa.UuidType):
        return pa.string()
    if not can_rebuild(type_):
        return type_
    types = child_types(type_)
    changed = [_text_type(child) for child in types]
    return type_ if changed == types else nested_type(type_, changed)


def _convert(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type.equals(target):
        return array
    if isinstance(array.type, pa.UuidType):
        return array_of([None if v is None else str(uuid.UUID(bytes=v)) for v in array.storage.to_pylist()], target)
    pairs = zip(children_of(array), child_types(target), strict=True)
    return with_children(array, [_convert(child, type_) for child, type_ in pairs], target)


# Tables in notebooks, as HTML. No text of a table becomes markup.


_MOST_COLUMNS = 100


def html_description(title: str, facts: Mapping[str, object], schema: Schema) -> str:
    """A heading, what is known as a list, and the columns with their types; facts that are None are left out."""
    from harness.metadata.model.text_tables import Column, html_table  # a read needs neither

    known = "".join(
        f"<li>{html_text(name)}: <code>{html_text(value)}</code></li>"
        for name, value in facts.items()
        if value is not None
    )
    columns = [Column("column"), Column("type"), Column(""), Column("")]
    rows = [(f.name, str(f.type), "required" if f.required else "", f.doc or "") for f in schema.fields[:_MOST_COLUMNS]]
    left = len(schema.fields) - _MOST_COLUMNS
    more = f"<p>{left} more columns</p>" if left > 0 else ""
    return f"<div><p><b>{html_text(title)}</b></p><ul>{known}</ul>{html_table(columns, rows)}{more}</div>"


def html_preformatted(text: str, *, in_notebook: bool = False) -> str:
    """A report in plain text, line by line. in_notebook: with a font of its own, where notebooks have another."""
    font = ' style="font-family: monospace; white-space: pre; overflow-x: auto"' if in_notebook else ""
    return f'<pre tabindex="0"{font}>{html_lines(text)}</pre>'
