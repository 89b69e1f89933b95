"""Storage options by prefix: which options apply to a path, and that no other options are used to open it."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from harness import StorageError
from harness.storage.paths import PhysicalPath
from harness.storage.renewal import Renewal
from harness.storage.scoped_options import Owners, options_at, overridden
from harness.storage.stores import Storage


@pytest.mark.parametrize(
    ("path", "keys", "expected"),
    [
        ("s3://lake/t/f", ["s3://lake"], "s3://lake"),
        ("s3://lake/t/f", ["s3://lake", "s3://lake/t", "s3://lake/t/data"], "s3://lake/t"),
        ("s3://lake/t/data/f", ["s3://lake/t/data", "s3://lake/t"], "s3://lake/t/data"),
        pytest.param("s3://lake/t2/f", ["s3://lake/t"], "s3://lake/t", id="a prefix is text"),
        pytest.param("s3://lake/t2/f", ["s3://lake/t/"], None, id="a slash ends a directory"),
        pytest.param("s3://lake/t", ["s3://lake/t/"], "s3://lake/t/", id="the directory itself"),
        pytest.param("s3://lake2/f", ["s3://lake"], None, id="a bucket is no prefix of another"),
        pytest.param("s3://lake2/f", ["s3://lake/"], None, id="nor with a slash"),
        pytest.param("s3a://lake/t/f", ["s3://lake/t"], "s3://lake/t", id="two names of a scheme"),
        pytest.param("s3://lake/t/f", ["s3n://lake/t"], "s3n://lake/t", id="and the other way around"),
        pytest.param("s3://lake/./t/f", ["s3://lake/t/"], "s3://lake/t/", id="a dot is no part"),
        pytest.param("s3://lake/t/../u/f", ["s3://lake/t/"], None, id="two dots leave the prefix"),
        pytest.param("s3://lake/t/../u/f", ["s3://lake/u"], "s3://lake/u", id="two dots enter it"),
        pytest.param("s3://lake/T/f", ["s3://lake/t"], None, id="case matters"),
        pytest.param("s3://lake/t/f", ["s3://"], "s3://", id="all buckets"),
        pytest.param("s3://lake/t/f", ["s3://", "s3://lake"], "s3://lake", id="a bucket is longer"),
        pytest.param("gs://lake/t/f", ["s3://", "s3://lake/t"], None, id="another kind of store"),
        pytest.param("s3://lake/t/f", ["key", "s3.endpoint"], None, id="plain options"),
    ],
)
def test_the_longest_prefix_owns_a_path(path: str, keys: list[str], expected: str | None) -> None:
    assert Owners(keys).of(path) == expected


def test_an_azure_account_has_one_prefix_for_both_of_its_hosts() -> None:
    key = "abfss://c@a.blob.core.windows.net/t"
    assert Owners([key]).of("abfss://c@a.dfs.core.windows.net/t/f") == key


A, B, MINE = {"key": "a", "secret": "as", "token": "at"}, {"key": "b", "secret": "bs"}, {"key": "m", "secret": "ms"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("s3://lake/t/f", A),
        pytest.param("s3://lake/t/data/f", B, id="nothing of the shorter prefix, such as its token"),
        ("s3://lake/u/f", MINE),
        pytest.param("s3://other/f", {}, id="the plain options are for another store"),
    ],
)
def test_the_options_at_a_path(path: str, expected: dict[str, str]) -> None:
    options = {**MINE, "s3://lake/t/": A, "s3://lake/t/data/": B}
    assert options_at(path, options, {"s3://lake"}) == expected


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({}, {**A, "s3://lake/t/": B, "s3://other/t/": B}),
        pytest.param(
            {"token": "m"},
            {**A, "token": "m", "s3://lake/t/": {**B, "token": "m"}, "s3://other/t/": B},
            id="plain options of the store",
        ),
        pytest.param({"s3://lake": MINE}, {**A, "s3://lake": MINE, "s3://other/t/": B}, id="of the whole store"),
        pytest.param(
            {"s3a://other/t": MINE}, {**A, "s3://lake/t/": B, "s3a://other/t": MINE}, id="of a prefix, respelled"
        ),
        pytest.param(
            {"s3://other/t/data": MINE},
            {**A, "s3://lake/t/": B, "s3://other/t/": B, "s3://other/t/data": MINE},
            id="of a part of a prefix",
        ),
    ],
)
def test_options_of_the_user_take_precedence(overrides: dict[str, Any], expected: dict[str, Any]) -> None:
    assert overridden({**A, "s3://lake/t/": B, "s3://other/t/": B}, overrides, "s3://lake") == expected


@dataclass
class OpenedStores:
    """A record of the options with which each store was opened and each file was read."""

    opened: list[Mapping[str, object]] = field(default_factory=list)
    reads: dict[str, list[Mapping[str, object]]] = field(default_factory=dict)

    def open_client(self, base: str, options: Mapping[str, object]) -> Any:
        self.opened.append(options)

        def read(path: str, offset: int, length: int | None) -> tuple[bytes, None]:
            self.reads.setdefault(path, []).append(options)
            return b"", None

        return SimpleNamespace(read=read)


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> OpenedStores:
    opened = OpenedStores()
    monkeypatch.setattr("harness.storage.clients.open_client", opened.open_client)
    return opened


def test_each_file_is_read_with_the_options_of_its_own_prefix(stores: OpenedStores) -> None:
    expected = {
        "s3://lake/t/f": A,
        "s3://lake/t/data/f": B,
        "s3://lake/t/data/g": B,
        "s3://lake/f": MINE,
        "s3://lake/g": MINE,
    }
    storage = Storage({**MINE, "s3://lake/t/": A, "s3://lake/t/data/": B}, stores=frozenset({"s3://lake"}))
    for path in expected:
        storage.read(PhysicalPath(path))
    assert stores.reads == {path: [options] for path, options in expected.items()}
    assert len(stores.opened) == 3


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The current time in milliseconds, as the only item of a list."""
    now = [0]
    monkeypatch.setattr("time.time_ns", lambda: now[0] * 1_000_000)
    return now


def test_renewed_options_are_used_from_the_next_request_on(stores: OpenedStores, clock: list[int]) -> None:
    path = PhysicalPath("s3://lake/t/f")
    renewal = Renewal({"s3://lake/t/": A}, 1000, lambda: ({"s3://lake/t/": B}, None))
    storage = Storage({"s3://lake/t/": A}, renewal=renewal)
    storage.read(path)
    clock[0] = 999
    storage.read(path)
    assert stores.reads[path] == [A, B]


def test_expired_options_are_never_used(stores: OpenedStores, clock: list[int]) -> None:
    path = PhysicalPath("s3://lake/f")
    storage = Storage(A, renewal=Renewal(A, 1000, lambda: (B, 1500), table="prod.sales.orders"))
    storage.read(path)
    clock[0] = 2000
    with pytest.raises(StorageError, match="credentials that have already expired") as caught:
        storage.read(path)
    assert (caught.value.cause, caught.value.table) == ("ExpiredCredentials", "prod.sales.orders")
    assert stores.reads[path] == [A]


def test_another_process_uses_the_current_options_until_they_expire(stores: OpenedStores, clock: list[int]) -> None:
    path = PhysicalPath("s3://lake/f")
    answers = iter([(B, 9000)])
    storage = Storage(A, renewal=Renewal(A, 1000, lambda: next(answers), table="prod.sales.orders"))
    clock[0] = 1000
    other: Storage = pickle.loads(pickle.dumps(storage))
    clock[0] = 8999
    other.read(path)
    clock[0] = 9000
    with pytest.raises(StorageError, match="another process") as caught:
        other.read(path)
    assert caught.value.table == "prod.sales.orders"
    assert stores.reads[path] == [B]


def test_messages_contain_no_renewed_secret(clock: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def open_client(base: str, options: Mapping[str, object]) -> Any:
        def read(path: str, offset: int, length: int | None) -> tuple[bytes, None]:
            raise ValueError(f"signed with {options['secret']}")

        return SimpleNamespace(read=read)

    monkeypatch.setattr("harness.storage.clients.open_client", open_client)
    storage = Storage({"secret": "old"}, renewal=Renewal({"secret": "old"}, 0, lambda: ({"secret": "renewed"}, None)))
    with pytest.raises(StorageError, match="signed with") as caught:
        storage.read(PhysicalPath("s3://lake/f"))
    assert "renewed" not in str(caught.value)
