"""The comparison of results of TPC queries."""

import math

import pyarrow as pa
import pytest
from tpc_compare import compare_rows

from harness.queries.allowances import AVERAGE

NEXT = math.nextafter(0.5, 1)
FAR = 0.5 + 17 * math.ulp(0.5)


@pytest.mark.parametrize(
    ("rows", "allowed", "word"),
    [
        pytest.param([("b", 1.5), ("a", 0.5)], {}, "equal", id="order-of-rows"),
        pytest.param([("a", NEXT), ("b", 1.5)], {}, "different", id="no-allowance"),
        pytest.param([("a", NEXT), ("b", 1.5)], {1: AVERAGE}, "allowed", id="one-ulp"),
        pytest.param([("a", FAR), ("b", 1.5)], {1: AVERAGE}, "different", id="too-far"),
        pytest.param([("a", None), ("b", 1.5)], {1: AVERAGE}, "different", id="null"),
        pytest.param([("a", NEXT), ("c", 1.5)], {1: AVERAGE}, "different", id="another-column"),
        pytest.param([("a", NEXT)], {1: AVERAGE}, "different", id="a-row-less"),
        pytest.param([("a", 1), ("b", 2)], {1: AVERAGE}, "different", id="another-type"),
    ],
)
def test_compare_rows(rows, allowed, word):
    right = pa.table({"c0": ["a", "b"], "c1": [0.5, 1.5]})
    texts, numbers = zip(*rows, strict=True)
    assert compare_rows(pa.table({"c0": texts, "c1": numbers}), right, allowed).word == word
