"""The suite of scenarios run on engines, harness's own and others.

`own` says what a reader under test is, and `finding` gets one by name. `readers` has the readers of other projects,
which `workers` run in processes of their own. `runner` builds each scenario's table and reads it, `judging` judges the
rows, and `reports` writes down the `results`.

`suite` writes scenarios as data for programs in any language, and `written` judges what such a program left in a
folder. `cases` reads the suites of other projects.
"""
