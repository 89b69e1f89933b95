"""`--untrusted`: runs the command anew in a process that can do little besides.

That process gets the command spelled out, and gives back the bytes of its result, what it said, and its exit code.
"""

from __future__ import annotations

import enum
import io
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import click

from harness.cli import DONE, FAILED, formats, main, results, terminal
from harness.cli.options import OpeningOptions, Settings
from harness.errors import RequestError
from harness.storage.paths import expanded
from harness.untrusted.bounds import Bounds, readable_directories
from harness.untrusted.worker import is_confined

ENGINES = ("duckdb", "oracle")
"""Engines that run in a worker: neither starts a process of its own. Of engines of other packages nobody knows it."""

_PART = 1 << 20


def needs_worker(context: click.Context) -> bool:
    """Tells whether the command must run in a worker, and this process is none."""
    return context.params["untrusted"] and not is_confined()


def run_in_worker_if_untrusted(
    locations: Iterable[str], opening: OpeningOptions, out: formats.OutputOptions, **instead: object
) -> None:
    """Runs the command in a worker, as `run`, and ends it, if it must run there."""
    if needs_worker(opening.context):
        binary = getattr(out.form, "is_binary", bool)()
        instead = {"format_": out.form, "output": None, **instead}
        run(opening.context, locations, opening.roots(), output=out.output, binary=binary, instead=instead)
        raise click.exceptions.Exit(DONE)


def refuse_engines(names: Iterable[str], option: str, engines: Sequence[str] = ENGINES) -> None:
    """Raises RequestError for an engine that cannot be held to limits. engines: those that can."""
    for name in names:
        if name not in engines:
            reason = "has processes of its own" if name == "spark" else "is not known to keep to one process"
            raise RequestError(
                f"Cannot run {name} with --untrusted: {name} {reason}, and no limit would hold others; take "
                f"{' or '.join(engines)} by {option}"
            )


def run(
    context: click.Context,
    locations: Iterable[str],
    roots: Iterable[str],
    *,
    output: Path | None = None,
    binary: bool = False,
    instead: Mapping[str, object] | None = None,
    calls: Sequence[str] = (),
) -> None:
    """Runs the command in a worker.

    Args:
        locations, roots: of tables, and of other places that they may be read from.
        instead: the worker's own values of parameters, by name.
        calls: names of system calls that the worker may make besides those of a read.
    """
    from harness.untrusted import launching

    if context.params.get("catalog"):
        raise RequestError("Cannot take --catalog with --untrusted: no catalog is asked where it reads; give paths")
    if context.params.get("storage_option"):
        raise RequestError(
            "Cannot take --storage-option with --untrusted: no store is asked, and what may be a secret stays here"
        )
    settings = Settings.parse(context.params["set_"], untrusted=True)
    params = dict(context.params)
    if "location" in params:
        params["location"] = expanded(params["location"])  # the worker has another home directory
    with terminal.progress("reading in a process apart"):
        finished = launching.run(
            f"{__name__}:serve",
            words(context, {**params, **(instead or {})}),
            bounds=settings.bounds or Bounds(),
            waived=settings.waived,
            directories=readable_directories(map(expanded, locations), roots),
            libraries=("harness.cli.app", *launching.LIBRARIES),
            calls=calls,
        )
    for line in finished.stderr.splitlines():
        terminal.message(line)
    if finished.code == FAILED and finished.refused_calls:
        terminal.message(f"The read failed{launching.refused_calls_text(finished.refused_calls)}")
    if finished.output or finished.code != FAILED:
        with results.destination(output) as stream:
            if binary:
                stream.write(finished.output)
            else:
                # In parts: text takes up to sixteen times the memory of its bytes.
                text = io.TextIOWrapper(io.BytesIO(finished.output), "utf-8", "backslashreplace", newline="")
                results.write_texts(iter(partial(text.read, _PART), ""), stream)
    if finished.code != DONE:
        raise click.exceptions.Exit(finished.code)


def run_with_report(
    context: click.Context,
    locations: Iterable[str],
    roots: Iterable[str],
    reports: Sequence[tuple[enum.Enum, Path | None]],
    *,
    instead: Mapping[str, object] | None = None,
    calls: Sequence[str] = (),
) -> None:
    """Run a command that writes one report in a worker, which gives the report back.

    Args:
        context, locations, roots, instead, calls: As for `run`.
        reports: Each format and its file, or None for standard output.

    Raises:
        RequestError: There are more reports than one.
    """
    if len(reports) > 1:
        raise RequestError("Cannot write more than one report: --untrusted takes one report; give one --output")
    ((form, output),) = reports
    overrides = {**(instead or {}), "output": None, "format_": form}
    run(context, locations, roots, output=output, instead=overrides, calls=calls)


def serve(request: Any, output: BinaryIO) -> int:
    """Runs the command in the worker; `output` is the process's standard output."""
    return main([str(word) for word in request])


def words(context: click.Context, values: Mapping[str, object]) -> list[str]:
    """The words of the command line for these values of the parameters."""
    options_: list[str] = []
    arguments: list[str] = []
    for parameter in context.command.params:
        value = values.get(parameter.name or "")
        if value is None or value is False:
            continue
        texts = [_text(each) for each in value] if isinstance(value, list | tuple) else [_text(value)]
        if parameter.param_type_name == "argument":
            arguments += texts
            continue
        name = max(parameter.opts, key=len)
        if value is True:
            options_.append(name)
        elif name.startswith("--"):
            options_ += [f"{name}={text}" for text in texts]
        else:
            options_ += [word for text in texts for word in (name, text)]
    return [*context.command_path.split()[1:], *options_, "--", *arguments]


def _text(value: object) -> str:
    return str(value.value if isinstance(value, enum.Enum) else value)
