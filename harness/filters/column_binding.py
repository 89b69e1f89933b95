"""Names of columns, as a caller lists them, to fields."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import RequestError
from harness.filters.column_names import Names
from harness.model.schema import Field, Schema


def bind_columns(names: Sequence[str], schema: Schema) -> tuple[Field, ...]:
    """The fields of `schema`, or metadata columns, that `names` mean, in that order.

    A name is a whole top-level name: `a.b` is the column called that. Spelling decides, as for `parse_filter`.

    Raises:
        UnknownColumnError: a name that no column has, or that several have.
        RequestError: a column is named twice.
    """
    bound = tuple(Names(schema=schema, case_sensitive=True, table=None).resolve((name,)).fields[0] for name in names)
    twice = next((f.name for i, f in enumerate(bound) if f in bound[:i]), None)
    if twice is not None:
        raise RequestError(f"Invalid columns: {twice!r} is named twice", field=twice)
    return bound
