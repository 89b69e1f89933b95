"""Links of the project in the package's metadata, where the workflow that builds a release knows its repository."""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ProjectLinks(MetadataHookInterface):
    """Sets `urls` from the variables of GitHub's workflows: the repository's address is written down nowhere else."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Adds source, documentation and changelog; a build elsewhere has no links."""
        repository = os.environ.get("GITHUB_REPOSITORY")
        if repository:
            base = f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{repository}"
            metadata["urls"] = {
                "Source": base,
                "Documentation": f"{base}/tree/main/docs",
                "Changelog": f"{base}/blob/main/CHANGELOG.md",
            }
        else:
            metadata["urls"] = {}
