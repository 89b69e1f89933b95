"""A repeated text is found, wherever it is and however similar all further texts are."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.metadata.model.arrow_values import first_repeated

TEXTS = st.text("ab/é\x00", max_size=20)


@given(st.lists(st.lists(TEXTS, max_size=6), max_size=4), st.integers(0, 2))
def test_a_repeated_text_is_found(chunks, offset):
    arrays = [pa.array(["dropped"] * offset + chunk, pa.string()).slice(offset) for chunk in chunks]
    found = first_repeated(pa.chunked_array(arrays, pa.string()))
    texts = [text for chunk in chunks for text in chunk]
    twice = {text for text in texts if texts.count(text) > 1}
    assert found in twice if twice else found is None


@pytest.mark.parametrize("size", [7, 8, 9, 16, 70_000])
def test_texts_that_differ_in_the_last_character_are_not_the_same(size):
    texts = ["x" * size + end for end in ("a", "b", "")]
    assert first_repeated(pa.chunked_array([texts])) is None
    assert first_repeated(pa.chunked_array([texts, texts[1:2]])) == texts[1]


def test_different_texts_with_one_hash_are_not_the_same():
    texts = ["texts-ofone-hash", "*/0SwZfsK@/KrBTo"]  # computed by solving the hash in `arrow_values` for its last word
    assert first_repeated(pa.chunked_array([texts])) is None
    assert first_repeated(pa.chunked_array([[*texts, texts[1]]])) == texts[1]
