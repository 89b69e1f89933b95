"""The tables of the documentation can be written into their pages."""

import pytest
import tables


@pytest.mark.parametrize("name", tables.WRITTEN)
def test_a_page_has_a_place_for_its_tables(name):
    page = (tables.ROOT / name).read_text("utf-8")
    written = tables.WRITTEN[name](page)
    assert written != page


@pytest.mark.parametrize("name", tables.COMMITTED)
def test_the_tables_in_the_repository_are_current(name):
    page = (tables.ROOT / name).read_text("utf-8")
    assert tables.COMMITTED[name](page) == page


def test_a_page_without_a_place_is_an_error():
    with pytest.raises(ValueError, match="<!-- shapes -->"):
        tables.with_shapes("# A page")


def test_a_function_without_a_row_is_an_error():
    page = (tables.ROOT / "docs/reference/functions.md").read_text("utf-8")
    rows = [line for line in page.splitlines(keepends=True) if not line.startswith("| `lower`, ")]
    with pytest.raises(ValueError, match="no row for `lower`, `lcase`"):
        tables.with_functions("".join(rows))


def test_a_row_of_options_has_the_short_and_the_long_name():
    assert "| `-o, --output FILE` |" in tables.options_table(tables.commands()["head"])
