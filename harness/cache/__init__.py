"""What was decoded of files that never change, kept for the next time: in this process, and on disk if asked.

An entry is a table of Arrow columns, made of one version of one file and of nothing else. `keys` and `entries` are
pure: what an entry is called, and its bytes. `memory` and `folder` keep entries, `kept` puts the two together. What is
odd about an entry makes it one that is not there: it is dropped, and the file is read again.
"""
