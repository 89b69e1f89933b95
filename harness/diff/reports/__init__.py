"""Reports of a comparison. Read `text` first.

`text` is for terminals and logs, `html` for browsers and notebooks, `documents` for programs (JSON, JUnit XML), and
`batch` for many comparisons at once.
"""
