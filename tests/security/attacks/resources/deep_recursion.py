"""Tries: recurse without end.

Must: be refused: an error, and nothing done.
"""


def deep():
    deep()


try:
    deep()
except RecursionError as error:
    raise OSError("too deep") from error
