"""`--untrusted`: runs the command again in a worker process with few rights.

The worker gets the full command line. It returns the bytes of the result, its messages, and its exit code.
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
"""Engines that run in a worker, because they start no processes. For engines of other packages this is unknown."""

_PART = 1 << 20


def needs_worker(context: click.Context) -> bool:
    """Return whether the command must run in a worker and this process is not a worker."""
    return context.params["untrusted"] and not is_confined()


def run_in_worker_if_untrusted(
    locations: Iterable[str], opening: OpeningOptions, out: formats.OutputOptions, **instead: object
) -> None:
    """If the command must run in a worker, run it there and exit. For `instead` see `run`."""
    if needs_worker(opening.context):
        binary = getattr(out.form, "is_binary", bool)()
        instead = {"format_": out.form, "output": None, **instead}
        run(opening.context, locations, opening.roots(), output=out.output, binary=binary, instead=instead)
        raise click.exceptions.Exit(DONE)


def refuse_engines(names: Iterable[str], option: str, engines: Sequence[str] = ENGINES) -> None:
    """Raise RequestError for an engine that cannot be confined. `engines` are those that can."""
    for name in names:
        if name not in engines:
            reason = "starts its own processes" if name == "spark" else "may start its own processes"
            raise RequestError(
                f"Cannot run {name} with --untrusted: {name} {reason}, which no limit would confine; use "
                f"{' or '.join(engines)} with {option}"
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
    """Run the command in a worker.

    Args:
        context: The command's context.
        locations: Locations of tables.
        roots: Further locations that the tables may read.
        output: The file for the result, or None for standard output.
        binary: True if the result is not text.
        instead: Values of parameters for the worker, by name.
        calls: Names of system calls that the worker needs in addition to those for a read.
    """
    from harness.untrusted import launching

    if context.params.get("catalog"):
        raise RequestError("Cannot combine --catalog and --untrusted: the worker cannot contact a catalog; use paths")
    if context.params.get("storage_option"):
        raise RequestError(
            "Cannot combine --storage-option and --untrusted: the worker cannot contact a store, and gets no secrets"
        )
    settings = Settings.parse(context.params["set_"], untrusted=True)
    params = dict(context.params)
    if "location" in params:
        params["location"] = expanded(params["location"])  # the worker has another home directory
    with terminal.progress("reading in a separate process"):
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
                # The text is written in parts, because it takes up to 16 times the memory of its bytes.
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
    """Run a command in a worker. The worker returns the command's only report, which this process writes.

    Args:
        context: As for `run`.
        locations: As for `run`.
        roots: As for `run`.
        reports: Each format with its file, or None for standard output.
        instead: As for `run`.
        calls: As for `run`.

    Raises:
        RequestError: There is more than one report.
    """
    if len(reports) > 1:
        raise RequestError("Cannot write more than one report with --untrusted: give one --output")
    ((form, output),) = reports
    overrides = {**(instead or {}), "output": None, "format_": form}
    run(context, locations, roots, output=output, instead=overrides, calls=calls)


def serve(request: Any, output: BinaryIO) -> int:
    """Run the command in the worker. `output` is the worker's standard output."""
    return main([str(word) for word in request])


def words(context: click.Context, values: Mapping[str, object]) -> list[str]:
    """Return the words of a command line that sets these parameter values."""
    options_: list[str] = []
    arguments: list[str] = []
    for parameter in context.command.params:
        value = values.get(parameter.name or "")
        if value is None:
            continue
        if value is False:
            options_ += parameter.secondary_opts
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
