"""Points of a scorer's own scale: a score in [0, 1] and the number itself, or an error."""

import math

import pytest

from burnish.core.types import Verdict


@pytest.mark.parametrize(
    ("points", "lowest", "score"), [(0, 0, 0.0), (250, 0, 0.25), (1000, 0, 1.0), (-500, -1000, 0.25)]
)
def test_the_score_is_the_place_on_the_scale_and_the_points_are_kept(points: float, lowest: float, score: float):
    verdict = Verdict.of_points(points, lowest=lowest, highest=1000, parts={"hits": 0.5}, evidence="near")
    assert verdict.score == score
    assert verdict.parts == {"hits": 0.5, "points": points}
    assert verdict.evidence == "near"


@pytest.mark.parametrize("points", [-1, 1000.5, math.inf, math.nan])
def test_points_outside_the_scale_are_an_error_and_never_a_score(points: float):
    with pytest.raises(ValueError, match=r"points lie in \[0, 1000\]; got"):
        Verdict.of_points(points, highest=1000)


def test_a_scale_without_length_is_an_error():
    with pytest.raises(ValueError, match=r"points lie in \[5, 5\]"):
        Verdict.of_points(5, lowest=5, highest=5)
