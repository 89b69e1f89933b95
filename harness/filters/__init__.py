"""Conditions from SQL text, to the form that planning can decide on."""
