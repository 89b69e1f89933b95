"""Short looks at many files."""

from __future__ import annotations

import threading

import pytest

from harness.engines.data_files import look_at


def test_local_files_are_looked_at_in_order_by_the_caller() -> None:
    seen = look_at(lambda name: (name, threading.current_thread()), ["b", "a"], ["/t/b", "/t/a"])
    assert seen == [("b", threading.main_thread()), ("a", threading.main_thread())]


def test_remote_files_are_looked_at_together() -> None:
    both = threading.Barrier(2, timeout=30)  # passes only if two looks wait at once

    def look(name: str) -> str:
        both.wait()
        return name.upper()

    assert look_at(look, ["b", "a"], ["s3://t/b", "s3://t/a"]) == ["B", "A"]


@pytest.mark.parametrize("path", ["/t/a", "s3://t/a"])
def test_what_a_look_raises_is_raised(path: str) -> None:
    with pytest.raises(KeyError, match="a"):
        look_at(lambda name: {}[name], ["a"], [path])
