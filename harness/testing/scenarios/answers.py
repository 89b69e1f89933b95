"""Built tables and their expected results as plain files, for any other engine.

    DIR/index.json                         {format, kind, cases: [{name, title, table_format, features, clauses, case}]}
    DIR/<scenario>/table/                  the table; `case.json` names its place
    DIR/<scenario>/case.json               where it is, what to read, and what that must give
    DIR/<scenario>/expected/<n>.parquet    the rows of the n-th read, in exact types
    DIR/<scenario>/expected/<n>.json       the same: {format, kind, columns: [{name, type, nullable}],
                                           rows: [[value, ...], ...]}

In JSON, dates, times and timestamps are whole numbers in the unit of the type (days, micros, ... since 1970-01-01 UTC),
decimals and UUIDs are text, binary is hex text, maps are lists of [key, value], NaN and infinities are the texts NaN,
Infinity and -Infinity. Row order means nothing.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import json_text
from harness.testing.scenarios.model import Built, ExpectedError, ResolvedExpectation, Scenario

FORMAT = 1
"""The number of the JSON files; a reader should refuse others. `kind` is index, case or expected."""


def write_expected(built: Built, directory: Path) -> Path:
    """Write `case.json` and `expected/` of a built scenario into a directory; the path of `case.json`."""
    (directory / "expected").mkdir(parents=True, exist_ok=True)
    scenario = built.scenario
    document = {
        "format": FORMAT,
        "kind": "case",
        **_told(scenario),
        "location": str(built.location),
        "metadata": None if built.metadata_path is None else str(built.metadata_path),
        "reads": [_read(expectation, directory) for expectation in built.expectations],
    }
    path = directory / "case.json"
    path.write_text(_json(document), encoding="utf-8")
    return path


def write_index(cases: Sequence[tuple[Built, Path]], directory: Path) -> Path:
    """Write `index.json` of built scenarios and their case files; its path."""
    entries = [{**_told(built.scenario), "case": case.relative_to(directory).as_posix()} for built, case in cases]
    path = directory / "index.json"
    path.write_text(_json({"format": FORMAT, "kind": "index", "cases": entries}), encoding="utf-8")
    return path


def _told(scenario: Scenario) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "title": scenario.title,
        "table_format": scenario.format,
        "clauses": list(scenario.clauses),
        "features": list(scenario.features),
    }


def _rows_document(rows: pa.Table) -> dict[str, Any]:
    """Rows and their types as one JSON document."""
    columns = [{"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in rows.schema]
    values = [[json_value(scalar) for scalar in column] for column in rows.columns]
    listed = [list(row) for row in zip(*values, strict=True)] if values else []
    return {"format": FORMAT, "kind": "expected", "columns": columns, "rows": listed}


def json_value(scalar: pa.Scalar) -> Any:
    """An Arrow value as the JSON of this module has it."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if isinstance(kind, pa.UuidType):
        return str(uuid.UUID(bytes=scalar.value.as_py()))
    if pa.types.is_struct(kind):
        return {f.name: json_value(scalar[i]) for i, f in enumerate(kind)}
    if pa.types.is_map(kind):
        return [[json_value(pair[0]), json_value(pair[1])] for pair in scalar.values]
    if pa.types.is_list(kind):
        return [json_value(item) for item in scalar.values]
    if pa.types.is_temporal(kind):
        return scalar.value
    if pa.types.is_decimal(kind):
        return f"{scalar.as_py():f}"
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return scalar.as_py().hex()
    value = scalar.as_py()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _read(expectation: ResolvedExpectation, directory: Path) -> dict[str, Any]:
    at = expectation.at
    changes = None if at.changes is None else {"from": at.changes[0], "to": at.changes[1]}
    document: dict[str, Any] = {
        "number": expectation.number,
        "at": {**at.arguments(), **({} if changes is None else {"changes": changes})},
        "columns": None if expectation.columns is None else list(expectation.columns),
        "where": expectation.where,
        "open": expectation.open,
    }
    if expectation.opening:
        document["catalog"] = {name: _plain(value) for name, value in expectation.opening.items()}
    match expectation.expected:
        case ExpectedError(kind, words, cause):
            document["error"] = {"kind": kind, "match": words, "cause": cause}
        case pa.Table() as rows:
            name = f"expected/{expectation.number}"
            pq.write_table(_writable(rows), directory / f"{name}.parquet")
            (directory / f"{name}.json").write_text(_json(_rows_document(rows)), encoding="utf-8")
            document["rows"] = {"count": rows.num_rows, "parquet": f"{name}.parquet", "json": f"{name}.json"}
        case _:
            pass
    return document


def _plain(value: Any) -> Any:
    """The answer of a catalog, with held commits as text."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


def _writable(rows: pa.Table) -> pa.Table:
    """The rows, with required columns that hold nulls made nullable: Parquet would refuse them."""
    fields = [f.with_nullable(f.nullable or rows.column(i).null_count > 0) for i, f in enumerate(rows.schema)]
    return pa.Table.from_arrays(rows.columns, schema=pa.schema(fields))


def _json(document: Any) -> str:
    return json_text(document, indent=1) + "\n"
