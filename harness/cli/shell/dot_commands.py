"""The commands of the shell that are no SQL: they begin with a dot, and end with the line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from harness.cli import results
from harness.cli.plan import explained
from harness.cli.writers import RowFormat, number_of_rows
from harness.errors import RequestError, visible
from harness.metadata.catalogs.catalog import nearest
from harness.tools.connections.texts import in_sql

if TYPE_CHECKING:
    from harness.cli.shell.session import Session


class Settings(Protocol):
    """What commands set: how rows are shown, and whether the person wants to end."""

    row_format: RowFormat
    max_rows: int | None
    is_over: bool


def run(session: Session, line: str) -> None:
    """Run a command.

    Raises:
        RequestError: there is no such command, or it cannot take the argument.
        HarnessError: as for what it does.
    """
    name, argument = _parts(line)
    COMMANDS[name][0](session, argument)


def set_only(settings: Settings, line: str) -> bool:
    """Run a command that reads no table; whether it is one. Raises as `run`."""
    name, argument = _parts(line)
    if name not in _SETTING:
        return False
    _SETTING[name][0](settings, argument)
    return True


def _parts(line: str) -> tuple[str, str]:
    """The command's name and its argument."""
    name, _, argument = line.strip().rstrip(";").partition(" ")
    if name not in COMMANDS:
        near = nearest((name[1:],), [(each[1:],) for each in COMMANDS]) or ((".help"[1:],),)
        raise RequestError(f"There is no command {name}; the nearest is .{near[0][0]}")
    return name, argument.strip()


def _help(settings: Settings, argument: str) -> None:
    lines = [f"{name + ' ' + takes:<18} {what}\n" for name, (_, takes, what) in COMMANDS.items() if what]
    results.print_result("Statements end with a semicolon; Ctrl-C ends the one that runs, or gives up what is typed.\n")
    results.print_result(*lines)


def _tables(session: Session, argument: str) -> None:
    names = (in_sql(name) for name in session.connection.names(everywhere=False))
    results.print_result(*(f"{visible(name)}\n" for name in names if argument.casefold() in name.casefold()))


def _schema(session: Session, argument: str) -> None:
    if not argument:
        raise RequestError("Cannot show a schema: say whose, .schema sales.orders")
    fields = session.connection.table(argument).schema.fields
    width = max((len(field.name) for field in fields), default=0)
    results.print_result(*(f"{visible(f'{field.name:<{width}}  {field.type}')}\n" for field in fields))


def _plan(session: Session, argument: str) -> None:
    query = argument or session.last_statement
    if query is None:
        raise RequestError("Cannot show a plan: there was no query yet; say one, .plan SELECT …")
    parts = [f"{visible(name)}:\n{explained(plan.explain())}" for name, plan in session.connection.plans(query)]
    results.print_result("\n".join(parts) or "The query reads no table of the catalog.\n")


def _format(settings: Settings, argument: str) -> None:
    known = [each.value for each in RowFormat if not each.is_binary()]
    if argument not in known:
        raise RequestError(f"Cannot write rows as {argument or 'nothing'}: say one of {', '.join(known)}")
    settings.row_format = RowFormat(argument)


def _max_rows(settings: Settings, argument: str) -> None:
    settings.max_rows = number_of_rows(argument)


def _quit(settings: Settings, argument: str) -> None:
    settings.is_over = True


_SETTING: dict[str, tuple[Callable[[Settings, str], None], str, str]] = {
    ".format": (_format, "NAME", "how rows are written: text, csv, json or jsonl"),
    ".max-rows": (_max_rows, "N", "how many rows are shown as text, or all"),
    ".help": (_help, "", "what there is"),
    ".quit": (_quit, "", "end; Ctrl-D does too"),
    ".exit": (_quit, "", ""),
}
COMMANDS: dict[str, tuple[Callable[[Session, str], None], str, str]] = {
    ".tables": (_tables, "[TEXT]", "the tables whose names hold the text; after USE, those in what it chose"),
    ".schema": (_schema, "TABLE", "the columns of a table, and their types"),
    ".plan": (_plan, "[QUERY]", "which files a query reads and skips, and why; of the last one, if none is said"),
    **_SETTING,
}
"""By name: what runs it, what it takes, and what it does; the last empty for another name of the same."""
