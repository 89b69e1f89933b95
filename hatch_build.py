"""The project's links and its README, if the workflow that builds a release gives the address of the repository."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"\]\((?![a-z]+:|#)([^)\s]+)\)")
"""The target of a Markdown link to a file of the repository."""


class ProjectLinks(MetadataHookInterface):
    """Sets `urls` and `readme` from the variables of GitHub's workflows; no file of the project holds the address."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the links, and make the README's links absolute. Without an address, links stay as they are written."""
        readme = Path(self.root, "README.md").read_text("utf-8")
        repository = os.environ.get("GITHUB_REPOSITORY")
        if repository:
            base = f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{repository}"
            pages = f"{base}/blob/main"
            metadata["urls"] = {
                "Source": base,
                "Documentation": f"{pages}/docs/index.md",
                "Changelog": f"{pages}/CHANGELOG.md",
            }
            readme = _RELATIVE.sub(rf"]({pages}/\1)", readme)
        else:
            metadata["urls"] = {}
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
