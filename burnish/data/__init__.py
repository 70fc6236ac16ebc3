"""Data at rest: readers and writers of files."""
