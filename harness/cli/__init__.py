"""The `harness` command. `app` names the subcommands; read it first, then `parameters`, `options` and `results`.

Results go to stdout and nothing else does; messages, progress and errors go to stderr. Exit codes:

    0    done
    1    differences found (`diff`), findings (`check`), a scenario that failed (`scenarios run`), wrong rows (`demo`)
    2    could not run: wrong usage, or a `HarnessError`, printed as one line without a traceback
    130  interrupted

A reader that goes away (`harness sql … | head`) ends the command quietly, with 0.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Sequence

import harness

if "open_table" not in getattr(harness, "__all__", ()):
    # The package of another distribution: it has overwritten ours, or taken `__init__.py` away when it was removed.
    from harness.owners import overwritten_error

    _problem = f"{harness.__file__ or 'harness/__init__.py'} is not the one of lakeharness"
    raise overwritten_error(_problem) or ImportError(
        f"Cannot import harness: {_problem}. pip install --force-reinstall --no-deps lakeharness"
    )

DONE, DIFFERENT, FAILED, INTERRUPTED = 0, 1, 2, 130

_LEAST_BYTES, _SPARED_BYTES = 512 << 20, 8 << 30
"""Bytes of address space. The libraries take 460 MiB if they spare it, else 2.2 GiB."""
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
        argv: the arguments; None: the process's own, and the process ends after the command.
        replaced: the handler of SIGINT that this command may replace.
    """
    if (lacking := _lacking_memory()) is not None:
        print(f"error: {lacking}", file=sys.stderr)
        return FAILED
    from harness.cli import terminal
    from harness.cli.interruption import listening

    terminal.fill_closed_streams()
    if argv is None:  # before all others, so that it is called after them: Python takes its handlers away then
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    try:
        with listening(replaced):
            return _run(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        if argv is None:  # the process ends: another Ctrl-C ends it at once, instead of a traceback
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            # Python notes what went through a text that it ran, as for each dataclass, and would then end itself by the
            # signal instead of with the code. The next text takes the note away.
            exec("")
        terminal.write_lines("interrupted\n")
        return INTERRUPTED
    except Exception as error:
        terminal.failure(error)
        return FAILED


def _lacking_memory() -> str | None:
    """The lack of address space as a message; None: there is enough.

    Libraries end a process that lacks it, while they are loaded and later, and no error comes of it. Where there is
    little, as under `ulimit -v`, they are told to take none in advance.
    """
    try:
        import resource
    except ImportError:  # Windows
        return None
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    found = min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=_SPARED_BYTES)
    if found < _LEAST_BYTES:
        return (
            f"Cannot run in {found:,} bytes of address space: harness takes {_LEAST_BYTES:,} at least; raise the "
            "limit of the shell, `ulimit -v`, or of the service"
        )
    if found < _SPARED_BYTES and sys.platform == "linux":
        import ctypes

        for name, value in _SPARING.items():
            os.environ.setdefault(name, value)
        getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)(_ARENA_MAX, 2)  # musl has none, and no arenas
    return None


def _run(words: Sequence[str]) -> int:
    """Run the command and return the exit code."""
    from harness.cli import results, terminal

    terminal.begin()
    with terminal.warnings_as_lines(), terminal.logs_as_lines():
        try:
            if words == ["--version"]:  # needs no click
                results.print_version()
                return DONE
            from harness.cli.app import run

            return run(words)
        except results.ReaderGoneError:
            return DONE
