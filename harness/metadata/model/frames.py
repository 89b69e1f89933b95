"""Conversion of Arrow tables to DataFrames of pandas and Polars, with lossless types, and to HTML for notebooks.

UUIDs, an extension type in Arrow, become text in DataFrames: pandas cannot show them, and Polars returns bytes.
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
    """Return the rows with Arrow dtypes, which round nothing.

    Raises:
        RequestError: pandas is missing.
    """
    try:
        import pandas as pd
    except ImportError:
        raise _missing("pandas") from None
    return _with_text(rows).to_pandas(types_mapper=pd.ArrowDtype)


def to_polars(rows: pa.Table) -> pl.DataFrame:
    """Return the rows with Polars types.

    Raises:
        RequestError: Polars is missing.
    """
    try:
        import polars as pl
    except ImportError:
        raise _missing("polars") from None
    frame = pl.from_arrow(_with_text(rows))
    assert isinstance(frame, pl.DataFrame), "a table is no single column"
    return frame


def _missing(package: str) -> RequestError:
    return RequestError(f"Cannot make a DataFrame: {package} is not installed; run pip install {package}")


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
    text_types = [_text_type(child) for child in types]
    return type_ if text_types == types else nested_type(type_, text_types)


def _convert(array: pa.Array, target: pa.DataType) -> pa.Array:
    if array.type.equals(target):
        return array
    if isinstance(array.type, pa.UuidType):
        return array_of([None if v is None else str(uuid.UUID(bytes=v)) for v in array.storage.to_pylist()], target)
    pairs = zip(children_of(array), child_types(target), strict=True)
    return with_children(array, [_convert(child, type_) for child, type_ in pairs], target)


_MOST_COLUMNS = 100


def html_description(title: str, facts: Mapping[str, object], schema: Schema) -> str:
    """Return a heading, a list of the facts that are not None, and the columns with their types, as HTML."""
    from harness.metadata.model.text_tables import Column, html_table  # reads do not need this import

    items = "".join(
        f"<li>{html_text(name)}: <code>{html_text(value)}</code></li>"
        for name, value in facts.items()
        if value is not None
    )
    columns = [Column("column"), Column("type"), Column(""), Column("")]
    rows = [(f.name, str(f.type), "required" if f.required else "", f.doc or "") for f in schema.fields[:_MOST_COLUMNS]]
    omitted = len(schema.fields) - _MOST_COLUMNS
    more = f"<p>{omitted} more columns</p>" if omitted > 0 else ""
    return f"<div><p><b>{html_text(title)}</b></p><ul>{items}</ul>{html_table(columns, rows)}{more}</div>"


def html_preformatted(text: str, *, in_notebook: bool = False) -> str:
    """Return a plain text report as HTML, line by line. Notebooks need a font setting, because they have their own."""
    font = ' style="font-family: monospace; white-space: pre; overflow-x: auto"' if in_notebook else ""
    return f'<pre tabindex="0"{font}>{html_lines(text)}</pre>'
