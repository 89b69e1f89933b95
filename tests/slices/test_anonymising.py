"""Anonymised slices contain no text of the source's rows, and joins still match."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

import harness
from harness.cli import main
from harness.errors import RequestError, UnsupportedError
from harness.slices.anonymising.pseudonyms import Pseudonyms
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

pytestmark = pytest.mark.filterwarnings("ignore:Slice :harness.errors.HarnessWarning")

DAY = dt.date(2021, 3, 17)
ROWS = [
    {"id": 90417, "name": "Kassandra", "city": "Ulmenthal", "born": DAY, "paid": Decimal("48213.77")},
    {"id": 90418, "name": None, "city": "Ulmenthal", "born": DAY, "paid": Decimal("0.00")},
    {"id": 90419, "name": "Kassandra", "city": "Birkenau", "born": None, "paid": None},
]
SECRETS = ("90417", "Kassandra", "Ulmenthal", "Birkenau", "2021-03-17", "48213.77", "Geheim")
LEFT = "Geheim"
"""A text that is put wherever a person or a writer may leave one."""


def iceberg(place: Path) -> str:
    """Create a table partitioned by a secret, with a delete of each kind, and texts wherever possible."""
    schema = {"id": "long", "name": "string", "city": "string", "born": "date", "paid": "decimal(9,2)"}
    t = IcebergTable.create(
        place / LEFT, schema, partition_spec=[("city", "identity")], properties={"owner": LEFT, "comment": LEFT}
    )
    files = t.write_partitioned(ROWS)
    t.append(*files)
    t.commit(add=[t.write_position_deletes([(files[0], 1)])])
    t.commit(add=[t.write_equality_deletes(["id"], [{"id": 90419}], partition={"city": "Birkenau"})])

    def leave(document: dict[str, Any]) -> None:
        for field in document["schemas"][0]["fields"]:
            field["doc"] = LEFT
        for snapshot in document["snapshots"]:
            snapshot["summary"]["spark.app.id"] = LEFT

    t.edit_metadata(leave)
    return str(t.location)


def delta(place: Path) -> str:
    """Create a similar Delta table with a deletion vector."""
    schema = {"id": "long", "name": "string", "city": "string", "born": "date", "paid": "decimal(9,2)"}
    t = DeltaTable.create(
        place / LEFT,
        schema,
        partition_columns=["city"],
        configuration={"owner": LEFT, "delta.enableDeletionVectors": "true"},
        features=["deletionVectors"],
    )
    first, second = t.write_partitioned(ROWS)
    t.append(first)
    t.append(second)
    t.delete(first, [1])
    t.edit_commit(1, lambda actions: actions.append({"commitInfo": {"userName": LEFT, "operation": "WRITE"}}))
    return str(t.directory)


def all_text(directory: Path) -> str:
    """Return the names, bytes and decompressed content of all files in a directory."""
    found = []
    for file in sorted(path for path in directory.rglob("*") if path.is_file()):
        found += [str(file.relative_to(directory)), file.read_bytes().decode("latin-1")]
        if file.suffix == ".parquet":
            rows = pq.read_table(file)
            found += [str(rows.to_pylist()), str(rows.schema.metadata), str(pq.read_metadata(file).metadata)]
        elif file.suffix == ".avro":
            with file.open("rb") as stream:
                reader = fastavro.reader(stream)
                found += [str(reader.metadata), str(list(reader))]
    return "\n".join(found)


@pytest.mark.parametrize("make", [iceberg, delta])
def test_nothing_of_the_source_is_left(tmp_path: Path, make: Any) -> None:
    source, directory = make(tmp_path), tmp_path / "slice"
    assert all(secret in all_text(Path(source)) for secret in ("Kassandra", "Ulmenthal", LEFT)), "the test sees nothing"
    harness.open_table(source).pull(directory, anonymise="a key")
    left = [secret for secret in SECRETS if secret in all_text(directory)]
    assert left == []
    before, after = (harness.open_table(place).snapshot().to_arrow() for place in (source, directory))
    assert (after.num_rows, after.schema.types) == (before.num_rows, before.schema.types)
    names = Pseudonyms("a key")
    city = dict(zip(before["id"].to_pylist(), before["city"].to_pylist(), strict=True))
    for row in after.to_pylist():
        (own,) = [id_ for id_ in city if names.pseudonym(before_type(source, "id"), id_) == row["id"]]
        assert row["city"] == names.pseudonym(before_type(source, "city"), city[own])
    for column in before.column_names:
        assert after[column].null_count == before[column].null_count


def before_type(source: str, column: str) -> Any:
    """Return a column's type in the source."""
    return next(f.type for f in harness.open_table(source).snapshot().schema.fields if f.name == column)


def test_partition_values_that_cannot_be_anonymised_are_refused(tmp_path: Path) -> None:
    t = IcebergTable.create(tmp_path / "t", {"id": "long"}, partition_spec=[("id", "bucket[4]")])
    t.append(t.write_data([{"id": 1}]))
    with pytest.raises(UnsupportedError, match="the partition field id_bucket"):
        harness.open_table(t.location).pull(tmp_path / "slice", anonymise="k")
    assert not (tmp_path / "slice" / "metadata").exists()
    d = DeltaTable.create(tmp_path / "d", {"id": "long", "b": "binary"}, partition_columns=["b"])
    d.append(d.write_data([{"id": 1, "b": b"x"}]))
    with pytest.raises(UnsupportedError, match="a partition by bytes"):
        harness.open_table(str(d.directory)).pull(tmp_path / "other", anonymise="k")
    with pytest.raises(RequestError, match="expected a key"):
        harness.open_table(t.location).pull(tmp_path / "slice", anonymise="")


def test_an_anonymised_slice_is_not_refreshed(tmp_path: Path) -> None:
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    t.append(t.write_data([{"id": 1}]))
    harness.open_table(t.location).pull(tmp_path / "slice", anonymise="k")
    with pytest.raises(RequestError, match="it is anonymised"):
        harness.open_table(t.location).pull(tmp_path / "slice", refresh=True)


def test_the_command(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    t.append(t.write_data([{"id": 7_654_321}]))
    (tmp_path / "key").write_text("one\n")
    pull = ["pull", t.location]
    monkeypatch.setenv("HARNESS_ANONYMISE_KEY", "one")
    assert main([*pull, str(tmp_path / "plain")]) == 0  # a key in the environment does not start anonymising
    assert main([*pull, str(tmp_path / "environment"), "--anonymise"]) == 0
    assert main([*pull, str(tmp_path / "file"), "--anonymise", "--key-file", str(tmp_path / "key")]) == 0
    monkeypatch.delenv("HARNESS_ANONYMISE_KEY")
    assert main([*pull, str(tmp_path / "drawn"), "--anonymise"]) == 0
    ids = [
        harness.open_table(tmp_path / name).snapshot().to_arrow()["id"].to_pylist()[0]
        for name in ("plain", "environment", "file", "drawn")
    ]
    assert ids[0] == 7_654_321
    assert ids[1] == ids[2] == Pseudonyms("one").pseudonym(before_type(str(tmp_path / "plain"), "id"), 7_654_321)
    assert len({*ids}) == 3
    capfd.readouterr()
    assert main([*pull, str(tmp_path / "x"), "--key-file", str(tmp_path / "key")]) == 2
    assert "--key-file requires --anonymise" in capfd.readouterr().err
