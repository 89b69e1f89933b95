"""Scenarios of Delta: operations of a history, edits that break it, evidence of what took part."""
