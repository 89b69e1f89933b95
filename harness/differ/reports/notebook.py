"""A report in a notebook: its own page in a frame, which can reach nothing around it, and its text below.

The frame keeps the style of the report and of the notebook apart. Where frames are taken out, as by hosts of code that
show notebooks, the text is left.
"""

from __future__ import annotations

import html

from harness.model.notebook import preformatted

_LEAST, _MOST, _LINE = 320, 760, 22
"""Pixels: the least and the most height of a frame, and what a line of the text report takes in it."""


def framed(page: str, text: str) -> str:
    """The fragment. page: the HTML report. text: the same for a terminal."""
    height = min(_MOST, _LEAST + _LINE * text.count("\n"))
    size = f'width="100%" height="{height}" style="border: 0"'
    frame = f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(page)}" {size}></iframe>'
    return f"<div>{frame}<details><summary>as text</summary>{preformatted(text)}</details></div>"
