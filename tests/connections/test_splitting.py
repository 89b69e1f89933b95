from __future__ import annotations

import pytest

from harness.tools.connections.statements import finished, statements


@pytest.mark.parametrize(
    ("text", "expected", "is_finished"),
    [
        ("", [], True),
        (" ;; -- a ; b\n ;", [], True),
        ("SELECT 1", ["SELECT 1"], False),
        ("SELECT 1; ", ["SELECT 1"], True),
        ("SELECT 1; SELECT\n2", ["SELECT 1", "SELECT\n2"], False),
        ("SELECT ';''' ; SELECT 2;", ["SELECT ';'''", "SELECT 2"], True),
        ("SELECT 'a;", ["SELECT 'a;"], False),
        ("SELECT E'\\';' ;", ["SELECT E'\\';'"], True),
        ("SELECT name'\\';", ["SELECT name'\\'"], True),
        ('FROM "a;""b";', ['FROM "a;""b"'], True),
        ("SELECT 1 /* ; */;", ["SELECT 1 /* ; */"], True),
        ("/* ; SELECT 1;", ["/* ; SELECT 1;"], False),
        ("SELECT 1 -- ;\n;", ["SELECT 1 -- ;"], True),
        ("SELECT $$;$$; SELECT $a$;$$;$a$;", ["SELECT $$;$$", "SELECT $a$;$$;$a$"], True),
        ("SELECT $1; SELECT $2;", ["SELECT $1", "SELECT $2"], True),
        ("SELECT $$;", ["SELECT $$;"], False),
        ("SELECT 1; -- done", ["SELECT 1"], True),
    ],
)
def test_statements_end_with_semicolons(text, expected, is_finished):
    assert statements(text) == expected
    assert finished(text) is is_finished
