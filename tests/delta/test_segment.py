from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from harness import errors
from harness.metadata.delta.log_files import Checkpoint, Hint, LogListing, arrange
from harness.metadata.delta.segment import choose_segment, with_listing
from harness.storage.stores import Entry, Storage


def v(number: int) -> str:
    return f"{number:020d}"


def log(commits: Iterable[int], classic: Iterable[int]) -> LogListing:
    names = [*(f"{v(n)}.json" for n in commits), *(f"{v(n)}.checkpoint.parquet" for n in classic)]
    return arrange("/t", [Entry(name, 7, 0) for name in names])


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
def test_the_hint_changes_nothing_but_warnings(version, hint, warning):
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
