"""Scenarios of Iceberg: operations of a history, edits that break it, evidence of what took part."""
