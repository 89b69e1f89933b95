"""Tables of other projects, compared with their expected rows, by every engine and in every kind of read.

The corpus is a directory with `cases.json`. HARNESS_CORPUS names it; the default is `../shared/corpus` next to the
repository.
"""

import json
import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from canonical import SEPARATOR, CanonicalTable, canonical_table
from delta_bases import content, states_by_base

import harness
from harness.metadata.files.variant import variant_to_json
from harness.suite.oracle_engine import read_with_oracle

pytestmark = pytest.mark.interop

CORPUS = Path(os.environ.get("HARNESS_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")
ORACLE_ROWS = 20_000
NEWEST = 40  # The number of newest snapshots that are read in a long history.
VARIANT = re.compile(r"<metadata:x'(?P<metadata>[0-9a-f]*)',value:x'(?P<value>[0-9a-f]*)'>")

# Cases that must fail: the expected error, and the reason. A case that can be read after all fails the test.
EXCEPTIONS: dict[str, tuple[type[harness.HarnessError], str]] = {
    "iceberg/duckdb-iceberg/column_mapping.my_table": (
        harness.MissingFileError,
        "the corpus holds no data for it: the manifest names …/warehouse/example/mock_data.parquet, outside the table",
    )
}


@dataclass(frozen=True)
class CorpusCase:
    """A table or metadata file, and the expected result."""

    id: str
    location: str
    expected: dict[str, Any]


def cases(format_: str = "") -> list[Any]:
    index = CORPUS / "cases.json"
    if not index.is_file():
        reason = f"no corpus at {CORPUS}; set HARNESS_CORPUS to the directory that holds cases.json"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="no corpus")]
    return [
        pytest.param(
            CorpusCase(case["id"], str(CORPUS / case["path"] / (case.get("metadata_file") or "")), case["expected"]),
            id=case["id"],
        )
        for case in json.loads(index.read_text("utf-8"))
        if case["format"].startswith(format_)
    ]


def within_the_oracle(case: CorpusCase) -> None:
    if (rows := case.expected.get("rows") or 0) > ORACLE_ROWS:
        pytest.skip(f"the oracle reads row by row, and {rows} are too many")


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.harness_spark), "oracle"])
@pytest.mark.parametrize("case", cases())
def test_a_case_gives_its_rows(case: CorpusCase, engine: str, request):
    if engine == "spark":
        request.getfixturevalue("spark")
    if engine == "oracle":
        within_the_oracle(case)

    def read() -> CanonicalTable:
        return canonical_table(harness.open_table(case.location).snapshot().to_arrow(engine=engine))

    if case.id in EXCEPTIONS:
        error, reason = EXCEPTIONS[case.id]
        with pytest.raises(error):
            read()
        pytest.xfail(f"{error.__name__}: {reason}")
    check(case, read)


def check(case: CorpusCase, read: Callable[[], CanonicalTable]) -> None:
    outcome = case.expected["outcome"]
    assert outcome in ("rows", "must be an error", "these rows or a clear error")
    try:
        rows = read()
    except harness.HarnessError:
        assert outcome != "rows"
        return
    assert outcome != "must be an error"
    assert_rows(rows, case.expected)


def assert_rows(got: CanonicalTable, expected: dict[str, Any]) -> None:
    if (columns := expected.get("columns")) is not None:
        assert got.names == tuple(sorted(columns))
    if (rows := expected.get("rows")) is not None:
        assert len(got.rows) == rows
    is_variant = "variant_hash" in expected  # the file contains variants in binary form, and `hash` refers to that form
    if (file := expected.get("file")) is not None:
        names, *lines = (CORPUS / file).read_text("utf-8").removesuffix("\n").split("\n")
        assert got.names == tuple(names.split(SEPARATOR))
        shown = sorted(VARIANT.sub(lambda v: json.dumps(as_json(v)), line) for line in lines) if is_variant else lines
        assert list(got.rows) == shown
    if (digest := expected.get("hash")) is not None and not is_variant:
        assert got.hash() == digest


def as_json(variant: re.Match[str]) -> str:
    parts = {name: bytes.fromhex(variant[name]) for name in ("metadata", "value")}
    (text,) = variant_to_json(pa.StructArray.from_arrays([pa.array([v]) for v in parts.values()], list(parts)))
    return str(text)


@pytest.mark.parametrize("case", cases("delta"))
def test_every_base_gives_the_same_state(case: CorpusCase):
    """Commits alone, each checkpoint, and compacted commits yield the same state (delta L11)."""
    if case.expected["outcome"] == "must be an error":
        pytest.skip("not a table that can be read")
    contents = {base: content(state) for base, state in states_by_base(case.location).items()}
    first = next(iter(contents.values()))
    assert [base for base, state in contents.items() if state != first] == []


@pytest.mark.parametrize("case", cases())
def test_engines_agree_at_every_snapshot(case: CorpusCase, spark: Any):
    try:
        table = harness.open_table(case.location)
        ids = [snapshot["id"] for snapshot in table.snapshots()][-NEWEST:]
    except harness.HarnessError:
        return  # not a table; the tests of the cases check this on every engine
    for snapshot_id in ids:
        snapshot = table.snapshot(snapshot_id)
        duckdb, spark_ = (outcome(lambda e=e: snapshot.to_arrow(engine=e)) for e in ("duckdb", "spark"))  # noqa: B023
        assert duckdb == spark_, snapshot_id


def outcome(read: Callable[[], pa.Table]) -> CanonicalTable | str:
    try:
        return canonical_table(read())
    except harness.HarnessError as error:
        return f"{type(error).__name__} {error.cause}"


@pytest.mark.parametrize("case", cases())
def test_the_oracle_agrees(case: CorpusCase):
    """The oracle, which reads independently, returns the rows of harness, or fails too."""
    within_the_oracle(case)
    apart = outcome(lambda: read_with_oracle(case.location))
    ours = outcome(lambda: harness.open_table(case.location).snapshot().to_arrow())
    assert apart == ours or (isinstance(apart, str) and isinstance(ours, str))


@pytest.mark.parametrize("case", cases())
def test_a_slice_returns_the_rows_of_its_source(case: CorpusCase, tmp_path: Path):
    """The slice contains the whole table."""
    try:
        source = harness.open_table(case.location)
        wanted = canonical_table(source.to_arrow())
    except harness.HarnessError as error:
        pytest.skip(f"it cannot be read: {error.cause}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", harness.HarnessWarning)
        source.pull(tmp_path / "slice")
        slice_ = harness.open_table(tmp_path / "slice").snapshot()
        assert canonical_table(slice_.to_arrow()) == wanted
