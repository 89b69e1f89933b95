"""Plans of whole tables: skipped files, trusted statistics, and the modules that planning imports."""

import pytest

import harness
from harness.writing.iceberg.builder import IcebergTable

ROWS = ([{"id": 1, "n": 1}], [{"id": 2, "n": 5}], [{"id": 3, "n": 9}])


@pytest.fixture
def table(tmp_path):
    """Three manifests of one file each, the newest first in the list, partitioned by n: 1, 5, 9."""
    made = IcebergTable.create(tmp_path / "t", {"id": "long", "n": "int"}, partition_spec=[("n", "identity")])
    for rows in ROWS:
        made.append(made.write_data(rows))
    return made


def plan(table, where=None, **options):
    return harness.open_table(str(table.store.directory), **options).snapshot().plan(where=where)


@pytest.mark.parametrize(
    ("prune", "manifests", "skipped", "trusted"),
    [
        ("all", 2, [], "partition summaries of n"),
        ("files", 0, ["partition"] * 2, "partition tuples of 2 files"),
        ("off", 0, [], None),
    ],
)
def test_manifests_are_skipped_unless_asked_otherwise(table, prune, manifests, skipped, trusted):
    found = plan(table, "n = 5", prune=prune)
    assert found.counts.manifests_skipped == manifests
    assert [s["reason"] for s in found.skipped.to_pylist()] == skipped
    assert found.files.num_rows == 3 - manifests - len(skipped)
    assert found.trusted == (() if trusted is None else (trusted,))
    assert (f"trusted {trusted}" in found.explain()) == (trusted is not None)
    assert found.to_dict()["trusted"] == list(found.trusted)


def test_a_file_outside_its_summary_causes_all_manifests_to_be_read(table):
    nine = (9).to_bytes(4, "little")

    def falsify(document):
        newest, _, oldest = document.records
        assert newest["partitions"][0]["lower_bound"] == nine
        oldest["partitions"][0] |= {"lower_bound": nine, "upper_bound": nine}

    table.edit_manifest_list(falsify)
    found = plan(table, "n = 9")
    assert (found.counts.manifests_skipped, found.files.num_rows, len(found.skipped)) == (0, 1, 2)
    assert found.trusted == ("partition tuples of 2 files",)
    assert [w.partition(" are wrong")[2] for w in found.warnings] == [", so no manifest is skipped [iceberg 3.9]"]


def test_a_bound_truncated_inside_a_character_keeps_its_file(tmp_path):
    made = IcebergTable.create(tmp_path / "t", {"s": "string"})
    data = made.write_data([{"s": "b"}])
    data.data_file["lower_bounds"] = [{"key": 1, "value": b"\xf0\x9f"}]
    made.append(data)
    assert plan(made, "s LIKE 'a%'").files.num_rows == 1
