"""Ends of Parquet files: expectations are from the Parquet specification, and from how the files were written."""

import pytest

from harness.metadata.files.parquet_footer import claims_too_much, parse_tail

_SCHEMA = bytes([0x15, 0x02, 0x19, 0x1C, 0x48, 0x01, 0x72, 0x00])  # version 1; one element, whose name (field 4) is "r"


def framed(footer: bytes, *, magic: bytes = b"PAR1") -> bytes:
    return footer + len(footer).to_bytes(4, "little") + magic


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(framed(_SCHEMA + b"\x16\x02\x00", magic=b"PARE"), id="encrypted"),
        pytest.param(framed(_SCHEMA + b"\x16\x02\x00")[5:], id="longer than what was read"),
        pytest.param(b"PAR1", id="no footer"),
        pytest.param(framed(b""), id="empty footer"),
        pytest.param(framed(_SCHEMA), id="ends behind the schema"),
        pytest.param(framed(_SCHEMA + b"\x16"), id="ends in the count"),
        pytest.param(framed(_SCHEMA + b"\x16\x01\x00"), id="negative count"),
        pytest.param(framed(_SCHEMA + b"\x19\x0c\x00"), id="no count"),
        pytest.param(framed(_SCHEMA[2:] + b"\x16\x02\x00"), id="no version"),
        pytest.param(framed(b"\x15\x02\x19\xfc" + b"\xff" * 12), id="more elements than bytes"),
        pytest.param(framed(b"\x15\x02\x19\x1c" + b"\x1c" * 40), id="structs without end"),
        pytest.param(framed(b"\x15\x02\x19" + b"\x19" * 40_000), id="lists without end"),
    ],
)
def test_what_is_not_as_usual_is_left_to_a_reader(data: bytes) -> None:
    assert parse_tail(data) is None


@pytest.mark.parametrize(
    ("number", "is_large"),
    [
        (b"\xff\xff\x3f", False),  # 2^20 - 1
        (b"\x80\x80\x40", True),  # 2^20
        (b"\x80\x80\x80\x01", True),
        (b"\xff\xff\xff\xff\x07", True),  # 2^31 - 1
        (b"\x80\x80\xc0\x00", True),  # 2^20, with a byte that it does not need
    ],
)
def test_lists_of_a_million_and_more_are_noticed(number: bytes, is_large: bool) -> None:
    row_groups = b"\xfc" + number  # a list of structs, whose size is not in its header
    assert claims_too_much(framed(_SCHEMA + b"\x16\x02\x19" + row_groups)) is is_large
    assert not claims_too_much(row_groups + framed(_SCHEMA))  # of a page
    assert not claims_too_much(framed(_SCHEMA + b"\x16\x02\x28\x80\x80\x40"))  # a text's length
