"""Stages: what a recipe is made of, one file each.

A stage file defines `Config` (a strict pydantic model of its options, without `use`) and
`run(session, config) -> dict`; what it returns is kept in the ledger as the stage's result (JSON). A stage that
trains returns `{"checkpoint": NAME}`.
"""
