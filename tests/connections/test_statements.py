"""Texts of statements apart, and names as SQL wants them written."""

import duckdb
import pytest

from harness.tools.connections.statements import finished, statements
from harness.tools.connections.tables import in_sql


@pytest.mark.parametrize(
    ("text", "expected", "is_finished"),
    [
        ("", [], True),
        (" ;; -- a ; b\n ;", [], True),
        ("SELECT 1; SELECT\n2", ["SELECT 1", "SELECT\n2"], False),
        ("SELECT ';''' ; SELECT 2;", ["SELECT ';'''", "SELECT 2"], True),
        ("SELECT E'\\';' ;", ["SELECT E'\\';'"], True),
        ("SELECT name'\\';", ["SELECT name'\\'"], True),
        ('FROM "a;""b";', ['FROM "a;""b"'], True),
        ("/* ; SELECT 1;", ["/* ; SELECT 1;"], False),
        ("SELECT 1 -- ;\n;", ["SELECT 1 -- ;"], True),
        ("SELECT $$;$$; SELECT $a$;$$;$a$;", ["SELECT $$;$$", "SELECT $a$;$$;$a$"], True),
        ("SELECT 1; -- done", ["SELECT 1"], True),
    ],
)
def test_statements_end_with_semicolons(text, expected, is_finished):
    assert statements(text) == expected
    assert finished(text) is is_finished


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
