"""The letters whose other case DuckDB (utf8proc) and Java agree on, whatever their version of Unicode and the locale.

Left out are those whose other case is several letters or depends on what is beside them (ß, İ, ŉ, ΐ, ΰ, Σ), and scripts
whose cases came late to Unicode. Scripts without case are in it, so that text in them goes through.
"""

from __future__ import annotations

_RANGES = (
    (0x00, 0xDE),
    (0xE0, 0x12F),
    (0x131, 0x148),
    (0x14A, 0x17F),
    (0x300, 0x344),  # combining marks
    (0x346, 0x36F),
    (0x386, 0x386),  # Greek
    (0x388, 0x38A),
    (0x38C, 0x38C),
    (0x38E, 0x38F),
    (0x391, 0x3A1),
    (0x3A4, 0x3AF),
    (0x3B1, 0x3CE),
    (0x400, 0x52F),  # Cyrillic
    (0x5D0, 0x5EA),  # Hebrew
    (0x600, 0x6FF),  # Arabic
    (0x900, 0x97F),  # Devanagari
    (0xE00, 0xE7F),  # Thai
    (0x2000, 0x206F),  # punctuation
    (0x20A0, 0x20BF),  # currencies
    (0x2190, 0x22FF),  # arrows, mathematics
    (0x2500, 0x27BF),  # boxes, symbols
    (0x3000, 0x30FF),  # kana
    (0x4E00, 0x9FFF),  # Han
    (0xAC00, 0xD7A3),  # Hangul
    (0xFE00, 0xFE0F),  # variation selectors
    (0x1F300, 0x1FAFF),  # emoji
)

CASED = "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in _RANGES)
"""What stands in brackets in a regular expression of Java for them."""
