from __future__ import annotations

import pytest

ORACLE_ROWS = 20_000


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=pytest.mark.harness_spark), "oracle"])
def engine(request: pytest.FixtureRequest) -> str:
    """Every engine that reads the corpus."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    if request.param == "oracle" and (rows := expected_rows(request)) > ORACLE_ROWS:
        pytest.skip(f"the oracle reads row by row, and {rows} are too many")
    return str(request.param)


def expected_rows(request: pytest.FixtureRequest) -> int:
    """How many rows the case of a test has; 0 where it does not say."""
    case = request.node.callspec.params.get("case")
    return 0 if case is None else case.expected.get("rows") or 0
