"""Drawn tables and histories, and the properties that must hold for each of them."""
