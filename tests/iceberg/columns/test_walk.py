"""Numbers at many places at once are the numbers at each place."""

from __future__ import annotations

import numpy as np
import pytest
from bombs import number
from hypothesis import given
from hypothesis import strategies as st

from harness.metadata.iceberg.columns.walk import Unsure, Varints

LONGS = st.one_of(st.integers(-3, 200), st.integers(-(1 << 63), (1 << 63) - 1))


def places(numbers):
    """Where each number begins, and where the last one ends."""
    return np.cumsum([0, *(len(number(n)) for n in numbers)])


@given(st.lists(LONGS, min_size=1, max_size=80), st.data())
def test_many_numbers_are_skipped_and_decoded_at_once(numbers, data):
    ends = places(numbers)
    cut = data.draw(st.integers(0, int(ends[-1])))
    whole = b"".join(map(number, numbers))
    varints = Varints.of([whole[:cut], whole[cut:]])
    firsts = np.array(data.draw(st.lists(st.integers(0, len(numbers) - 1), min_size=1)))
    counts = np.array([data.draw(st.integers(1, len(numbers) - first)) for first in firsts.tolist()])
    assert varints.size == ends[-1]
    assert varints.skip(ends[firsts]).tolist() == ends[firsts + 1].tolist()
    assert varints.skip_many(ends[firsts], counts).tolist() == ends[firsts + counts].tolist()
    values, after = varints.numbers(ends[firsts])
    assert values.tolist() == [numbers[first] for first in firsts.tolist()]
    assert after.tolist() == ends[firsts + 1].tolist()


@pytest.mark.parametrize("count", [1 << 20, 1 << 40])
def test_more_numbers_than_there_are_bytes_are_no_numbers(count):
    with pytest.raises(Unsure):
        Varints.of([bytes(10)]).skip_many(np.array([3]), np.array([count]))


@pytest.mark.parametrize(("at", "length"), [(0, -1), (1, 11), (2, 300)], ids=["negative", "beyond", "two bytes"])
def test_lengths_are_within_the_data(at, length):
    varints = Varints.of([number(-1), number(11), number(300)])
    assert varints.numbers(np.array([at]))[0].tolist() == [length]
    with pytest.raises(Unsure):
        varints.lengths(np.array([at]))
