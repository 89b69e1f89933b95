"""Comparisons of two plans of one snapshot, with hand-made lists of files and with plans of servers that have bugs."""

import math
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pyarrow.compute as pc
import pytest

import harness
from harness.diff.plan_differences import ListingContext, compare_listings
from harness.diff.result import ComparisonOutcome
from harness.errors import (
    CorruptDeleteError,
    InvalidTableError,
    RequestError,
    StorageError,
    UnsupportedError,
    html_text,
)
from harness.metadata.iceberg.manifests import Content, DataFile
from harness.metadata.iceberg.server.listing import FileListing, ListedDelete, ListedFile, client_listing
from harness.metadata.model.schema import IntegerType
from harness.testing.lake_catalog import LakeCatalog
from harness.testing.plan_faults import PlanFault
from harness.types import PlanDifferenceKind as Kind
from harness.writing.iceberg.builder import IcebergTable

# Hand-made lists of files


def data_file(path="lake/t/data/1.parquet", **more):
    values = {"format": "parquet", "spec_id": 0, "partition": {}, "record_count": 10, "size": 100, **more}
    return DataFile(content=Content.DATA, path=path, **values)


def listed(*deletes, optional=(), number=None, residual=None, statistics=None, **file):
    return ListedFile(
        file=data_file(**file),
        deletes=deletes,
        optional=frozenset(optional),
        sequence_number=number,
        residual=residual,
        statistics=statistics or {},
    )


def vector(offset=4, length=40, target="lake/t/data/1.parquet", **more):
    content = Content.POSITION_DELETES
    path = more.pop("path", "lake/t/data/9.puffin")
    return ListedDelete(
        content=content, path=path, format="puffin", offset=offset, length=length, target=target, **more
    )


KEYED = ListedDelete(
    content=Content.EQUALITY_DELETES, path="lake/t/data/7.parquet", format="parquet", equality_ids=(1, 2)
)
POSITIONS = ListedDelete(content=Content.POSITION_DELETES, path="lake/t/data/8.parquet", format="parquet")
CONTEXT = ListingContext(
    names=("the server's plan", "the client's plan"),
    location="lake/t",
    columns={1: "id", 2: "s.x"},
    types={1: IntegerType(64)},
    partition_key=lambda file: (file.spec_id, tuple(file.partition.items())),
    partition_text=lambda file: str(dict(file.partition)),
)
COUNTS = {"null_value_counts": {1: 3}}
BOUNDS = {"lower_bounds": {1: 5}, "upper_bounds": {1: 9}}


def differences_of(left, right):
    """Return the differences of two lists of files."""
    return compare_listings(
        *(FileListing(files=files, deletes=tuple(d for f in files for d in f.deletes)) for files in (left, right)),
        CONTEXT,
    )


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(listed(), listed(), id="no deletes"),
        pytest.param(listed(KEYED, vector()), listed(vector(), KEYED), id="deletes in another order"),
        pytest.param(listed(), listed(number=4), id="a sequence number in one plan"),
        pytest.param(listed(vector()), listed(vector(sequence_number=4)), id="a number of a delete in one plan"),
        pytest.param(listed(vector(target=None)), listed(vector()), id="the target of a vector in one plan"),
        pytest.param(listed(), listed(optional=[KEYED]), id="a delete that statistics exclude"),
        pytest.param(listed(POSITIONS), listed(optional=[POSITIONS]), id="a listed delete that statistics exclude"),
        pytest.param(listed(), listed(statistics=BOUNDS), id="statistics in one plan"),
        pytest.param(listed(statistics={"lower_bounds": {}}), listed(statistics=BOUNDS), id="no bounds of a column"),
        pytest.param(listed(record_count=None), listed(), id="no record count"),
        pytest.param(listed(first_row_id=None), listed(first_row_id=7), id="no first row id"),
    ],
)
def test_plans_that_state_the_same(left, right):
    assert differences_of([left], [right]).differences == ()


@pytest.mark.parametrize(
    ("left", "right", "kind", "text"),
    [
        (
            listed(),
            listed(KEYED),
            Kind.MISSING_DELETE,
            "the server's plan lacks the equality delete data/7.parquet (keys id, s.x)",
        ),
        (
            listed(POSITIONS),
            listed(),
            Kind.ADDED_DELETE,
            "the server's plan has the position delete file data/8.parquet, which the client's plan lacks",
        ),
        (
            listed(vector(4)),
            listed(vector(50, 44)),
            Kind.DIFFERENT_DELETE,
            "the server's plan has the deletion vector at offset 4 of data/9.puffin (40 bytes), the client's plan has"
            " the deletion vector at offset 50 of data/9.puffin (44 bytes)",
        ),
        (
            listed(vector(4, 41)),
            listed(vector(4, 40)),
            Kind.DIFFERENT_DELETE,
            "the server's plan has the deletion vector at offset 4 of data/9.puffin (41 bytes), the client's plan has"
            " the deletion vector at offset 4 of data/9.puffin (40 bytes)",
        ),
        (
            listed(vector(path="lake/t/data/10.puffin")),
            listed(vector()),
            Kind.DIFFERENT_DELETE,
            "the server's plan has the deletion vector at offset 4 of data/10.puffin (40 bytes), the client's plan has"
            " the deletion vector at offset 4 of data/9.puffin (40 bytes)",
        ),
        (
            listed(replace(KEYED, equality_ids=(3,))),
            listed(KEYED),
            Kind.DIFFERENT_DELETE,
            "the server's plan has the equality delete data/7.parquet (keys field 3), the client's plan has the"
            " equality delete data/7.parquet (keys id, s.x)",
        ),
        (
            listed(vector(sequence_number=4)),
            listed(vector(sequence_number=5)),
            Kind.SEQUENCE_NUMBER,
            "the server's plan has the sequence number 4 for the deletion vector at offset 4 of data/9.puffin"
            " (40 bytes), the client's plan has 5",
        ),
        (
            listed(number=4),
            listed(number=5),
            Kind.SEQUENCE_NUMBER,
            "the server's plan has the sequence number 4, the client's plan has 5",
        ),
        (
            listed(partition={1000: "eu"}),
            listed(partition={1000: "us"}),
            Kind.PARTITION,
            "the server's plan has the partition {1000: 'eu'} of spec 0, the client's plan has {1000: 'us'} of spec 0",
        ),
        (
            listed(spec_id=1),
            listed(),
            Kind.PARTITION,
            "the server's plan has the partition {} of spec 1, the client's plan has {} of spec 0",
        ),
        (
            listed(format="orc"),
            listed(),
            Kind.FORMAT,
            "the server's plan has the format orc, the client's plan has parquet",
        ),
        (
            listed(first_row_id=3),
            listed(first_row_id=0),
            Kind.FIRST_ROW_ID,
            "the server's plan has the first row id 3, the client's plan has 0",
        ),
        (
            listed(record_count=9),
            listed(),
            Kind.STATISTICS,
            "the server's plan has the record count 9, the client's plan has 10",
        ),
        (
            listed(statistics={"null_value_counts": {1: 4}}),
            listed(statistics=COUNTS),
            Kind.STATISTICS,
            "the server's plan has the null count of id 4, the client's plan has 3",
        ),
        (
            listed(statistics={**BOUNDS, "upper_bounds": {1: 8}}),
            listed(statistics=BOUNDS),
            Kind.STATISTICS,
            "the server's plan has the upper bound of id 8, the client's plan has 9",
        ),
        (
            listed(size=7),
            listed(),
            Kind.SIZE,
            "the server's plan has the size 7, the client's plan has 100",
        ),
    ],
    ids=str,
)
def test_a_difference_of_a_file(left, right, kind, text):
    (difference,) = differences_of([left], [right]).differences
    assert (difference.kind, difference.sentence) == (kind, f"data/1.parquet: {text}")
    assert kind.counts is (kind is not Kind.SIZE)


def test_a_vector_of_another_file_is_named():
    first, second = "lake/t/data/1.parquet", "lake/t/data/2.parquet"
    right = [listed(vector(4, target=first)), listed(vector(50, target=second), path=second)]
    left = [listed(vector(50, target=None)), listed(vector(50, target=None), path=second)]
    (difference,) = differences_of(left, right).differences
    assert "at offset 50 of data/9.puffin (40 bytes, which is for data/2.parquet)" in difference.sentence


def test_files_that_one_plan_lists_alone_or_twice():
    one, two, three = (listed(path=f"lake/t/data/{n}.parquet") for n in (1, 2, 3))
    result = differences_of([one, two, two], [one, three])
    assert [each.sentence for each in result.differences] == ["data/2.parquet: the server's plan lists the file twice"]
    assert (result.only_left, result.only_right) == ((two,), (three,))


def test_properties_that_one_plan_lacks_are_noted_once():
    left = [listed(path=f"{n}") for n in range(9)]
    right = [listed(path=f"{n}", number=n, first_row_id=n) for n in range(9)]
    assert differences_of(left, right).notes == (
        "the server's plan has no sequence numbers, so they are not compared",
        "the server's plan has no first row ids, so they are not compared",
    )


def test_a_delete_that_is_listed_for_no_file_is_noted():
    left = FileListing(files=(listed(),), deletes=(KEYED,))
    right = FileListing(files=(listed(KEYED),), deletes=(KEYED,))
    notes = compare_listings(left, right, CONTEXT).notes
    assert notes == ("the server's plan lists deletes that it applies to no file: data/7.parquet",)


# Plans of a server


def rows(*ids, region="eu"):
    return [{"id": id_, "region": region} for id_ in ids]


SCHEMA = {"id": "long", "region": "string"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Return tables by name.

    - keys: files with ids 1 to 3, 4 to 6, and 7 to 9. An equality delete of id 2 applies to the first file, and an
      equality delete of ids 1, 5, and 8 applies to all files. The newest manifest comes first, with the last two files.
    - vectors: files with ids 1 to 3 and 4 to 6. The first file has a vector that deletes id 1, and the second file has
      a vector that deletes ids 5 and 6. Both vectors are in one Puffin file.
    - partitions: files with ids 1 to 3 in eu, and 4 to 6 in us. A position delete file for each of them deletes ids 1
      and 4.
    - plain: files with ids 4 and 6, and 7 and 9. Their bounds do not exclude ids 5 and 8.
    - history: a file with ids 1 to 3. A later commit replaced it by a file with ids 4 to 6.
    """
    directory = tmp_path_factory.mktemp("lake")
    keys = IcebergTable.create(directory / "keys", SCHEMA)
    keys.append(keys.write_data(rows(1, 2, 3)))
    keys.commit(add=[keys.write_equality_deletes(["id"], [{"id": 2}])])
    keys.append(keys.write_data(rows(4, 5, 6)), keys.write_data(rows(7, 8, 9)))
    keys.commit(add=[keys.write_equality_deletes(["id"], [{"id": 1}, {"id": 5}, {"id": 8}])])
    vectors = IcebergTable.create(directory / "vectors", SCHEMA, format_version=3)
    files = vectors.write_data(rows(1, 2, 3)), vectors.write_data(rows(4, 5, 6))
    vectors.append(*files)
    vectors.commit(add=vectors.write_deletion_vectors({files[0]: [0], files[1]: [1, 2]}))
    partitions = IcebergTable.create(directory / "partitions", SCHEMA, partition_spec=[("region", "identity")])
    parts = partitions.write_partitioned([*rows(1, 2, 3), *rows(4, 5, 6, region="us")])
    partitions.append(*parts)
    partitions.commit(add=[partitions.write_position_deletes([(part, 0)]) for part in parts])
    history = IcebergTable.create(directory / "history", SCHEMA)
    old = history.write_data(rows(1, 2, 3))
    history.append(old)
    history.commit(add=[history.write_data(rows(4, 5, 6))], remove=[old])
    plain = IcebergTable.create(directory / "plain", SCHEMA)
    plain.append(plain.write_data(rows(4, 6)), plain.write_data(rows(7, 9)))
    return {"keys": keys, "vectors": vectors, "partitions": partitions, "plain": plain, "history": history}


def compared(tables, name, *faults, page=None, **arguments):
    """Compare the plan of a server with faults with harness's own plan."""
    with LakeCatalog(faults=faults, page=page) as server:
        server.add(f"sales.{name}", tables[name])
        comparison = harness.compare_plans(f"sales.{name}", catalog=server.catalog(), **arguments)
        assert set(faults) == server.planted
    return comparison


@pytest.mark.parametrize("where", [None, "id > 4", "region = 'eu'", "region = 'eu' AND id > 1", "id IS NULL"])
@pytest.mark.parametrize("name", ["keys", "vectors", "partitions", "plain", "history"])
@pytest.mark.parametrize("page", [None, 1])
def test_plans_of_a_right_server_are_equal(tables, name, where, page):
    comparison = compared(tables, name, page=page, where=where)
    assert comparison.equal, comparison
    assert comparison.counts == {}
    assert comparison.rows is None


SWAPPED = {Kind.MISSING_DELETE: 1, Kind.ADDED_DELETE: 1}


@pytest.mark.parametrize(
    ("name", "fault", "where", "counts", "only_left", "only_right", "refusal"),
    [
        ("keys", PlanFault.IGNORED_DELETES, None, {Kind.MISSING_DELETE: 4}, 4, 0, StorageError),
        ("vectors", PlanFault.IGNORED_DELETES, None, {Kind.MISSING_DELETE: 2}, 3, 0, StorageError),
        ("vectors", PlanFault.IGNORED_DELETES, "id > 5", {Kind.MISSING_DELETE: 1}, 1, 0, StorageError),
        ("vectors", PlanFault.LAST_VECTOR, None, {Kind.DIFFERENT_DELETE: 1}, 1, 2, CorruptDeleteError),
        ("vectors", PlanFault.DELETES_OF_FIRST_PAGE, None, {Kind.MISSING_DELETE: 1}, 2, 0, None),
        ("partitions", PlanFault.DELETES_OF_FIRST_PAGE, None, {Kind.MISSING_DELETE: 1}, 1, 0, None),
        ("keys", PlanFault.MISSING_FILE, None, {Kind.MISSING_FILE: 1}, 0, 1, None),
        ("history", PlanFault.REMOVED_FILE, None, {Kind.ADDED_FILE: 1}, 3, 0, None),
        ("keys", PlanFault.FILE_TWICE, "id > 2", {Kind.REPEATED_FILE: 1}, 2, 0, InvalidTableError),
        ("keys", PlanFault.OTHER_EQUALITY_DELETE, None, SWAPPED, 1, 0, None),
    ],
)
def test_a_wrong_plan_and_its_rows(tables, name, fault, where, counts, only_left, only_right, refusal):
    page = 1 if fault is PlanFault.DELETES_OF_FIRST_PAGE else None
    comparison = compared(tables, name, fault, page=page, where=where)
    assert comparison.outcome is ComparisonOutcome.DIFFERENT
    assert comparison.counts == counts
    assert (comparison.rows.only_left, comparison.rows.only_right) == (only_left, only_right)
    assert comparison.left.refusal is None if refusal is None else isinstance(comparison.left.refusal, refusal)


@pytest.mark.parametrize("fault", [PlanFault.VECTOR_OFFSET, PlanFault.VECTOR_LENGTH])
def test_a_vector_that_cannot_be_read_is_a_difference_of_the_plan_and_an_error_of_its_rows(tables, fault):
    comparison = compared(tables, "vectors", fault)
    assert comparison.counts == {Kind.DIFFERENT_DELETE: 1}
    assert isinstance(comparison.left.refusal, CorruptDeleteError)
    assert comparison.rows.outcome is ComparisonOutcome.DIFFERENT_OUTCOME
    assert isinstance(comparison.rows.left.error, CorruptDeleteError)


def test_a_plan_that_harness_refuses_when_it_reads_the_deletes(tmp_path):
    table = IcebergTable.create(tmp_path / "t", SCHEMA)
    first, second = table.write_data(rows(1, 2, 3)), table.write_data(rows(4, 5, 6))
    table.append(first, second)
    positions = table.write_position_deletes([(first, 0), (second, 0)])
    keys = table.write_equality_deletes(["id"], [{"id": 2}, {"id": 5}])
    table.commit(add=[positions, keys])

    def change(document):
        """Drop the equality delete of the first file, and the position deletes of the second file."""
        places = {delete["content"]: place for place, delete in enumerate(document["delete-files"])}
        for task in document["file-scan-tasks"]:
            content = "position-deletes" if task["data-file"]["file-path"] == first.path else "equality-deletes"
            task["delete-file-references"] = [places[content]]

    comparison = changed({"t": table}, "t", change)
    assert comparison.counts == {Kind.MISSING_DELETE: 2}
    assert isinstance(comparison.left.refusal, CorruptDeleteError)
    assert comparison.rows.only_left == 2  # ids 2 and 4


def test_plans_in_the_other_order(tables):
    comparison = compared(tables, "plain", PlanFault.MISSING_FILE, plans=("client", "server"))
    assert comparison.counts == {Kind.ADDED_FILE: 1}
    assert comparison.rows.only_left == 2
    text = "the client's plan lists the file, which has 2 rows, the server's plan does not"
    assert comparison.differences[0].sentence.endswith(text)


def test_a_wrong_partition_and_its_rows(tables):
    comparison = compared(tables, "partitions", PlanFault.PARTITION)
    assert comparison.counts == {Kind.PARTITION: 1}
    assert isinstance(comparison.left.refusal, CorruptDeleteError)


def test_wrong_statistics_do_not_need_a_read(tables):
    comparison = compared(tables, "keys", PlanFault.STATISTICS)
    assert comparison.counts == {Kind.STATISTICS: 2}
    assert [each.sentence.partition(": ")[2] for each in comparison.differences] == [
        "the server's plan has the null count of id 1, the client's plan has 0",
        "the server's plan has the null count of region 1, the client's plan has 0",
    ]
    assert comparison.rows is None


@pytest.mark.parametrize(
    ("name", "fault", "where", "kind", "numbers"),
    [
        # After deletes, the first file has id 3, the second has ids 4 and 6, and the third has ids 7 and 9.
        ("keys", PlanFault.DROPPED_RESIDUALS, "id <> 6", Kind.DROPPED_RESIDUAL, [1]),
        ("vectors", PlanFault.DROPPED_RESIDUALS, "id > 2 AND id < 9", Kind.DROPPED_RESIDUAL, [1]),
        ("partitions", PlanFault.DROPPED_RESIDUALS, "region = 'eu' AND id > 2", Kind.DROPPED_RESIDUAL, [1]),
        ("partitions", PlanFault.DROPPED_RESIDUALS, "id > 2 AND id < 6", Kind.DROPPED_RESIDUAL, [1, 1]),
        ("vectors", PlanFault.WIDER_RESIDUAL, "id > 0 AND id < 3", Kind.WIDER_RESIDUAL, [1]),
    ],
)
def test_a_residual_that_keeps_too_many_rows(tables, name, fault, where, kind, numbers):
    comparison = compared(tables, name, fault, where=where)
    assert comparison.counts == {kind: len(numbers)}
    assert [each.rows for each in comparison.differences] == numbers
    assert comparison.rows is None  # harness applies the whole filter
    assert not comparison.equal


def test_a_residual_that_the_partition_decides_is_no_difference(tables):
    comparison = changed(tables, "partitions", with_residual(True), where="region = 'eu'", rows=False)
    assert comparison.equal, comparison
    assert comparison.left.files == 1


def test_a_dropped_residual_that_all_rows_satisfy_is_noted(tables):
    comparison = compared(tables, "vectors", PlanFault.DROPPED_RESIDUALS, where="id > 0")
    assert comparison.equal, comparison
    note = "the server's plan has residuals that differ from the filter, but not for the rows of 2 files"
    assert note in comparison.notes


def test_without_reads_a_residual_counts_by_how_it_is_written(tables):
    dropped = compared(tables, "vectors", PlanFault.DROPPED_RESIDUALS, where="id > 0", rows=False)
    assert dropped.counts == {Kind.DROPPED_RESIDUAL: 2}
    wider = compared(tables, "vectors", PlanFault.WIDER_RESIDUAL, where="id > 0 AND id < 9", rows=False)
    assert wider.counts == {Kind.DIFFERENT_RESIDUAL: 1}
    assert {each.rows for each in (*dropped.differences, *wider.differences)} == {None}
    assert not wider.rows_read


class ChangingCatalog(LakeCatalog):
    """A server with a function that changes its plans."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def answer(self, method, path, query, headers, body):
        status, more, document = super().answer(method, path, query, headers, body)
        if path.endswith("/plan"):
            self.change(document)
        return status, more, document


def changed(tables, name, change, **arguments):
    """Compare a plan that a function changed with harness's own plan."""
    with ChangingCatalog(change) as server:
        server.add(f"sales.{name}", tables[name])
        return harness.compare_plans(f"sales.{name}", catalog=server.catalog(), **arguments)


def with_residual(residual):
    def change(document):
        for task in document["file-scan-tasks"]:
            task["residual-filter"] = residual

    return change


def condition(type_, value):
    return {"type": type_, "term": "id", "value": value}


@pytest.mark.parametrize(
    ("residual", "counts"),
    [
        (condition("gt", 1), {}),
        ({"type": "and", "left": True, "right": {"type": "not", "child": condition("lt-eq", 1)}}, {}),
        (condition("gt-eq", 2), {}),  # the same rows of whole numbers
        (condition("gt", 3), {Kind.NARROWER_RESIDUAL: 1}),
        (False, {Kind.NARROWER_RESIDUAL: 2}),
        (condition("gt", 0), {}),  # id 1 is deleted
        ({"type": "nonsense"}, {Kind.DIFFERENT_RESIDUAL: 2}),
        ({"type": "eq", "term": "nowhere", "value": 1}, {Kind.DIFFERENT_RESIDUAL: 2}),
    ],
    ids=str,
)
def test_residuals_of_other_forms(tables, residual, counts):
    comparison = changed(tables, "vectors", with_residual(residual), where="id > 1")
    assert comparison.counts == counts, comparison


def test_a_residual_with_a_transform_is_noted(tables):
    term = {"type": "transform", "transform": "bucket[4]", "term": "id"}
    comparison = changed(tables, "vectors", with_residual({"type": "eq", "term": term, "value": 1}), where="id > 1")
    assert comparison.equal
    assert any("cannot be evaluated" in note for note in comparison.notes)


def test_a_filter_that_the_server_is_not_asked_for_is_no_residual(tables):
    comparison = changed(tables, "vectors", with_residual(True), where="lower(region) = 'us'")
    assert comparison.equal, comparison


def without_first_file(document):
    del document["file-scan-tasks"][0]


def test_a_file_without_matching_rows_may_be_skipped(tables):
    comparison = changed(tables, "plain", without_first_file, where="id = 5")
    assert comparison.equal, comparison
    assert comparison.counts == {Kind.SKIPPED_FILE: 1}


def test_without_reads_a_missing_file_counts(tables):
    comparison = changed(tables, "plain", without_first_file, where="id = 5", rows=False)
    assert comparison.counts == {Kind.MISSING_FILE: 1}
    assert comparison.rows is None


def test_a_file_that_our_statistics_skip_may_be_listed(tables):
    with LakeCatalog() as server:
        server.add("sales.keys", tables["keys"], prune="off")
        comparison = harness.compare_plans("sales.keys", catalog=server.catalog(), where="id > 8")
    assert comparison.equal, comparison
    assert comparison.counts == {Kind.SKIPPED_FILE: 2}


@pytest.mark.parametrize("plans", [("server", "client"), ("client", "server")])
@pytest.mark.parametrize("where", [None, "id > 4"])
def test_a_server_may_list_deletes_that_our_statistics_exclude(tmp_path, where, plans):
    table = IcebergTable.create(tmp_path / "t", SCHEMA)
    table.append(table.write_data(rows(1, 2)), table.write_data(rows(5, 6)))
    table.commit(add=[table.write_equality_deletes(["id"], [{"id": 6}])])
    with LakeCatalog() as server:
        server.add("sales.t", table, prune="off")
        comparison = harness.compare_plans("sales.t", catalog=server.catalog(), where=where, plans=plans)
    assert comparison.equal, comparison


def test_position_delete_files_whose_bounds_exclude_a_file_are_optional(tmp_path):
    table = IcebergTable.create(tmp_path / "t", SCHEMA)
    files = [table.write_data(rows(n)) for n in (1, 2, 3, 4)]
    table.append(*files)
    delete = table.write_position_deletes([(files[0], 0), (files[2], 0)])
    table.commit(add=[delete])
    source = harness.open_table(tmp_path / "t")._source
    listing = client_listing(source, source.select(None), None)
    required = {file.file.path: [d.path for d in file.deletes] for file in listing.files}
    optional = {file.file.path: [d.path for d in file.optional] for file in listing.files}
    # The bounds include the second file. Only the content of the delete file shows that it names no row of this file.
    assert required == {**{file.path: [delete.path] for file in files[:3]}, files[3].path: []}
    assert optional == {**{file.path: [] for file in files[:3]}, files[3].path: [delete.path]}


@pytest.mark.parametrize(
    ("spec", "where", "is_equal"),
    [
        (("id", "truncate[10]"), "id < 10", True),
        (("id", "truncate[10]"), "id < 7", False),
        (("id", "truncate[10]"), "id < 10 OR region = 'us'", True),
        (("id", "bucket[4]"), "id = 5", False),
        (("region", "identity"), "region <> 'us'", True),
        (("region", "identity"), "region <> 'us' AND id < 7", False),
        (("day", "month"), "day >= DATE '2024-03-01'", True),
        (("day", "month"), "day >= DATE '2024-03-02'", False),
        (("hidden", "identity"), "hidden IS NULL", True),
        (("hidden", "identity"), "hidden IS NULL OR hidden > 1", True),
        (("hidden", "bucket[4]"), "hidden IS NULL", True),
        (("hidden", "void"), "hidden IS NULL", False),
    ],
    ids=str,
)
def test_residuals_that_the_partition_decides(tmp_path, spec, where, is_equal):
    schema = {**SCHEMA, "day": "date", "hidden": "long"}
    table = IcebergTable.create(tmp_path / "t", schema, partition_spec=[spec])
    day = date(2024, 3, 7)
    table.append(table.write_data([{"id": 5, "region": "eu", "day": day, "hidden": None}]))
    assert changed({"t": table}, "t", with_residual(True), where=where, rows=False).equal is is_equal


def test_a_condition_that_null_satisfies_in_iceberg(tmp_path):
    # Iceberg's not-in is true for null, so the server need not exclude the third row
    table = IcebergTable.create(tmp_path / "t", {"v": "string"})
    table.append(table.write_data([{"v": value} for value in ("a", "b", None)]))
    comparison = changed({"t": table}, "t", with_residual(True), where="v NOT IN ('b', 'c')")
    assert [each.rows for each in comparison.differences] == [1]


@pytest.mark.parametrize(
    ("type_", "values", "where"),
    [
        ("int", [1, 2, None], "v = 1"),
        ("boolean", [True, False, None], "v"),
        ("float", [1.5, 2.5, None], "v < 2"),
        ("double", [1.5, math.nan, None], "isnan(v)"),
        ("decimal(9, 2)", [Decimal("1.50"), Decimal("2.50"), None], "v IN (1.50, 9.25)"),
        ("date", [date(2024, 3, 7), date(2024, 3, 8), None], "v = DATE '2024-03-07'"),
        ("time", [time(1, 2, 3), time(4), None], "v = TIME '01:02:03'"),
        ("timestamp", [datetime(2024, 3, 7, 1), datetime(2024, 3, 8), None], "v < TIMESTAMP '2024-03-08'"),
        ("timestamptz", [datetime(2024, 3, 7, tzinfo=UTC), None, None], "v < TIMESTAMPTZ '2024-03-08 00:00:00Z'"),
        ("string", ["it's", "b", None], "starts_with(v, 'it''s')"),
        ("string", ["a", "b", None], "v IS NOT NULL AND v <> 'b'"),
        ("uuid", [UUID(int=1), UUID(int=2), None], f"v = UUID '{UUID(int=1)}'"),
    ],
    ids=str,
)
def test_dropped_residuals_of_all_types(tmp_path, type_, values, where):
    """Each filter matches the first of three rows."""
    table = IcebergTable.create(tmp_path / "t", {"v": type_, "s": "struct<v: int>"})
    table.append(table.write_data([{"v": value, "s": {"v": place}} for place, value in enumerate(values)]))
    wrong = changed({"t": table}, "t", with_residual(True), where=f"{where} AND s.v < 9")
    assert [each.rows for each in wrong.differences] == [2], wrong
    right = changed({"t": table}, "t", lambda document: None, where=f"{where} AND s.v < 9")
    assert right.equal, right


def test_data_files_are_read_only_if_they_differ(tables, tmp_path):
    table = IcebergTable.create(tmp_path / "t", SCHEMA)
    files = table.write_data(rows(1, 2)), table.write_data(rows(3, 4))
    table.append(*files)
    table.file_of(files[1].path).unlink()
    for change, counts in ((lambda document: None, {}), (without_first_file, {Kind.MISSING_FILE: 1})):
        comparison = changed({"t": table}, "t", change)
        assert comparison.counts == counts
        assert comparison.rows is None or comparison.rows.only_right == 2


@pytest.mark.parametrize(
    ("change", "counts", "note"),
    [
        (with_residual(True), {Kind.DROPPED_RESIDUAL: 2}, "residuals of the server's plan are not evaluated"),
        (without_first_file, {Kind.MISSING_FILE: 1}, "the rows of files that only the client's plan lists are not"),
    ],
)
def test_a_data_file_that_cannot_be_read_is_noted(tmp_path, change, counts, note):
    table = IcebergTable.create(tmp_path / "t", SCHEMA)
    files = table.write_data(rows(1, 2)), table.write_data(rows(1, 4))
    table.append(*files)
    for file in files:
        table.file_of(file.path).write_bytes(b"PAR1")
    comparison = changed({"t": table}, "t", change, where="id < 2")
    assert comparison.counts == counts
    assert any(each.startswith(note) for each in comparison.notes), comparison


def test_only_the_first_files_are_shown_and_all_are_counted(tables):
    comparison = compared(tables, "keys", PlanFault.IGNORED_DELETES, max_files=1)
    assert comparison.counts == {Kind.MISSING_DELETE: 4}
    assert (comparison.files, comparison.truncated) == (3, True)
    assert len({each.file for each in comparison.differences}) == 1


# Saved plans, and other sides


@pytest.mark.parametrize("where", [None, "id > 4"])
@pytest.mark.parametrize("name", ["keys", "vectors", "partitions", "history"])
def test_a_saved_plan_equals_the_client_plan(tables, name, where):
    location = tables[name].store.directory
    saved = harness.open_table(location).snapshot().plan(where=where)
    comparison = harness.compare_plans(location, plans=(saved, "client"), where=where)
    assert comparison.equal, comparison
    assert (comparison.left.name, comparison.right.name) == ("saved", "client")


def test_a_saved_plan_has_sequence_numbers(tables):
    location = tables["keys"].store.directory
    plan = harness.open_table(location).snapshot().plan()
    place = plan.files.schema.get_field_index("sequence_number")
    field = plan.files.schema.field(place)
    numbers = pc.add(plan.files.column(place), 1)
    files = plan.files.set_column(place, field, numbers)
    comparison = harness.compare_plans(location, plans=("client", replace(plan, files=files)))
    assert comparison.counts == {Kind.SEQUENCE_NUMBER: 3}


def test_two_plans_of_the_same_kind_are_left_and_right(tables):
    plan = harness.open_table(tables["plain"].store.directory).snapshot().plan()
    shorter = replace(plan, files=plan.files.slice(1))
    comparison = harness.compare_plans(tables["plain"].store.directory, plans=(shorter, plan))
    assert comparison.differences[0].sentence.endswith("the left plan lacks the file, which has 2 rows")


def test_a_snapshot_can_be_chosen(tables):
    snapshots = [each["snapshot-id"] for each in tables["history"].snapshots]
    for at in snapshots:
        comparison = compared(tables, "history", at=at)
        assert (comparison.equal, comparison.snapshot) == (True, at)


def test_a_renamed_column_is_not_named_in_the_request(tmp_path):
    table = IcebergTable.create(tmp_path / "t", SCHEMA)
    table.append(table.write_data(rows(1)))
    table.rename_column("region", "area")
    with LakeCatalog() as server:
        server.add("sales.t", table)
        comparison = harness.compare_plans("sales.t", catalog=server.catalog(), where="area = 'eu'")
    assert comparison.equal, comparison
    assert [each["stats-fields"] for each in server.plan_requests] == [["id"]]


def test_a_plan_of_a_table_without_snapshots(tmp_path):
    comparison = compared({"t": IcebergTable.create(tmp_path / "t", SCHEMA)}, "t")
    assert (comparison.equal, comparison.snapshot, comparison.left.files) == (True, None, 0)


def test_bounds_may_be_encoded(tables):
    with LakeCatalog(encodes_bounds=True) as server:
        server.add("sales.keys", tables["keys"])
        comparison = harness.compare_plans("sales.keys", catalog=server.catalog())
    assert comparison.equal, comparison


def test_statistics_that_cannot_be_read_are_a_difference(tables):
    def change(document):
        document["file-scan-tasks"][0]["data-file"]["lower-bounds"] = {"keys": [1], "values": [{}]}

    comparison = changed(tables, "plain", change)
    assert comparison.counts == {Kind.STATISTICS: 1}
    assert "has statistics that cannot be read" in comparison.differences[0].sentence


def test_a_table_whose_metadata_file_cannot_be_read_is_refused(tables):
    with LakeCatalog(hides_metadata=True) as server:
        server.add("sales.keys", tables["keys"])
        with pytest.raises(harness.HarnessError):
            harness.compare_plans("sales.keys", catalog=server.catalog())


def test_a_plan_that_cannot_be_made_is_an_outcome(tables):
    def fail(document):
        document.clear()
        document |= {"status": "failed", "error": {"message": "out of order", "type": "Broken", "code": 500}}

    comparison = changed(tables, "keys", fail)
    assert comparison.outcome is ComparisonOutcome.DIFFERENT_OUTCOME
    assert isinstance(comparison.left.error, StorageError)
    assert comparison.right.files == 3


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"plans": ("server",)}, RequestError),
        ({"plans": ("server", "spark")}, RequestError),
        ({"planning": "server"}, RequestError),
        ({"engine": "nowhere"}, RequestError),
        ({"max_files": "2"}, RequestError),
        ({"max_files": -1}, RequestError),
        ({"where": "nowhere = 1", "plans": ("client", "client")}, RequestError),
        ({"columns": ["nowhere"], "plans": ("client", "client")}, RequestError),
        ({}, RequestError),  # a path has no server
    ],
    ids=str,
)
def test_requests_that_are_refused(tables, arguments, error):
    with pytest.raises(error):
        harness.compare_plans(tables["keys"].store.directory, **arguments)


def test_a_saved_plan_of_another_read_is_refused(tables):
    location = tables["history"].store.directory
    snapshots = harness.open_table(location)
    first = snapshots.snapshot(tables["history"].snapshots[0]["snapshot-id"]).plan()
    filtered = snapshots.snapshot().plan(where="id > 1")
    for plan in (first, filtered):
        with pytest.raises(RequestError, match="Cannot compare a plan"):
            harness.compare_plans(location, plans=(plan, "client"))


def test_a_catalog_without_planning_calls_is_refused(tables):
    with LakeCatalog() as server:
        server.calls = frozenset()
        server.add("sales.keys", tables["keys"])
        with pytest.raises(UnsupportedError):
            harness.compare_plans("sales.keys", catalog=server.catalog())


# Reports


def test_reports_of_a_difference(tables):
    comparison = compared(tables, "vectors", PlanFault.LAST_VECTOR)
    document = comparison.to_dict()
    assert (document["kind"], document["verdict"], document["files"]) == ("plan comparison", "different", 1)
    assert document["counts"] == {"different_delete": 1}
    assert document["differences"][0]["delete"] == comparison.differences[0].delete
    assert document["left"]["refusal"]["class"] == "CorruptDeleteError"
    assert document["rows"]["only_left"] == 1
    sentence = comparison.differences[0].sentence
    assert sentence in comparison.to_text()
    assert html_text(sentence) in comparison.to_html()
    assert html_text(sentence) in comparison._repr_html_()
    assert comparison.to_junit().count("<failure") == 2
    assert str(comparison) == comparison.to_text()


def test_reports_of_no_difference(tables):
    comparison = compared(tables, "keys")
    assert comparison.to_dict()["verdict"] == "equal"
    assert "<failure" not in comparison.to_junit()
    assert comparison.sentence == "no difference in 3 files"


def test_reports_of_a_plan_that_failed(tables):
    comparison = changed(tables, "keys", lambda document: document.update(status="cancelled"))
    assert comparison.to_dict()["left"]["error"]["class"] == "StorageError"
    assert "left failed: StorageError" in comparison.to_text()
    assert comparison.to_junit().count("<skipped") == 2
