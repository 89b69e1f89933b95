"""A mark for tests whose SQL only newer releases of sqlglot can parse."""

import pytest

from harness.queries.rewrite import has_older_parser

reads_all = pytest.mark.skipif(has_older_parser(), reason="this sqlglot does not read the query")
