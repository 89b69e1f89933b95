"""Every table of the corpus by the oracle, which reads apart: the rows of harness, or an error too."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from canonical import canonical_table
from test_delta_corpus import delta_cases
from test_iceberg_corpus import Case, iceberg_cases

import harness
from harness.engines.oracle import read_apart

ORACLE_ROWS = 20_000
pytestmark = pytest.mark.corpus


@pytest.mark.parametrize("case", [*iceberg_cases(), *delta_cases()])
def test_readers_agree(case: Case):
    if (rows := case.expected.get("rows") or 0) > ORACLE_ROWS:
        pytest.skip(f"the oracle reads row by row, and {rows} are too many")
    location = str(case.location)
    apart = outcome(case, lambda: read_apart(location))
    assert apart == outcome(case, lambda: harness.open_table(location).snapshot().to_arrow())


def outcome(case: Case, read: Callable[[], pa.Table]) -> str:
    try:
        return canonical_table(read()).text()
    except harness.HarnessError:
        assert case.expected["outcome"] != "rows" or "column_mapping.my_table" in case.id
        return "error"
