from __future__ import annotations

import pytest


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest) -> str:
    """Every engine that reads the corpus."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    return str(request.param)
