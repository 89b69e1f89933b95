"""Engines: each turns a `ScanPlan` into rows, in its own way, and knows nothing of table formats."""
