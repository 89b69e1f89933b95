"""How a line of the shell may go on: commands, names of tables, columns of those that are named; else SQL's words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from harness.catalogs.names import Name
from harness.cli.shell.dot_commands import COMMANDS
from harness.cli.writers import RowFormat
from harness.connections.spelling import in_sql

_SQL = """
all and as asc between by case cast copy count create cross delete desc describe distinct else end except exists explain
false from full group having in inner insert intersect into is join left like limit not null offset on or order outer
over partition pivot qualify right select semi summarize table temp then to true union unnest using values view when
where window with
"""
WORDS = tuple(_SQL.split())
"""Of SQL, that people type."""
_NAMED = re.compile(r'(?:"(?:[^"]|"")*"|[\w$]+)(?:\.(?:"(?:[^"]|"")*"|[\w$]+))*')


def completions(
    word: str, text: str, names: Callable[[], Iterable[Name]], columns: Callable[[str], Sequence[str]]
) -> list[str]:
    """What the word may become, in order, without those that it is already.

    Args:
        word: that is being typed, up to the cursor; a qualified name is one.
        text: the input up to the word.
        names: the names of tables.
        columns: the columns of a table by its name; none, if it cannot be opened.
    """
    if not text.strip() and word.startswith("."):
        return _starting(word, COMMANDS)
    command = text.split(maxsplit=1)[0] if text.lstrip().startswith(".") else ""
    if command == ".format":
        return _starting(word, [each.value for each in RowFormat if not each.is_binary()])
    tables = [in_sql(name) for name in names()]
    if command in (".schema", ".tables"):
        return _starting(word, tables)
    mentioned = [table for table in tables if table.casefold() in {found.casefold() for found in _NAMED.findall(text)}]
    own = [in_sql((column,)) for table in mentioned for column in columns(table)]
    front, dot, _ = word.rpartition(".")
    qualified = [
        f"{front}.{in_sql((column,))}"
        for table in tables
        if dot and front.casefold() in (table.casefold(), table.rpartition(".")[2].casefold())
        for column in columns(table)
    ]
    as_typed = str.upper if word.isupper() else str.lower
    return _starting(word, [*own, *tables, *qualified]) or _starting(word, map(as_typed, WORDS if word else ()))


def _starting(word: str, choices: Iterable[str]) -> list[str]:
    found = (each for each in choices if each.casefold().startswith(word.casefold()))
    return list(dict.fromkeys(found))
