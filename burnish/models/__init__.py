"""Models: load, adapt, and run forward over packed tokens. One row of tokens at a time, never padded."""
