"""Verifiers of answers in pure Python: a truth and a reply go in, a verdict comes out. No torch here.

`verifier("number").judge("18", "The total is $18.")` is the way in; `answers` holds the registry.
"""

from burnish.rewards.answers import VERIFIERS, Verifier, verifier

__all__ = ["VERIFIERS", "Verifier", "verifier"]
