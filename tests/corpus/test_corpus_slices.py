"""Slices of tables that other projects wrote: pulled whole, they give the rows of their source."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from canonical import canonical_table
from test_delta_corpus import delta_cases
from test_iceberg_corpus import Case, iceberg_cases

import harness
from harness.tools.slices.pulling import pull

pytestmark = pytest.mark.corpus


@pytest.mark.parametrize("case", [*iceberg_cases(), *delta_cases()])
def test_a_slice_gives_the_rows_of_its_source(case: Case, tmp_path: Path, record_property):
    try:
        source = harness.open_table(str(case.location)).snapshot()
        wanted = canonical_table(source.to_arrow())
    except harness.HarnessError as error:
        pytest.skip(f"it cannot be read: {error.cause}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", harness.HarnessWarning)
        pull(source, tmp_path / "slice")
        slice_ = harness.open_table(tmp_path / "slice").snapshot()
        assert canonical_table(slice_.to_arrow()) == wanted
    record_property("corpus_outcome", "rows")
