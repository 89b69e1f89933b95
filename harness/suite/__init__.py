"""The suite: scenarios with expected rows, and readers that run on them, harness's own and others.

`scenarios` parses and builds scenarios. `oracle` is a second reader in plain Python, which shares only the errors with
harness, and `oracle_engine` makes an engine of it.

`reader` defines what a reader under test is, and `readers` opens one by name. `other_readers` has the readers of other
projects, which `workers` runs in processes of their own. `runner` builds the table of each scenario and reads it,
`scores` compares the rows with the expected ones, and `reports` writes the `results`. `rereads` reads one table in many
ways that must agree.

`suite_files` writes scenarios as data for programs in any language, and `result_files` scores what a program read.
`cases` loads the suites of other projects.
"""
