"""Seeds come from names: no order, no collisions by concatenation."""

from burnish.core.seeds import derive


def test_a_seed_is_the_same_for_ever():
    assert derive(1, "rl", 3) == 1368955813834191973


def test_names_and_parents_make_different_seeds():
    seeds = [derive(1, "a", "b"), derive(1, "b", "a"), derive(2, "a", "b"), derive(1, "ab"), derive(1, "a"), derive(1)]
    assert len(set(seeds)) == len(seeds)


def test_a_seed_fits_63_bits():
    assert all(0 <= derive(n) < 2**63 for n in range(100))
