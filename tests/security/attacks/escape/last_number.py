"""Tries: set the number that the next process in its namespace gets, to be taken for another.

Must: be refused: an error, and nothing done.
"""

with open("/proc/sys/kernel/ns_last_pid", "w") as last:
    last.write("1")
