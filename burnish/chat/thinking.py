"""How models mark their thinking."""

OPENING, CLOSING = "<think>", "</think>"
