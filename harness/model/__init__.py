"""The logical types of both formats, what files hold, and what statistics say: no table in sight."""
