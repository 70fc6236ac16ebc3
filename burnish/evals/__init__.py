"""Evaluations: what was scored, how sure we are, what changed, and whether a run may be promoted."""
