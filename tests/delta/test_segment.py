"""The segment of a log: the hint `_last_checkpoint`, commits, and checkpoints."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from harness import errors
from harness.errors import TableNotFoundError
from harness.metadata.delta.log_files import Checkpoint, Hint, LogListing, list_log, listing_from_entries, parse_hint
from harness.metadata.delta.segment import choose_segment, use_listing
from harness.storage.clients import _FsspecClient
from harness.storage.stores import Entry, Storage


def v(number: int) -> str:
    return f"{number:020d}"


def log(commits: Iterable[int], classic: Iterable[int]) -> LogListing:
    names = [*(f"{v(n)}.json" for n in commits), *(f"{v(n)}.checkpoint.parquet" for n in classic)]
    return listing_from_entries("/t", [Entry(name, 7, 0) for name in names])


LAGGING = log(range(21), classic=[10, 20])


@pytest.mark.parametrize(
    ("version", "hint", "warning"),
    [
        pytest.param(None, 5, None, id="L8 stale and cleaned up"),
        pytest.param(12, 20, None, id="L8 newer than the version"),
        pytest.param(12, 99, None, id="L8 newer than the log, in time travel"),
        (None, 99, "version 99, but the newest in the log is 20: newer files may be lost"),
    ],
)
def test_the_hint_only_changes_warnings(version, hint, warning):
    segment = choose_segment(replace(LAGGING, hint=Hint(hint)), version)
    plain = choose_segment(LAGGING, version)
    assert (segment.checkpoint, segment.commits) == (plain.checkpoint, plain.commits)
    assert segment.warnings == (() if warning is None else (f"_last_checkpoint names {warning}",))


def write(root: Path, *names: str) -> None:
    (root / "_delta_log").mkdir(exist_ok=True)
    for name in names:
        (root / "_delta_log" / name).write_bytes(b"{}")


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        pytest.param(errors.MissingFileError("gone", file="{root}/_delta_log/x"), 2, id="L45 log file"),
        pytest.param(errors.MissingFileError("gone", file="{root}/data.parquet"), 1, id="L45 data file"),
        pytest.param(errors.InvalidTableError("hole", cause="LogGap"), 2, id="L44 hole"),
        pytest.param(errors.InvalidTableError("torn", cause="LogCorrupt"), 1, id="other fault"),
        pytest.param(errors.RequestError("wrong"), 1, id="request"),
    ],
)
def test_missing_files_are_tried_twice(tmp_path: Path, error: errors.HarnessError, tries: int) -> None:
    write(tmp_path, f"{v(0)}.json")
    seen: list[LogListing] = []
    if error.file is not None:
        error.file = error.file.format(root=tmp_path)

    def use(listing: LogListing) -> Checkpoint:
        seen.append(listing)
        raise error

    with pytest.raises(type(error)) as raised:
        use_listing(Storage(), str(tmp_path), use)
    assert raised.value is error
    assert len(seen) == tries


GOOD = b'{"version":10,"size":3,"parts":2}'
# The example in the protocol's section on JSON checksums, with a version. The checksum is computed from the canonical
# text.
EXAMPLE = (
    """{"k0":"'v 0'", "k1":{"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}, "version":10"""
)
CANONICAL = (
    '"k0"="%27v%200%27","k1"+"k2"=2,"k1"+"k3"+0="v3","k1"+"k3"+1+0=1,"k1"+"k3"+1+1=2,"k1"+"k3"+2+"k4"="v4",'
    '"k1"+"k3"+2+"k5"+0="v5","k1"+"k3"+2+"k5"+1="v6","k1"+"k3"+2+"k5"+2="v7","version"=10'
)
SEALED = f'{EXAMPLE},"checksum":"{hashlib.md5(CANONICAL.encode()).hexdigest()}"}}'.encode()


@pytest.mark.parametrize(
    ("data", "version"),
    [
        pytest.param(GOOD, 10, id="no checksum"),
        pytest.param(SEALED, 10, id="right checksum"),
        pytest.param(SEALED.replace(b"v7", b"v8"), None, id="wrong checksum"),
        pytest.param(GOOD.replace(b"}", b',"checksum":5}'), None, id="checksum of another type"),
        pytest.param(b"\xff\xfe", None, id="not UTF-8"),
        pytest.param(b"[10]", None, id="list"),
        pytest.param(b"10", None, id="number"),
        pytest.param(b"{}", None, id="no version"),
        pytest.param(b'{"version":"10"}', None, id="text"),
        pytest.param(b'{"version":10.0}', None, id="float"),
        pytest.param(b'{"version":-1}', None, id="negative"),
        pytest.param(b'{"version":null}', None, id="null"),
        pytest.param(b'{"version":true}', None, id="boolean"),
        pytest.param(b'{"version":NaN}', None, id="not JSON"),
        pytest.param(b'{"version":10,"version":10}', None, id="duplicate key"),
        pytest.param(b'{"version":10,"a":{"b":1,"b":1}}', None, id="duplicate inner key"),
        pytest.param(b'{"version":' + b"1" * 5000 + b"}", None, id="endless number"),
        pytest.param(b'{"version":1,"a":' + b"[" * 100_000 + b"}", None, id="endless nesting"),
        pytest.param(b'{"version":1,"a":"\\ud800","checksum":"x"}', None, id="lone surrogate"),
    ],
)
def test_parse_hint(data: bytes, version: int | None) -> None:
    hint = parse_hint(data)
    assert (None if hint is None else hint.version) == version


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        pytest.param(None, "there is no such directory", id="no folder"),
        pytest.param(["data/x"], "it has no directory _delta_log; give the directory that contains it", id="no log"),
        pytest.param(["_delta_log/_sidecars/x"], "its _delta_log is empty", id="empty log"),
        (["_delta_log/_last_checkpoint"], "its _delta_log has neither a commit nor a complete checkpoint"),
    ],
)
def test_no_table(tmp_path: Path, names: list[str] | None, reason: str) -> None:
    root = tmp_path / "t"
    for name in names or ():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_bytes(b"{}")
    with pytest.raises(TableNotFoundError) as raised:
        list_log(Storage(), str(root))
    assert str(raised.value) == f"Cannot find a Delta table: {reason} [TableNotFound; table {root}, rule delta L4]"


@pytest.mark.parametrize(
    ("info", "modified_ms"),
    [
        pytest.param({"mtime": 1.001}, 1001, id="seconds"),
        pytest.param({"updated": "1970-01-01T00:00:01.5Z"}, 1500, id="text"),
        pytest.param({"updated": "yesterday"}, None, id="other text"),
        pytest.param({}, None, id="none"),
    ],
)
def test_modification_times_of_file_systems(monkeypatch, info, modified_ms):
    class Store:
        def invalidate_cache(self, path: str) -> None: ...

        def ls(self, path: str, *, detail: bool) -> list[dict[str, object]]:
            return [{"name": "b/x", "size": 3, "type": "file", **info}, {"name": "b/d", "size": 0, "type": "directory"}]

    monkeypatch.setattr(Storage, "client", lambda self, path: _FsspecClient(Store(), "s3"))
    assert Storage().entries("s3://b") == (Entry("x", 3, modified_ms),)
