from __future__ import annotations

import duckdb
import pytest

from harness.tools.connections.tables import in_sql


@pytest.mark.parametrize(
    ("name", "written"),
    [
        (("sales", "orders"), "sales.orders"),
        (("sales", "Orders_2"), "sales.Orders_2"),
        (("sales", "a-b"), 'sales."a-b"'),
        (("select", "day"), '"select".day'),
        (("LEFT",), '"LEFT"'),
        (("x.y", 'a"b', "1st", ""), '"x.y"."a""b"."1st".""'),
        (("ünï",), "ünï"),
    ],
)
def test_a_part_stands_in_quotes_where_sql_wants_them(name, written):
    assert in_sql(name) == written


def test_what_is_typed_so_is_a_name_to_duckdb():
    names = ["orders", "a-b", "select", "left", "values", "ünï", "day", "1st"]
    columns = ", ".join(f"{number} AS {in_sql((name,))}" for number, name in enumerate(names))
    assert duckdb.sql(f"SELECT {columns}").columns == names
