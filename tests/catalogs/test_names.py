import pytest

from harness import RequestError
from harness.metadata.catalogs.catalog import name_text, parse_name


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("orders", ("orders",)),
        ("sales.orders", ("sales", "orders")),
        ('sales."a.b"', ("sales", "a.b")),
        ('"say ""hi""".t', ('say "hi"', "t")),
        ("größe.2024 x", ("größe", "2024 x")),
        (("a.b", "c"), ("a.b", "c")),
    ],
)
def test_a_name_is_parsed_and_written_back(text, parts):
    assert parse_name(text) == parts
    assert parse_name(name_text(parts)) == parts


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", '"a', '"a"b', 'a"b"', '""'])
def test_a_name_with_an_empty_part_or_an_open_quote_is_invalid(text):
    with pytest.raises(RequestError, match=r"^Invalid name"):
        parse_name(text)
