"""Drawn tables and histories, and what must hold for each."""
