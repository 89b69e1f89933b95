"""The `harness` command. Read `app` first, which lists the subcommands, then `parameters`, `options`, and `results`.

Only results go to stdout. Messages, progress, and errors go to stderr. Exit codes:

    0    done
    1    differences (`diff`), findings (`check`), a failed scenario (`scenarios run`), or wrong rows (`demo`)
    2    could not run: wrong usage, or a `HarnessError`, printed as one line without a traceback
    130  interrupted

If the reader of stdout goes away (`harness sql … | head`), the command ends quietly with 0.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Sequence

import harness

if "open_table" not in getattr(harness, "__all__", ()):
    # Another distribution's package has overwritten this one, or removed its `__init__.py` when it was uninstalled.
    from harness.owners import overwritten_error

    _problem = f"{harness.__file__ or 'harness/__init__.py'} does not belong to lakeharness"
    raise overwritten_error(_problem) or ImportError(
        f"Cannot import harness: {_problem}. pip install --force-reinstall --no-deps lakeharness"
    )

DONE, DIFFERENT, FAILED, INTERRUPTED = 0, 1, 2, 130

_LEAST_BYTES, _SPARED_BYTES = 512 << 20, 8 << 30
"""Bytes of address space: the minimum, and the amount below which libraries are configured to save it.

The libraries take 460 MiB when they save address space, and 2.2 GiB otherwise.
"""
_SPARING = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "OMP_NUM_THREADS": "2",
    "OPENBLAS_NUM_THREADS": "1",
}
_ARENA_MAX = -8
"""A parameter of the C library's `mallopt`."""


def main(argv: Sequence[str] | None = None, *, replaced: object = signal.default_int_handler) -> int:
    """Run the command and return the exit code.

    Args:
        argv: The arguments. None means the process's own, and that the process ends after the command.
        replaced: The SIGINT handler that the command may replace.
    """
    if (lacking := _lacking_memory()) is not None:
        print(f"error: {lacking}", file=sys.stderr)
        return FAILED
    from harness.cli import terminal
    from harness.cli.interruption import listening

    terminal.fill_closed_streams()
    if argv is None:  # registered first, so it runs last: Python removes its signal handlers at exit
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    try:
        with listening(replaced):
            return _run(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        if argv is None:  # the process is ending, so another Ctrl-C ends it at once without a traceback
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            # Python remembers a Ctrl-C that passed through executed text, as used for dataclasses, and would end by the
            # signal instead of with the exit code. Executing another text clears this.
            exec("")
        terminal.write_lines("interrupted\n")
        return INTERRUPTED
    except Exception as error:
        terminal.failure(error)
        return FAILED


def _lacking_memory() -> str | None:
    """Return a message if there is too little address space, else None.

    Libraries would end the process without an error, during import or later. If little is available, for example under
    `ulimit -v`, they are configured to reserve none in advance.
    """
    try:
        import resource
    except ImportError:  # Windows
        return None
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    available = min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=_SPARED_BYTES)
    if available < _LEAST_BYTES:
        return (
            f"Cannot run in {available:,} bytes of address space: harness needs at least {_LEAST_BYTES:,}; raise the "
            "limit of the shell, `ulimit -v`, or of the service"
        )
    if available < _SPARED_BYTES and sys.platform == "linux":
        import ctypes

        for name, value in _SPARING.items():
            os.environ.setdefault(name, value)
        getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)(_ARENA_MAX, 2)  # musl has no mallopt and no arenas
    return None


def _run(words: Sequence[str]) -> int:
    """Run the command and return the exit code."""
    from harness.cli import results, terminal

    terminal.begin()
    with terminal.warnings_as_lines(), terminal.logs_as_lines():
        try:
            if words == ["--version"]:  # this path does not need click
                results.print_version()
                return DONE
            from harness.cli.app import run

            return run(words)
        except results.ReaderGoneError:
            return DONE
