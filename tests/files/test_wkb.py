"""The normal form of well-known binary (frontier F1.5 to F1.7) in harness, the oracle, and DuckDB."""

import duckdb
import pytest

from harness.engines.data_files import canonical_wkb
from harness.errors import CorruptFileError
from harness.suite.oracle.values import canonical_geometry

XY, XYZ = "000000000000f03f0000000000000040", "000000000000f03f00000000000000400000000000000840"
BIG_XY, BIG_XYZ = "3ff00000000000004000000000000000", "3ff000000000000040000000000000004008000000000000"


def in_duckdb(data):
    with duckdb.connect() as connection:
        return connection.execute("SELECT st_aswkb(st_geomfromwkb(?::BLOB))", [data]).fetchone()[0]


# DuckDB before 2.0 accepts some bytes that are not a geometry, so it reads none here.
FORMS = [canonical_wkb, canonical_geometry, *([] if duckdb.__version__.startswith("1.") else [in_duckdb])]

SAME = {
    "little-endian": (f"0101000000{XY}", f"0101000000{XY}"),
    "big-endian": (f"0000000001{BIG_XY}", f"0101000000{XY}"),
    "flag of Z": (f"0101000080{XYZ}", f"01e9030000{XYZ}"),
    "flag of Z, big-endian": (f"0080000001{BIG_XYZ}", f"01e9030000{XYZ}"),
    "flag of M": (f"0101000040{XYZ}", f"01d1070000{XYZ}"),
    "flags of Z and M": (f"01010000c0{XY}{XY}", f"01b90b0000{XY}{XY}"),
    "SRID": (f"0101000020e6100000{XY}", f"0101000000{XY}"),
    "SRID, big-endian": (f"0020000001000010e6{BIG_XY}", f"0101000000{XY}"),
    "ISO Z": (f"01e9030000{XYZ}", f"01e9030000{XYZ}"),
    "ISO ZM, big-endian": (f"0000000bb9{BIG_XY}{BIG_XY}", f"01b90b0000{XY}{XY}"),
    "empty point": ("0101000000" + "000000000000f87f" * 2, "0101000000" + "000000000000f87f" * 2),
    "line": (f"000000000200000002{BIG_XY}{BIG_XY}", f"010200000002000000{XY}{XY}"),
    "empty line": ("010200000000000000", "010200000000000000"),
    "polygon": (f"00000000030000000100000001{BIG_XY}", f"01030000000100000001000000{XY}"),
    "polygon of an empty ring": ("01030000000100000000000000", "01030000000100000000000000"),
    "parts in other orders": (
        f"0000000004000000020101000000{XY}0000000001{BIG_XY}",
        "010400000002000000" + f"0101000000{XY}" * 2,
    ),
    "collection in a collection": (
        f"01070000800100000000800000070000000101010000a0e6100000{XYZ}",
        f"01ef0300000100000001ef0300000100000001e9030000{XYZ}",
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("stored", "expected"), SAME.values(), ids=SAME)
def test_equal_geometries_have_equal_bytes(form, stored, expected):
    assert form(bytes.fromhex(stored)).hex() == expected


OTHERS = {
    "nothing": "",
    "byte order alone": "01",
    "cut in its code": "010100",
    "cut in a coordinate": f"0101000000{XY[:-2]}",
    "a byte more": f"0101000000{XY}00",
    "a count without points": "010200000001000000",
    "a count without parts": "010400000001000000",
    "type 8": "010800000000000000",
    "type 0": f"0100000000{XY}",
    "four thousand": f"01a10f0000{XY}",
    "a multi-point of a line": "010400000001000000" + "010200000000000000",
    "a multi-line of a point": f"0105000000010000000101000000{XY}",
    "a part in space of a whole in the plane": f"01070000000100000001e9030000{XYZ}",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stored", OTHERS.values(), ids=OTHERS)
def test_invalid_geometries(form, stored):
    with pytest.raises((ValueError, CorruptFileError, duckdb.Error)):
        form(bytes.fromhex(stored))


def test_no_byte_order():
    for form in (canonical_wkb, canonical_geometry):
        with pytest.raises((ValueError, CorruptFileError), match="byte order"):
            form(bytes.fromhex(f"0201000000{XY}"))
