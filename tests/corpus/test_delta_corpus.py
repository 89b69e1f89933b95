"""Delta tables that other projects wrote, against what reading them must give; the corpus is that of Iceberg's test."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pytest
from canonical import SEPARATOR, CanonicalTable
from delta_bases import content, states_by_base
from test_iceberg_corpus import CORPUS, Case, check, read

import harness
from harness.metadata.files.variant import variant_to_json

pytestmark = pytest.mark.corpus

# Cases that cannot give their rows: the error that must come instead, and why. One that reads after all fails.
EXCEPTIONS: dict[str, tuple[type[harness.HarnessError], str]] = {}

VARIANT = re.compile(r"<metadata:x'(?P<metadata>[0-9a-f]*)',value:x'(?P<value>[0-9a-f]*)'>")


def delta_cases() -> list[Any]:
    index = CORPUS / "cases.json"
    if not index.is_file():
        reason = f"no corpus at {CORPUS}; set HARNESS_CORPUS to the directory that holds cases.json"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="no corpus")]
    return [
        pytest.param(Case(case["id"], CORPUS / case["path"], case["expected"]), id=case["id"])
        for case in json.loads(index.read_text("utf-8"))
        if case["format"] == "delta"
    ]


@pytest.mark.parametrize("case", delta_cases())
def test_delta_corpus(case: Case, engine: str, record_property):
    record_property("corpus_case", case.id)
    record_property("corpus_engine", engine)
    if case.id in EXCEPTIONS:
        error, reason = EXCEPTIONS[case.id]
        with pytest.raises(error):
            read(case, engine)
        pytest.xfail(f"{error.__name__}: {reason}")
    if "variant_hash" in case.expected:
        assert_variant_rows(read(case, engine), case)
        record_property("corpus_outcome", "rows")
    else:
        record_property("corpus_outcome", check(case, engine))


def assert_variant_rows(got: CanonicalTable, case: Case) -> None:
    """The file has variants in their binary form, and `hash` is of that; harness shows them as JSON."""
    names, *rows = (CORPUS / case.expected["file"]).read_text("utf-8").removesuffix("\n").split("\n")
    assert got.names == tuple(names.split(SEPARATOR))
    assert list(got.rows) == sorted(VARIANT.sub(lambda variant: json.dumps(as_json(variant)), row) for row in rows)


def as_json(variant: re.Match[str]) -> str:
    parts = {name: bytes.fromhex(variant[name]) for name in ("metadata", "value")}
    (text,) = variant_to_json(pa.StructArray.from_arrays([pa.array([v]) for v in parts.values()], list(parts)))
    return str(text)


@pytest.mark.parametrize("case", delta_cases())
def test_every_base_gives_the_same_state(case: Case):
    """delta L11: commits alone, each checkpoint, and compacted commits are ways to the same table."""
    if case.expected["outcome"] == "must be an error":
        pytest.skip("not a table that can be read")
    contents = {base: content(state) for base, state in states_by_base(str(case.location)).items()}
    first = next(iter(contents.values()))
    assert [base for base, state in contents.items() if state != first] == []
