import contextlib
from pathlib import Path

import pytest

from harness.cli import main


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the demo tables, created once, because no page's examples change them."""
    directory = tmp_path_factory.mktemp("examples")
    with contextlib.chdir(directory):
        assert main(["demo", "demo-tables"]) == 0
    return directory
