"""The `harness` command: `info`, `plan`, `sql`, `diff`, `run`, `build`, `demo`, `doctor` and `rule`.

Results go to stdout and nothing else does; messages, progress and errors go to stderr. Exit codes:

    0    done
    1    differences found (`diff`; `run`, if a scenario is FAIL; `demo`, if the rows are not what they must be)
    2    could not run: wrong usage, or a `HarnessError`, printed as one line without a traceback
    130  interrupted

A reader that goes away (`harness sql … | head`) ends the command quietly, with 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import HarnessError

DONE, DIFFERENT, FAILED, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (default: the process's own) and return the exit code."""
    import typer

    from harness.cli import options, terminal
    from harness.cli.app import app

    terminal.fill_closed_streams()
    arguments = None if argv is None else list(argv)
    try:
        # Not app(): that would install an excepthook for the whole process. And not in Typer's standalone mode, which
        # prints what is wrong with arguments as it is.
        with terminal.warnings_as_lines():
            code = typer.main.get_command(app).main(args=arguments, prog_name="harness", standalone_mode=False)
        return code if isinstance(code, int) else DONE
    except HarnessError as error:
        terminal.error(str(error.respelled(options.spelled)))
    except KeyboardInterrupt:
        terminal.message("interrupted")
        return INTERRUPTED
    except Exception as error:
        # 1 would mean "differences found", which is what Python's own handler would exit with.
        terminal.failure(error)
    return FAILED
