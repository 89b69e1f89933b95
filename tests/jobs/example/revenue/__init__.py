"""A package that knows nothing of harness: the job of the page on jobs under test."""
