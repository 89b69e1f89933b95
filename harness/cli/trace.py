"""`harness trace`: the life of each row that matches a condition, and why no live row matches."""

from __future__ import annotations

from typing import Annotated

import click

from harness.cli import DIFFERENT, results, terminal, untrusted
from harness.cli.document import PictureFormat, PictureOutput, plain
from harness.cli.options import ColumnsOption, EndOption, Location, OpeningOptions, names
from harness.cli.parameters import Option
from harness.errors import json_text
from harness.metadata.model.times import parse_moment


def trace(
    location: Location,
    where: Annotated[str, Option(metavar="SQL", help="Read only rows that match this condition.")],
    from_: Annotated[
        str | None,
        Option(
            "--from",
            metavar="WHEN",
            help="The first commit to look at: an id or version, a time, a branch, or a tag. By default the oldest one "
            "in the metadata.",
        ),
    ] = None,
    to: EndOption = None,
    columns: ColumnsOption = None,
    keys: Annotated[
        str | None,
        Option(
            "--keys",
            metavar="A,B",
            help="The columns that identify a row without a row id. By default the identifier fields.",
        ),
    ] = None,
    missing: Annotated[
        bool, Option("--missing", help="Explain for each live file why a read finds no matching row in it.")
    ] = False,
    *,
    out: PictureOutput,
    opening: OpeningOptions,
) -> None:
    """Show where rows came from, and why they are gone.

    Examples:
        harness trace warehouse/orders --where "id = 42"
        harness trace warehouse/orders --where "id = 42" --missing
        harness trace warehouse/orders --where "customer = 7" --from 2024-06-01 --keys id -o lives.html

    Rows are followed from file to file by their row ids, else by --keys (by default the table's identifier fields),
    else by equal values.

    Exit code: 0 traced; 1 with --missing, wrong metadata hides live rows from reads; 2 not traced.
    """
    for moment, name in ((from_, "from_"), (to, "to")):
        parse_moment(moment, name)  # report a malformed time before the table is opened
    untrusted.run_in_worker_if_untrusted([location], opening, out)
    with terminal.progress("tracing"):
        result = opening.open(location).trace(
            where,
            from_=from_,
            to=to,
            columns=names(columns, "--columns"),
            keys=names(keys, "--keys"),
            missing=missing,
        )
    with results.destination(out.output) as stream:
        match out.form:
            case PictureFormat.JSON:
                results.write_texts([json_text(plain(result.to_dict()), indent=2) + "\n"], stream)
            case PictureFormat.HTML:
                results.write_texts([result.to_html()], stream)
            case _:
                results.write_lines([result.to_text(width=results.width_for(out.output)) + "\n"], stream)
    terminal.finished("traced the rows")
    if result.missing is not None and result.missing.hides_rows:
        raise click.exceptions.Exit(DIFFERENT)
