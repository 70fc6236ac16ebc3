"""The learner: token streams with weights in, one global division, an update out. Knows no algorithm."""
