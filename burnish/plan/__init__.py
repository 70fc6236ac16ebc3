"""Plans: what a cluster would do with a recipe, found by running the real scheduler on a virtual clock."""
