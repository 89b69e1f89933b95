"""Fixtures of several folders."""

import shutil

import pytest
from browsing import BROWSERS, Browser


@pytest.fixture
def browser(tmp_path):
    """A headless browser. The test is skipped if no browser is on PATH."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser on PATH: none of {', '.join(BROWSERS)}")
    return Browser(program, tmp_path)
