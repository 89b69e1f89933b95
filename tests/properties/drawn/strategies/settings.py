"""Settings of new tables, in the form of a scenario's key `table`."""

from typing import Any

from hypothesis import strategies as st

from drawn.models.model import model_of
from drawn.strategies.delta_operations import partition_columns
from drawn.strategies.iceberg_operations import partition_specs
from drawn.strategies.types import Draw, TableKind, schemas


@st.composite
def tables(draw: Draw, kind: TableKind) -> dict[str, Any]:
    """Draw a table of a format and version: its schema, partitioning, and column mapping."""
    schema = draw(schemas(kind))
    if kind == "delta":
        table: dict[str, Any] = {"schema": schema}
        columns = model_of("delta", table).columns
        if by := draw(partition_columns(columns)):
            table["partition-columns"] = by
        if mapping := draw(st.sampled_from([None, "name", "id"])):
            table["column-mapping"] = mapping
        if draw(st.booleans()):
            table["features"] = ["v2Checkpoint"]
        return table
    table = {"format-version": int(kind[-1]), "schema": schema}
    spec = draw(st.one_of(st.just([]), partition_specs(model_of("iceberg", table).columns)))
    return table | ({"partition-spec": spec} if spec else {})
