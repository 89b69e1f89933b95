"""Fixtures for failing stores: retries do not wait."""

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from harness.storage import clients


@pytest.fixture(scope="module", autouse=True)
def at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None))
        yield
