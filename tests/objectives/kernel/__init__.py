"""Checks of objectives against numbers; plain functions, so that mutated objectives can be put before them."""
