"""Which clients see the same files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from harness.storage.clients import opened


def test_threads_see_the_same_store() -> None:
    with ThreadPoolExecutor(1) as pool:
        elsewhere = pool.submit(opened, "local://", {"auto_mkdir": True}).result()
    here = opened("local://", {"auto_mkdir": True})
    assert elsewhere.identity == here.identity
    assert hash(elsewhere.identity) == hash(here.identity)


def test_other_options_and_kinds_are_other_stores() -> None:
    clients = [opened("local://", {}), opened("local://", {"auto_mkdir": True}), opened("memory://", {})]
    assert len({client.identity for client in clients}) == 3
