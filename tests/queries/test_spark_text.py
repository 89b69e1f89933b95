"""What Spark is given where a text that means the same would cost it more."""

import pytest

from harness.metadata.model.schema import DecimalType, FloatType, IntegerType
from harness.queries.transpile import queries

COLUMNS = {"id": IntegerType(64), "f": FloatType(64), "short": DecimalType(7, 2), "long": DecimalType(30, 2)}


@pytest.mark.parametrize(
    ("expression", "written"),
    [
        pytest.param("sum(short)", "CAST(SUM(t0.`short`) AS DECIMAL(38, 2))", id="added-as-longs"),
        pytest.param("sum(long)", "SUM(CAST(t0.`long` AS DECIMAL(38, 2)))", id="no-ten-digits-left"),
        pytest.param(
            "avg(short)",
            "(CAST(CAST(SUM(t0.`short`) AS DECIMAL(38, 2)) AS DOUBLE) "
            "/ SUM(CASE WHEN (t0.`short`) IS NOT NULL THEN 1L END))",
            id="average-without-count",
        ),
    ],
)
def test_aggregates(expression: str, written: str) -> None:
    assert queries.query(f"SELECT {expression} AS c FROM t", {"t": COLUMNS}).sql.startswith(f"SELECT {written} AS c0")


@pytest.mark.parametrize(
    ("condition", "is_whole"),
    [
        pytest.param("f > 5", True, id="column"),
        pytest.param("(-f) > 5", True, id="sign"),
        pytest.param("f BETWEEN 1 AND 5", True, id="between"),
        pytest.param("id::DOUBLE > 5.5::DOUBLE", True, id="integer"),
        pytest.param("(SELECT f FROM t) > 5", True, id="subquery"),
        pytest.param("f * 2 > 5", False, id="product"),
        pytest.param("f + 1 BETWEEN 1 AND 5", False, id="between-of-a-sum"),
        pytest.param("short > 5.5::DOUBLE", False, id="decimal"),
        pytest.param("(SELECT avg(u.f) FROM t AS u WHERE u.id = t.id) > 5", False, id="aggregate"),
    ],
)
def test_only_floats_of_files_are_kept_from_their_statistics(condition: str, is_whole: bool) -> None:
    """Parquet's do not count NaN, and Spark skips row groups by them."""
    assert ("NANVL" in queries.query(f"SELECT id FROM t WHERE {condition}", {"t": COLUMNS}).sql) is is_whole
