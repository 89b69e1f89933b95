"""Stores fail here on purpose: nobody waits before they are asked again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.storage import retries


@pytest.fixture(scope="module", autouse=True)
def at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retries, "WAITING", retries.Waiting(sleep=lambda _: None))
        yield
