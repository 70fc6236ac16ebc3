"""Stages: what a recipe is made of, one file each.

A stage file defines `Config` (a strict pydantic model of its options, without `use`) and
`run(session, config) -> dict`; what it returns is kept in the ledger as the stage's result (JSON). A stage that
trains says `TRAINS = True` and returns `{"checkpoint": NAME}`. A stage whose place among the others matters also
defines `check_place(before)`, which gets the modules of the stages before it and raises `ConfigError`; one whose
options name task sources defines `check_entries(config, entries)`; one that asks suites while it trains defines
`check_suites(config, entries, shown)`, where `shown()` are the hashes of the prompts that the stages before it show.
"""
