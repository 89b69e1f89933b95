"""Lines put together to what can be run: a command is one line, and a statement ends with a semicolon."""

from __future__ import annotations

from harness.connections.splitting import finished


class Inputs:
    """Takes lines and gives inputs. unfinished: the lines of one that is not whole."""

    def __init__(self) -> None:
        self.unfinished = ""

    def add(self, line: str) -> str | None:
        """The command, or the statements, that the line ends; None: there is more to come."""
        if not self.unfinished.strip() and line.lstrip().startswith("."):
            self.unfinished = ""
            return line.strip()
        self.unfinished += line.rstrip("\n") + "\n"
        return self.give_up() if finished(self.unfinished) else None

    def give_up(self) -> str:
        """What is there, and nothing afterwards."""
        text, self.unfinished = self.unfinished, ""
        return text
