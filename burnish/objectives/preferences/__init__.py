"""Objectives of stored preferences: pairs of replies, or replies with a label. One file an algorithm.

A file defines a frozen `Config`, `loss(streams, config) -> Loss`, its `AGGREGATION`, whether it reads a reference
(`NEEDS_REFERENCE`), and `LABELS`: what rows of data it trains on. Pairs are laid out as `objectives.pairs` says.
"""

from typing import Literal

Labels = Literal["pairs", "replies"]
