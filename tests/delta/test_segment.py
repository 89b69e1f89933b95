from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from harness import errors
from harness.metadata.delta.log_files import Checkpoint, Hint, LogListing, arrange
from harness.metadata.delta.segment import choose_segment, with_listing
from harness.storage.stores import Entry, Storage

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def v(number: int) -> str:
    return f"{number:020d}"


def log(
    commits: Iterable[int],
    *,
    classic: Iterable[int] = (),
    uuid: Iterable[int] = (),
    parts: Iterable[tuple[int, int, int]] = (),
    compactions: Iterable[tuple[int, int]] = (),
    empty: Iterable[int] = (),
    checksums: Iterable[int] = (),
) -> LogListing:
    names = [
        *(f"{v(n)}.json" for n in commits),
        *(f"{v(n)}.checkpoint.parquet" for n in classic),
        *(f"{v(n)}.checkpoint.{UUID}.parquet" for n in uuid),
        *(f"{v(n)}.checkpoint.{p:010d}.{of:010d}.parquet" for n, p, of in parts),
        *(f"{v(first)}.{v(last)}.compacted.json" for first, last in compactions),
        *(f"{v(n)}.crc" for n in checksums),
    ]
    return arrange("/t", [*(Entry(name, 7, 0) for name in names), *(Entry(f"{v(n)}.json", 0, 0) for n in empty)])


LOST = "checkpoint {}, which is not there as a whole: version {}"
LAGGING = log(range(21), classic=[10, 20])


@pytest.mark.parametrize(
    ("listing", "version", "hint", "warning"),
    [
        pytest.param(LAGGING, None, 5, None, id="L8 stale and cleaned up"),
        pytest.param(LAGGING, 12, 20, None, id="L8 newer than the version"),
        pytest.param(LAGGING, 12, 99, None, id="L8 newer than the log, in time travel"),
        (LAGGING, None, 99, "version 99, but the newest in the log is 20: newer files may be lost"),
        (
            log(range(21), classic=[10], parts=[(20, 1, 2)]),
            None,
            20,
            LOST.format(20, f"20 is read from {v(10)}.checkpoint.parquet"),
        ),
        (log(range(3)), None, 1, LOST.format(1, "2 is read from commit 0")),
    ],
)
def test_the_hint_changes_nothing_but_warnings(listing, version, hint, warning):
    segment = choose_segment(replace(listing, hint=Hint(hint)), version)
    plain = choose_segment(listing, version)
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
def test_what_is_tried_twice(tmp_path: Path, error: errors.HarnessError, tries: int) -> None:
    write(tmp_path, f"{v(0)}.json")
    seen: list[LogListing] = []
    if error.file is not None:
        error.file = error.file.format(root=tmp_path)

    def use(listing: LogListing) -> Checkpoint:
        seen.append(listing)
        raise error

    with pytest.raises(type(error)) as raised:
        with_listing(Storage(), str(tmp_path), use)
    assert raised.value is error
    assert len(seen) == tries
