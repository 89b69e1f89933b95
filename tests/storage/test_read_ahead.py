"""Files of a store are asked for ahead of who reads them one by one, and come in order."""

from __future__ import annotations

import pytest

from harness.storage.threads import one_ahead, read_ahead


@pytest.mark.parametrize("ahead", [["a", "b", "c"], ["a", "c"], []])
def test_an_error_comes_where_its_file_is_read(ahead: list[str]) -> None:
    def read(item: str) -> bytes:
        if item == "b":
            raise ValueError(item)
        return item.encode()

    with read_ahead(read, ahead) as following:
        assert following("a") == b"a"
        with pytest.raises(ValueError, match="b"):
            following("b")
        assert following("c") == b"c"


@pytest.mark.parametrize("waits", [True, False])
def test_one_answer_is_had_or_its_error_raised_where_it_is_called_for(waits: bool) -> None:
    def read(item: str) -> str:
        if item == "b":
            raise ValueError(item)
        return item.upper()

    with one_ahead(read, "a", waits=waits) as answer:
        assert answer() == "A"
    with one_ahead(read, "b", waits=waits):
        pass
    with one_ahead(read, "b", waits=waits) as answer, pytest.raises(ValueError, match="b"):
        answer()
