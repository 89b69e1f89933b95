"""Reports of a run: text, JSON and JUnit, and HTML."""
