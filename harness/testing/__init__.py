"""Tools for tests of a user's own code.

`plugin` has the fixtures of pytest, `lake` the tables that they make, and `same_rows` their assertions. `jobs` runs
Spark jobs on tables that a test names. The builders of tables are in `harness.writing`.
"""
