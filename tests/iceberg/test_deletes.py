"""Which deletes apply to which data file, by rule number. Each case states all sequence numbers and partitions."""

import struct

import numpy as np
import pytest

from harness.errors import CorruptDeleteError, CorruptFileError, InvalidTableError, UnsupportedError
from harness.metadata.iceberg.columns.entries import from_entries
from harness.metadata.iceberg.delete_scope import DeleteIndex, DeleteScope
from harness.metadata.iceberg.manifests import Content, DataFile, ManifestEntry, Status
from harness.metadata.iceberg.model import PartitionField, PartitionSpec
from harness.metadata.iceberg.planned_deletes import may_hit
from harness.metadata.iceberg.transforms import Identity, Void
from harness.metadata.iceberg.values import partition_key
from harness.metadata.model.schema import DateType, Field, FloatType, IntegerType, StringType, TimestampType, UuidType

LONG = IntegerType(64)
DATA = "s3://t/data/a.parquet"
OTHER = "s3://t/data/b.parquet"
PATH_ID = 2147483546


def spec(id_, *transforms):
    fields = tuple(
        PartitionField(field_id=1000 + i, source_id=i + 1, source_ids=(i + 1,), name=f"p{i}", transform=transform)
        for i, transform in enumerate(transforms)
    )
    return PartitionSpec(id_, fields)


# 0: unpartitioned, 1: by one column, 2: by the same column under another id, 3: all void.
SPECS = {0: spec(0), 1: spec(1, Identity()), 2: spec(2, Identity()), 3: spec(3, Void())}


def partition_of(file):
    return partition_key(file.spec_id, file.partition, {f.field_id: LONG for f in SPECS[file.spec_id].fields})


def entry(content, path, seq, spec_id=1, part=7, *, file_format="parquet", status=Status.ADDED, manifest="m", **more):
    partition = {f.field_id: part for f in SPECS[spec_id].fields} if spec_id in SPECS else {}
    facts = {"record_count": 1, "size": 1} | more
    file = DataFile(content=content, path=path, format=file_format, spec_id=spec_id, partition=partition, **facts)
    # The file sequence number is always later, because the rules use the data sequence number (2.10).
    return ManifestEntry(status, 1, seq, seq + 100, file, manifest)


def data(seq, *args, path=DATA, **more):
    return entry(Content.DATA, path, seq, *args, **more)


def position(seq, *args, path="d", bounds=None, **more):
    if bounds is not None:
        more["lower_bounds"] = {PATH_ID: bounds[0].encode()}
        more["upper_bounds"] = {PATH_ID: bounds[1].encode()}
    return entry(Content.POSITION_DELETES, path, seq, *args, **more)


def vector(seq, *args, path="v.puffin", target=DATA, **more):
    facts = {"referenced_data_file": target, "content_offset": 4, "content_size": 46} | more
    return entry(Content.POSITION_DELETES, path, seq, *args, file_format="puffin", **facts)


def equality(seq, *args, path="e", ids=(1,), **more):
    return entry(Content.EQUALITY_DELETES, path, seq, *args, equality_ids=ids, **more)


def index(*deletes, version=3, live=(DATA, OTHER), mismatched="refuse"):
    scope = DeleteScope(partition_of=partition_of, specs=SPECS, lenient=mismatched == "apply")
    return DeleteIndex.build(deletes, scope, format_version=version, live_paths=frozenset(live))


@pytest.mark.parametrize(
    ("deletes", "version", "error", "rule", "cause"),
    [
        ([vector(5, content_size=None)], 3, CorruptDeleteError, "4.17", "CorruptDeletionVector"),
        pytest.param([vector(5), vector(5)], 3, CorruptDeleteError, "4.21", "MultipleDVs", id="one vector twice"),
        pytest.param([equality(5, ids=None)], 2, CorruptDeleteError, "4.23", "CorruptManifest", id="no equality ids"),
        ([equality(5, file_format="puffin")], 3, UnsupportedError, "2.20", "UnsupportedFormat"),
        pytest.param([equality(5, 9)], 2, InvalidTableError, "2.22", "MissingSpec", id="unknown spec"),
        pytest.param([data(5)], 2, CorruptFileError, "2.20", "CorruptManifest", id="data file in a delete manifest"),
    ],
)
def test_build_refuses(deletes, version, error, rule, cause):
    with pytest.raises(error) as caught:
        index(*deletes, version=version)
    assert (caught.value.cause, caught.value.rule) == (cause, f"iceberg {rule}")


def test_many_overlapping_ranges_find_only_those_that_cover():
    # Ranges 00..00, 00..01, … nested and disjoint; the path is 04.
    ranges = [(f"{low:02}", f"{high:02}") for low in range(8) for high in range(low, 8)]
    deletes = [position(6, 0, path=f"{low}-{high}", bounds=(low, high)) for low, high in ranges]
    found = index(*deletes).for_data_file(data(5, path="04"))
    expected = {f"{low}-{high}" for low, high in ranges if low <= "04" <= high}
    assert {e.file.path for e in found.suspects} == expected
    assert len(found.suspects) == len(expected) == 20


def long(value):
    return struct.pack("<q", value)


def stats(low, high, *, nulls=0, values=10, nans=None):
    return {
        "lower_bounds": None if low is None else {1: low},
        "upper_bounds": None if high is None else {1: high},
        "null_value_counts": None if nulls is None else {1: nulls},
        "value_counts": {1: values},
        "nan_value_counts": None if nans is None else {1: nans},
    }


@pytest.mark.parametrize(
    ("type_", "delete", "file", "expected"),
    [
        pytest.param(LONG, stats(long(1), long(3)), stats(long(3), long(9)), True, id="touching"),
        pytest.param(LONG, stats(long(1), long(2)), stats(long(3), long(9)), False, id="delete below"),
        pytest.param(LONG, stats(long(10), long(12)), stats(long(3), long(9)), False, id="delete above"),
        pytest.param(LONG, stats(long(-5), long(-1)), stats(long(1), long(9)), False, id="signed"),
        (LONG, stats(long(1), long(2), nulls=1), stats(long(3), long(9), nulls=1), True),
        pytest.param(LONG, stats(long(1), long(2), nulls=1), stats(long(3), long(9)), False, id="nulls in the delete"),
        (LONG, stats(long(1), long(2), nulls=None), stats(long(3), long(9)), False),
        (LONG, stats(long(1), long(2), nulls=None), stats(long(3), long(9), nulls=None), True),
        (LONG, stats(None, None, nulls=10), stats(long(3), long(9)), False),
        (LONG, stats(long(3), long(9)), stats(None, None, nulls=10), False),
        pytest.param(LONG, stats(long(1), long(9), nulls=10), stats(long(3), long(9)), True, id="null, bounds"),
        pytest.param(LONG, stats(long(3), long(9)), stats(long(1), long(9), nulls=10), True, id="file: null, bounds"),
        pytest.param(LONG, stats(long(1), long(2), nulls=11), stats(long(3), long(9)), True, id="too many nulls"),
        pytest.param(LONG, stats(long(2), long(1), nulls=0), stats(None, None, nulls=10), True, id="inverted counts"),
        pytest.param(LONG, stats(None, long(2)), stats(long(3), long(9)), True, id="no lower bound"),
        pytest.param(LONG, stats(long(1), None), stats(long(3), long(9)), True, id="no upper bound"),
        pytest.param(LONG, stats(long(2), long(1)), stats(long(3), long(9)), True, id="inverted"),
        pytest.param(LONG, stats(b"\1\0\0", b"\1\0\0"), stats(long(3), long(9)), True, id="undecodable"),
        pytest.param(LONG, stats(b"\1\0\0\0", b"\2\0\0\0"), stats(long(3), long(9)), False, id="promoted from int"),
        (LONG, stats(b"\1\0\0\0", b"\3\0\0\0"), stats(long(3), long(9)), True),
        (TimestampType("us"), stats(b"\1\0\0\0", b"\1\0\0\0"), stats(long(86_400_000_000), long(86_400_000_000)), True),
        pytest.param(DateType(), stats(b"\1\0\0\0", b"\1\0\0\0"), stats(b"\2\0\0\0", b"\2\0\0\0"), False, id="date"),
        pytest.param(StringType(), stats(b"a", b"b"), stats(b"c", b"d"), False, id="text"),
        pytest.param(StringType(), stats(b"a", b"ab"), stats(b"abc", b"d"), True, id="text, upper bound maybe cut"),
        pytest.param(
            FloatType(64),
            stats(struct.pack("<d", 1), struct.pack("<d", 2)),
            stats(struct.pack("<d", 3), struct.pack("<d", 4)),
            True,
            id="nan counts unknown",
        ),
        pytest.param(
            FloatType(64),
            stats(struct.pack("<d", 1), struct.pack("<d", 2), nans=0),
            stats(struct.pack("<d", 3), struct.pack("<d", 4)),
            False,
            id="no nan in one",
        ),
        (UuidType(), stats(b"\0" * 16, b"\1" * 16), stats(b"\2" * 16, b"\3" * 16), True),
    ],
)
def test_may_hit(type_, delete, file, expected):
    key = Field(id=1, name="k", type=type_)
    files = (from_entries([entry], (1,), manifest=0) for entry in (equality(2, **delete), data(1, **file)))
    pair = (np.zeros(1, np.int64), np.zeros(1, np.int64))
    assert may_hit(*files, [[key]], pair).tolist() == [expected]
