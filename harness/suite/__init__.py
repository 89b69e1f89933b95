"""The suite: scenarios with expected rows, the readers that run on them, and the oracle.

`scenarios` parses and builds scenarios. `oracle` is a second reader in plain Python that shares only the errors with
harness. `oracle_engine` makes it available as an engine.

`reader` defines the interface of a reader under test, and `readers` opens a reader by name. `other_readers` contains
the readers of other projects, which `workers` runs in separate processes. `runner` builds each scenario's table and
reads it, `scores` compares the rows with the expected rows, and `reports` writes the `results`. `rereads` reads one
table in many ways that must agree.

`suite_files` writes scenarios as data for programs in any language, and `result_files` scores the results of this
program. `cases` loads the test suites of other projects.
"""
