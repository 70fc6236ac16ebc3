"""Rollouts: which task comes next, attempts at it, their verdicts, and who gets the credit."""
