"""Parts that are decoded ahead are the same parts, in the same order, with the same error after them."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from harness.delta.decoded_ahead import decoded_ahead


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_parts_come_in_their_order(count: int, several: bool) -> None:
    assert list(decoded_ahead((n for n in range(count)), several=several)) == list(range(count))


@pytest.mark.parametrize("several", [True, False])
def test_an_error_comes_after_the_parts_before_it(several: bool) -> None:
    def failing() -> Generator[int, None, None]:
        yield 1
        yield 2
        raise ValueError("damaged")

    decoded = decoded_ahead(failing(), several=several)
    assert [next(decoded), next(decoded)] == [1, 2]
    with pytest.raises(ValueError, match="damaged"):
        next(decoded)


def test_the_next_part_is_made_while_one_is_worked_on() -> None:
    made = threading.Event()

    def parts() -> Generator[int, None, None]:
        yield 1
        made.set()
        yield 2

    decoded = decoded_ahead(parts(), several=True)
    assert next(decoded) == 1
    assert made.wait(timeout=30)
    assert list(decoded) == [2]


def test_no_more_than_one_part_is_made_ahead() -> None:
    made: list[int] = []

    def parts() -> Generator[int, None, None]:
        for number in range(10):
            made.append(number)
            yield number

    decoded = decoded_ahead(parts(), several=True)
    assert next(decoded) == 0
    decoded.close()
    assert made == [0, 1]


@pytest.mark.parametrize("several", [True, False])
def test_closing_ends_the_parts(several: bool) -> None:
    closed: list[str] = []

    def parts() -> Generator[int, None, None]:
        try:
            yield 1
            yield 2
            yield 3
        finally:
            closed.append(threading.current_thread().name)

    held = parts()  # a generator that nobody holds is closed anyway
    decoded = decoded_ahead(held, several=several)
    assert next(decoded) == 1
    decoded.close()
    assert closed == [threading.current_thread().name]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("harness-decoding")]


def test_a_single_part_takes_no_thread() -> None:
    threads = list(decoded_ahead((threading.current_thread() for _ in range(1)), several=False))
    assert threads == [threading.current_thread()]
