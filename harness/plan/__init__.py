"""The contract between formats and engines: a ScanPlan, and how the columns of a file become those of a read."""
