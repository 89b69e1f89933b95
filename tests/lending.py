"""A catalog that lends expiring credentials, and S3 buckets in a directory, which record the keys of requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.storage.clients import local_client
from harness.testing.lake_catalog import LakeCatalog


@dataclass
class Clock:
    """A replacement of `time.time_ns` that a test can move on."""

    ms: int = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        start = time.time_ns()
        monkeypatch.setattr("time.time_ns", lambda: start + self.ms * 1_000_000)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


@dataclass
class Buckets:
    """S3 buckets whose objects are the files of a directory.

    Attributes:
        directory: The directory of the buckets.
        requests: The object and the access key of each request.
        before_request: Called before each request with the object and the key.
    """

    directory: Path
    requests: list[tuple[str, object]] = field(default_factory=list)
    before_request: Callable[[str, object], None] = lambda path, key: None

    def open_client(self, base: str, options: Mapping[str, object]) -> Any:
        return _Client(self, base, options)

    def keys(self) -> dict[str, set[object]]:
        """Return the keys that were used for each object, by its path below the buckets."""
        keys: dict[str, set[object]] = {}
        for path, key in self.requests:
            keys.setdefault(path, set()).add(key)
        return keys


class _Client:
    reads_ends = False

    def __init__(self, buckets: Buckets, base: str, options: Mapping[str, object]) -> None:
        self._buckets, self._options = buckets, dict(options)
        self.identity = base, repr(sorted(self._options.items()))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def request(path: str, *arguments: object) -> Any:
            place, key = path.partition("://")[2], self._options.get("key")
            self._buckets.before_request(place, key)
            self._buckets.requests.append((place, key))
            return getattr(local_client(), name)(f"{self._buckets.directory}/{place}", *arguments)

        return request


@dataclass
class Credentials:
    """An issuer of credentials. Each call of `issue` creates a new key.

    Attributes:
        clock: The clock.
        lifetime_ms: The time after which new credentials expire. None: they never expire.
        others: Further properties.
        ends: The time at which each key expires.
    """

    clock: Clock
    lifetime_ms: int | None = None
    others: Mapping[str, str] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)

    def issue(self, name: str) -> dict[str, str]:
        """Return properties with a new key. The keys of a name are NAME-1, NAME-2, and so on."""
        key = f"{name}-{1 + sum(each.rpartition('-')[0] == name for each in self.ends)}"
        properties = {**self.others, "s3.access-key-id": key, "s3.secret-access-key": "secret"}
        if self.lifetime_ms is None:
            self.ends[key] = 1 << 62
            return properties
        self.ends[key] = self.clock.now_ms() + self.lifetime_ms
        return {**properties, "s3.session-token": "token", "s3.session-token-expires-at-ms": str(self.ends[key])}

    def check(self, path: str, key: object) -> None:
        """Raise if a request uses an expired key."""
        assert self.clock.now_ms() < self.ends[str(key)], f"{path} is requested with the expired key {key}"


class Lender(LakeCatalog):
    """A `LakeCatalog` that issues new credentials with each answer.

    Attributes:
        issuer: Issues the credentials.
        names: The names of the credentials by prefix, for plans.
        of_table: The name of the credentials for the table's whole store, in answers about the table. None: no
            credentials.
        spoil: Changes the answers to planning calls.
    """

    def __init__(self, issuer: Credentials) -> None:
        super().__init__(credentials={})
        self.issuer = issuer
        self.names: dict[str, str] = {}
        self.of_table: str | None = None
        self.spoil: Callable[[dict[str, Any]], dict[str, Any]] = lambda document: document

    def answer(self, method: str, path: str, *request: Any) -> Any:
        status, headers, document = super().answer(method, path, *request)
        call = path.partition("/tables/")[2].split("/")[1:2]
        if status != 200 or "/tables/" not in path:
            return status, headers, document
        if call in (["plan"], ["tasks"], ["credentials"]):
            lent = [{"prefix": prefix, "config": self.issuer.issue(name)} for prefix, name in self.names.items()]
            document = self.spoil({**document, "storage-credentials": lent})
        elif not call and self.of_table is not None:
            document = {**document, "config": {**document["config"], **self.issuer.issue(self.of_table)}}
        return status, headers, document
