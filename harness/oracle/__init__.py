"""A second planner and engine, in plain Python: slow, obviously right, sharing nothing with what they judge."""
