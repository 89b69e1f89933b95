"""Credentials that end are asked for anew, in time, and whatever was opened with the old ones is not used again."""

from typing import Any

import pytest

from harness import StorageError
from harness.storage import configuration
from harness.storage.configuration import Renewal


@pytest.fixture
def clock(monkeypatch) -> list[int]:
    """What time it is, in its only item; in milliseconds."""
    now = [0]
    monkeypatch.setattr(configuration, "_now_ms", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("expires_ms", "asked_at"),
    [(3_600_000, 3_540_000), (100_000, 90_000), (0, 0)],
    ids=["a minute before", "a tenth of a short time before", "at once"],
)
def test_options_are_asked_for_before_they_end(clock, expires_ms, asked_at):
    lending = Renewal({"key": "a"}, expires_ms, lambda: ({"key": "b"}, None))
    if asked_at:
        clock[0] = asked_at - 1
        assert lending.current() == {"key": "a"}
    clock[0] = asked_at
    assert (lending.current(), lending.generation) == ({"key": "b"}, 1)
    clock[0] = 10**12
    assert (lending.current(), lending.generation) == ({"key": "b"}, 1)


def test_what_cannot_be_renewed_is_used_to_its_end(clock):
    def down() -> Any:
        raise StorageError("Cannot reach catalog prod")

    lending = Renewal({"key": "a"}, 100_000, down)
    clock[0] = 99_999
    assert lending.current() == {"key": "a"}
    clock[0] = 100_000
    with pytest.raises(StorageError, match="reach catalog prod"):
        lending.current()
