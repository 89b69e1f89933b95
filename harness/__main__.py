"""Entry point of the `harness` command, as a script and as `python -m harness`.

Ctrl-C must end the process without a traceback, also while modules are imported. Therefore the handler is set before
any other import, with `_signal`: importing `signal`, which is built on it, takes 4 ms.
"""

import _signal  # type: ignore[import-not-found]  # typeshed has no stub of this C module
import os
import sys


def _end(_number: object, _frame: object) -> None:
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(130)


if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _end)


def main() -> int:
    """Run the command with the arguments of the process and return the exit code."""
    from harness.cli import main as run

    return run(replaced=_end)


if __name__ == "__main__":
    sys.exit(main())
