"""The suite of scenarios run on engines, harness's own and others.

`engines` says what an engine is and `finding` gets one by name; `workers` runs those of other projects in processes of
their own. `runner` builds each scenario's table, reads it by every engine and judges the rows (`outcomes`); `reports`
writes down what came of it.
"""
