"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

import harness
from harness.cli import build, demo, diff, doctor, info, plan, query, results, rule, run

app = typer.Typer(
    name="harness",
    help="Read Iceberg and Delta tables exactly: plan, query, compare and inspect them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # help and usage errors as plain text, the same in a log as on a terminal
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:  # a typer callback gets the option's value, nothing else
    if wanted:
        results.print_result(f"harness {harness.__version__}\n")
        raise typer.Exit


@app.callback()
def _global_options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Read Iceberg and Delta tables exactly: plan, query, compare and inspect them."""


app.command("info")(info.info)
app.command("plan")(plan.plan)
app.command("sql")(query.sql)
app.command("diff")(diff.diff)
app.command("run")(run.run)
app.command("build")(build.build)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
app.command("rule")(rule.rule)
