"""The book of the formats."""
