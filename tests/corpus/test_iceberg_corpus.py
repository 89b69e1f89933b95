"""Iceberg tables that other projects wrote, against what reading them must give.

The corpus is a directory with `cases.json`; HARNESS_CORPUS names it, default `../shared/corpus` beside the repository.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from canonical import SEPARATOR, CanonicalTable, canonical_table

import harness

pytestmark = pytest.mark.corpus

ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("HARNESS_CORPUS") or ROOT.parent / "shared" / "corpus")

# Cases that cannot give their rows: the error that must come instead, and why. One that reads after all fails.
EXCEPTIONS: dict[str, tuple[type[harness.HarnessError], str]] = {
    "iceberg/duckdb-iceberg/column_mapping.my_table": (
        harness.MissingFileError,
        "the corpus holds no data for it: the manifest names …/warehouse/example/mock_data.parquet, outside the table",
    ),
}


@dataclass(frozen=True)
class Case:
    """A table, the metadata file to read it at, and what must come of it."""

    id: str
    location: Path
    expected: dict[str, Any]


def iceberg_cases() -> list[Any]:
    index = CORPUS / "cases.json"
    if not index.is_file():
        reason = f"no corpus at {CORPUS}; set HARNESS_CORPUS to the directory that holds cases.json"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="no corpus")]
    return [
        pytest.param(Case(case["id"], CORPUS / case["path"] / case["metadata_file"], case["expected"]), id=case["id"])
        for case in json.loads(index.read_text("utf-8"))
        if case["format"] == "iceberg"
    ]


@pytest.mark.parametrize("case", iceberg_cases())
def test_iceberg_corpus(case: Case, engine: str, record_property):
    record_property("corpus_case", case.id)
    record_property("corpus_engine", engine)
    if case.id in EXCEPTIONS:
        error, reason = EXCEPTIONS[case.id]
        with pytest.raises(error):
            read(case, engine)
        pytest.xfail(f"{error.__name__}: {reason}")
    record_property("corpus_outcome", check(case, engine))


def check(case: Case, engine: str) -> str:
    """Assert what the case says; return `rows` or `error`, whichever it came to."""
    match case.expected["outcome"]:
        case "rows":
            assert_rows(read(case, engine), case.expected)
            return "rows"
        case "must be an error":
            with pytest.raises(harness.HarnessError):
                read(case, engine)
            return "error"
        case "these rows or a clear error":
            try:
                rows = read(case, engine)
            except harness.HarnessError:
                return "error"
            assert_rows(rows, case.expected)
            return "rows"
        case outcome:
            pytest.fail(f"cases.json says {outcome!r}, which this test does not know")


def read(case: Case, engine: str) -> CanonicalTable:
    return canonical_table(harness.open_table(str(case.location)).snapshot().to_arrow(engine=engine))


def assert_rows(got: CanonicalTable, expected: dict[str, Any]) -> None:
    if (columns := expected.get("columns")) is not None:
        assert got.names == tuple(sorted(columns))
    assert len(got.rows) == expected["rows"]
    if (file := expected.get("file")) is not None:
        names, *rows = (CORPUS / file).read_text("utf-8").removesuffix("\n").split("\n")
        assert got.names == tuple(names.split(SEPARATOR))
        assert list(got.rows) == rows
    if (digest := expected.get("hash")) is not None:
        assert got.hash() == digest
