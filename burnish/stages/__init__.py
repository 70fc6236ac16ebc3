"""Stages: what a recipe is made of, one file each.

A stage file defines `Config` (a strict pydantic model of its options, without `use`) and
`run(session, config) -> Json`; what it returns is kept in the ledger as the stage's result. A stage that
trains returns `{"checkpoint": NAME}`.
"""
