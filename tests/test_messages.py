"""What errors and warnings say: whole lines, the rule of the table's own format, and the names of options."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import harness
from harness.errors import HarnessError
from harness.rules import in_format
from harness.testing.delta import DeltaTable

PACKAGE = Path(harness.__file__).parent
NOT_SHARED = ("iceberg", "testing", "conformance", "rules.py")


def sources(*without: str) -> Iterator[tuple[Path, ast.Module]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        if file.relative_to(PACKAGE).parts[0] not in without:
            yield file, ast.parse(file.read_text(encoding="utf-8"))


# The rule that an error cites.


def test_every_rule_that_shared_code_cites_is_known_for_delta() -> None:
    cited = {
        node.value
        for _, tree in sources(*NOT_SHARED)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("iceberg ")
    }
    known = {rule for rule in cited if in_format(rule, "delta") is not None}
    # Encryption, Avro's codecs, and delete files: Delta has no rule, and all but the first not the thing.
    assert cited - known == {"iceberg 2.14", "iceberg 2.19", "iceberg 4.11", "iceberg 4.25"}
    assert all((in_format(rule, "delta") or "delta").startswith("delta") for rule in cited)


@pytest.mark.parametrize(
    ("rule", "table_format", "expected"),
    [
        ("iceberg 7.6", "delta", "delta L45"),
        ("iceberg 7.6", "iceberg", "iceberg 7.6"),
        ("iceberg 7.6", None, "iceberg 7.6"),
        ("iceberg 2.19", "delta", None),
        ("delta T23", "delta", "delta T23"),
        (None, "delta", None),
    ],
)
def test_an_error_within_a_table_cites_a_rule_of_its_format(rule, table_format, expected) -> None:
    assert HarnessError("x", rule=rule).within(format=table_format).rule == expected


@pytest.fixture
def delta(tmp_path: Path) -> DeltaTable:
    t = DeltaTable.create(tmp_path / "t", {"id": "long", "s": "string"})
    t.append(t.write_data([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}]))
    return t


def error_of(location: object, engine: str = "duckdb", **how: object) -> HarnessError:
    with pytest.raises(HarnessError) as caught:
        harness.open_table(str(location)).snapshot().to_arrow(engine=engine, **how)
    return caught.value


def remove(file: Path) -> None:
    file.unlink()


def damage(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def encrypt(file: Path) -> None:
    file.write_bytes(b"PARE" + file.read_bytes()[4:-4] + b"PARE")


def other_type(file: Path) -> None:
    pa.parquet.write_table(pa.table({"id": ["text", "more"], "s": ["a", "b"]}), file)


def same_names(file: Path) -> None:
    pa.parquet.write_table(pa.table({"ID": [1, 2], "Id": [1, 2], "s": ["a", "b"]}), file)


BREAKS = [
    pytest.param(remove, "delta L45", id="missing"),
    pytest.param(damage, "delta L45", id="damaged"),
    pytest.param(encrypt, None, id="encrypted"),
    pytest.param(other_type, "delta T23", id="other-type"),
    pytest.param(same_names, "delta T10", id="same-names"),
]


@pytest.mark.parametrize(("how", "rule"), BREAKS)
@pytest.mark.parametrize("engine", ["duckdb", "oracle"])
def test_errors_about_files_of_a_delta_table_cite_delta(delta, how, rule, engine) -> None:
    how(delta.live_files[0].file)
    caught = error_of(delta.directory, engine)
    assert caught.rule == rule or (engine == "oracle" and caught.rule is None)
    assert "iceberg" not in str(caught)


@pytest.mark.parametrize(("how", "rule"), BREAKS)
def test_errors_about_files_of_a_delta_table_cite_delta_on_spark(delta, how, rule, spark) -> None:
    how(delta.live_files[0].file)
    caught = error_of(delta.directory, "spark")
    assert caught.rule == rule
    assert "iceberg" not in str(caught)


def test_a_wrong_count_of_a_delta_file_cites_delta(delta) -> None:
    file = delta.live_files[0]
    delta.delete(file, [0])
    pa.parquet.write_table(pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"]}), file.file)
    for engine in ("duckdb", "oracle"):
        assert error_of(delta.directory, engine).rule == "delta E9"


def test_a_missing_file_of_a_delta_table_is_told_in_one_line(delta) -> None:
    delta.live_files[0].file.unlink()
    t, path = delta.directory, delta.live_files[0].path
    assert str(error_of(t)) == (
        "Cannot read a data file: it is missing or empty; restore it, or map its path with path_map "
        f"[MissingFile; table {t}, snapshot 1, file {path} ({t}/{path}), rule delta L45]"
    )


def test_an_ambiguous_name_in_a_filter_cites_delta(tmp_path) -> None:
    from harness.filter_sql import parse_filter
    from harness.schema import Field, IntegerType, Schema

    fields = tuple(Field(id=i, name=name, type=IntegerType(32)) for i, name in enumerate(("A", "a"), 1))
    with pytest.raises(HarnessError) as caught:
        parse_filter("a = 1", Schema(fields=fields), case_sensitive=False)
    assert caught.value.rule == "iceberg 5.21"
    assert caught.value.within(format="delta").rule == "delta T2"
