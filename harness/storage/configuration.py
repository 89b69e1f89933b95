"""The files in which a user configures harness: a project's `pyproject.toml`, and `~/.config/harness/config.toml`.

A project may be a stranger's, so what it says is trusted less than what is in the user's own file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import RequestError


@dataclass(frozen=True, slots=True)
class ConfigurationFile:
    """One of the files. is_own: whether it is the user's own, and no project's."""

    path: Path
    is_own: bool

    def section(self, name: str, *, cause: str) -> Mapping[str, Any]:
        """The table `[tool.harness.NAME]`; empty if there is none.

        cause: of errors.

        Raises:
            RequestError: the file cannot be read, or there is something else under that name.
        """
        try:
            document: Any = tomllib.loads(self.path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            said = " ".join(str(error).split())[:200]
            raise RequestError(f"Cannot read the configuration: {said}", cause=cause, file=str(self.path)) from error
        for key in ("tool", "harness", name):
            document = document.get(key, {}) if isinstance(document, dict) else {}
        if not isinstance(document, dict):
            raise RequestError(
                f"Invalid configuration: expected a table for each {name.removesuffix('s')}",
                cause=cause,
                file=str(self.path),
                field=f"tool.harness.{name}",
            )
        return document


def files() -> list[ConfigurationFile]:
    """Those that are there: the user's own first, then that of the project around the working directory."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    found = [ConfigurationFile(Path(home) / "harness" / "config.toml", is_own=True)]
    directory = Path.cwd()
    projects = (place / "pyproject.toml" for place in (directory, *directory.parents))
    found += [ConfigurationFile(path, is_own=False) for path in projects if path.is_file()][:1]
    return [file for file in found if file.path.is_file()]
