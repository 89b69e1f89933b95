"""The suite: scenarios with expected rows, and readers that are run on them, harness's own and others.

`scenarios` has the files that say a table's history and what reading it gives. `oracle` reads tables a second time, in
plain Python, and shares only the errors with what it is held against; `oracle_engine` makes an engine of it.

`own` says what a reader under test is, and `finding` gets one by name. `readers` has the readers of other projects,
which `workers` run in processes of their own. `runner` builds each scenario's table and reads it, `judging` judges the
rows, and `reports` writes down the `results`. `itself` reads one table in many ways that must agree.

`suite` writes scenarios as data for programs in any language, and `written` judges what such a program left in a
folder. `cases` reads the suites of other projects.
"""
