"""Tries: read the password hashes.

Must: be refused: an error, and nothing done.
"""

open("/etc/shadow").read()
