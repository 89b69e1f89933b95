"""Tools for tests of tables: they write tables, say what reads must give, and judge readers.

Read `writing` first: its builders write Iceberg and Delta tables on disk, without a JVM and without the reader's code.
`scenarios` are files that say a table's history and what reading it gives. `oracle` reads tables a second time, in
plain Python, and shares only the errors with what it judges. `conformance` runs scenarios on all engines. `jobs` runs
Spark jobs on tables that a test names; `plugin` makes all of it fixtures of pytest.
"""
