"""A headless Chromium or Chrome for tests of pages."""

import html
import importlib.util
import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@dataclass(frozen=True)
class Browser:
    """A browser that can only reach this machine."""

    program: str
    directory: Path

    def open(self, page: str, address: str = "", *options: str) -> tuple[str, str]:
        """Return the document after its scripts ran, and the browser's log."""
        path = self.directory / "report.html"
        path.write_text(page, "utf-8")
        done = subprocess.run(
            [
                self.program,
                "--headless",
                "--no-sandbox",  # a browser that root runs refuses the sandbox
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                f"--user-data-dir={self.directory / 'profile'}",
                "--enable-logging=stderr",
                "--virtual-time-budget=2000",
                *(options or ["--dump-dom"]),
                path.as_uri() + address,
            ],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=True,
            env={**os.environ, "HOME": str(self.directory)},
        )
        return done.stdout, done.stderr

    def measured(self, page: str, width: int, expression: str) -> object:
        """Return the value of an expression over `page`, a document that is `width` pixels wide."""
        frame = (
            f'<iframe id="f" style="width: {width}px; height: 900px; border: 0" srcdoc="{html.escape(page)}"></iframe>'
        )
        script = (
            "onload = () => { const page = document.getElementById('f').contentDocument;"
            f" document.body.textContent = '«' + JSON.stringify({expression}) + '»'; }}"
        )
        document, _ = self.open(f'<!DOCTYPE html><meta charset="utf-8"><body>{frame}<script>{script}</script>')
        found = re.search("«(.*)»", document)
        assert found is not None, document[:2000]
        return json.loads(html.unescape(found[1]))

    def serious(self, page: str, *, dark: bool) -> list[list[str]]:
        """Return axe's findings of serious or critical impact, and failed rules of its own.

        The page's policy is removed.
        """
        known = importlib.util.find_spec("axe_core_python")
        if known is None:
            pytest.skip("axe is not installed: pip install axe-core-python")
        told = """
          addEventListener("load", async () => {
            const { violations, incomplete } = await axe.run();
            const serious = violations.filter((each) => ["serious", "critical"].includes(each.impact));
            const found = [...serious, ...incomplete.filter((each) => each.error)];
            const said = found.map((each) => [each.id, each.error?.message ?? each.nodes[0].html]);
            document.body.textContent = `\\u00ab${JSON.stringify(said)}\\u00bb`;
          })"""
        script = f'<script src="{Path(known.origin).with_name("axe.min.js").as_uri()}"></script><script>{told}</script>'
        bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
        # This version of axe cannot parse mixed colors; the stronger part has the lower contrast.
        plain = re.sub(r"color-mix\(in srgb, (var\(--\w+\)) \d+%, var\(--panel\)\)", r"\1", bare)
        scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
        document, _ = self.open(plain.replace("</body>", f"{script}</body>"), "", "--dump-dom", scheme)
        found = re.search("«(.*)»", document)
        assert found is not None, document[:2000]
        return json.loads(html.unescape(found[1]))
