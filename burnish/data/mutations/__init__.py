"""Faults planted in real Python code: where they can be, what they change, and the code with them in it."""
