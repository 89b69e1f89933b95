"""Files of a store are asked for ahead of who reads them one by one, and come in order."""

from __future__ import annotations

import threading

import pytest

from harness.storage.threads import one_ahead, read_ahead


def test_the_next_ones_are_asked_for_while_the_first_is_waited_for() -> None:
    third = threading.Event()

    def read(item: str) -> bytes:
        if item == "c":
            third.set()
        assert third.wait(10)
        return item.encode()

    items = ["a", "b", "c"]
    with read_ahead(read, items) as following:
        assert [following(item) for item in items] == [b"a", b"b", b"c"]


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
