"""The video of moving balls: its rules held on every frame, and what the pixels say about the positions."""

from itertools import combinations

import numpy as np
import pytest

from sslzoo.data import moving_balls as balls
from sslzoo.errors import InvalidInputError


@pytest.fixture(scope="module")
def papers():
    """The video of the paper: 900 frames, 256x256, balls of 32 pixels."""
    return balls.moving_balls()


def test_the_papers_video(papers):
    images, positions = papers
    assert images.shape == (900, 256, 256, 3) and images.dtype == np.uint8
    assert positions.shape == (900, 3, 2) and positions.dtype == np.float32


@pytest.mark.parametrize(
    ("arguments", "size", "diameter", "step"),
    [
        ({}, 256, 32, 32),
        ({"size": 64, "seed": 1}, 64, 8, 8),
        ({"size": 50, "diameter": 9.5, "step": 3.0, "num_balls": 2, "seed": 2}, 50, 9.5, 3.0),
    ],
)
def test_no_ball_leaves_the_square_overlaps_another_or_stands_still(arguments, size, diameter, step):
    _, positions = balls.moving_balls(frames=300, **arguments)
    assert positions.min() >= diameter / 2 - 0.5 - 1e-4
    assert positions.max() <= size - 0.5 - diameter / 2 + 1e-4
    for one, other in combinations(range(positions.shape[1]), 2):
        assert np.linalg.norm(positions[:, one] - positions[:, other], axis=1).min() >= diameter - 1e-4
    moves = np.linalg.norm(np.diff(positions, axis=0), axis=2)
    np.testing.assert_allclose(moves, step, rtol=1e-4)


def turns(positions):
    """Change of heading in degrees, (T - 2, balls), with where each ball was when it turned, (T - 2, balls, 2)."""
    moves = np.diff(positions.astype("float64"), axis=0)
    heading = np.degrees(np.arctan2(moves[..., 1], moves[..., 0]))
    return (np.diff(heading, axis=0) + 180) % 360 - 180, positions[1:-1]


def test_headings_change_by_at_most_two_degrees_where_nothing_is_in_the_way(papers):
    """By more only where going on would have met a wall or a ball: within a step and a bit of one."""
    _, positions = papers
    turned, where = turns(positions)
    free = np.abs(turned) < 2.001
    assert free.mean() > 0.6
    small = turned[free]
    assert np.abs(small).max() > 1.9 and small.std() == pytest.approx(4 / 12**0.5, rel=0.1)  # uniform on -2..2
    wall = np.minimum(where - 15.5, 239.5 - where).min(axis=2)
    gap = np.full(wall.shape, np.inf)
    for one, other in combinations(range(3), 2):
        near = np.minimum(
            np.linalg.norm(where[:, one] - where[:, other], axis=1),
            np.linalg.norm(positions[2:, other] - where[:, one], axis=1),
        )
        near = np.minimum(near, np.linalg.norm(positions[2:, one] - where[:, other], axis=1))
        gap[:, one], gap[:, other] = np.minimum(gap[:, one], near), np.minimum(gap[:, other], near)
    blocked = ~free
    assert (np.minimum(wall, gap - 32)[blocked] <= 32).all()
    assert np.abs(turned[blocked]).max() > 90


def test_the_balls_go_everywhere(papers):
    _, positions = papers
    counts = np.histogram2d(*positions.reshape(-1, 2).T, bins=4, range=[[0, 256]] * 2)[0]
    assert counts.min() > 0.02 * counts.sum()


def test_pixels_are_where_the_positions_say(papers):
    images, positions = papers
    for t in (0, 450, 899):
        for ball, color in enumerate(balls.COLORS):
            solid = (images[t] == color).all(axis=2)
            y, x = np.nonzero(solid)
            np.testing.assert_allclose([x.mean(), y.mean()], positions[t, ball], atol=0.1)
            assert solid.sum() == pytest.approx(np.pi * 16**2, rel=0.1)


def test_edges_are_anti_aliased_and_cover_the_area_of_the_disc():
    image = balls.draw([[[100.25, 60.5]]], 256, 32)[0].astype("float64")
    background, color = np.array(balls.BACKGROUND), np.array(balls.COLORS[0])
    cover = (image - background)[..., 0] / (color - background)[0]
    assert ((cover > 0.05) & (cover < 0.95)).sum() > 50
    assert cover.sum() == pytest.approx(np.pi * 16**2, rel=0.01)
    rows, columns = np.mgrid[:256, :256]
    assert (cover * columns).sum() / cover.sum() == pytest.approx(100.25, abs=0.02)
    assert (cover * rows).sum() / cover.sum() == pytest.approx(60.5, abs=0.02)


def test_a_ball_in_the_corner_is_drawn_whole_and_one_outside_is_cut():
    corner = balls.draw([[[3.5, 3.5]]], 16, 8)[0]
    assert ((corner != balls.BACKGROUND).any(axis=2)).sum() == pytest.approx(np.pi * 16, rel=0.35)
    assert (balls.draw([[[-100.0, 5.0]]], 16, 8)[0] == balls.BACKGROUND).all()


def test_a_seed_gives_the_same_video_and_another_seed_another():
    first, again, other = (balls.moving_balls(20, 32, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])
    assert np.abs(first[1] - other[1]).max() > 1
    longer = balls.moving_balls(25, 32, seed=3)
    np.testing.assert_array_equal(longer[0][:20], first[0])


def test_a_ball_shut_in_by_others_has_the_frame_drawn_again(monkeypatch):
    """In a crowd moves come up that leave a ball no way; they are drawn again, and not for ever."""

    class Counting(np.random.Generator):
        attempts = 0

        def permutation(self, *arguments):  # drawn once for each attempt at a frame
            Counting.attempts += 1
            return super().permutation(*arguments)

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Counting(np.random.PCG64(seed)))
    _, positions = balls.moving_balls(frames=60, size=40, diameter=12, step=12)
    assert Counting.attempts > 65 and len(positions) == 60
    with pytest.raises(InvalidInputError, match=r"no room to move.*Received: num_balls=3, diameter=17, step=17"):
        balls.moving_balls(frames=10_000, size=36, diameter=17, step=17)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"frames": 0}, "frames must be an integer >= 1. Received: frames=0"),
        ({"size": 32.5}, "size must be an integer >= 2. Received: size=32.5"),
        ({"num_balls": 4}, "at most 3. Received: num_balls=4"),
        ({"diameter": -1.0}, "diameter and step must be > 0"),
        (
            {"size": 32, "diameter": 20, "step": 20},
            "diameter \\+ step <= size.*Received: diameter=20, step=20, size=32",
        ),
        ({"size": 32, "diameter": 16.5, "step": 4, "num_balls": 3}, "no room to move.*Received: num_balls=3"),
        ({"seed": -1}, "seed must be an integer from 0 to"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        balls.moving_balls(**{"frames": 5, **arguments})


def test_positions_of_the_wrong_shape_are_not_drawn():
    for shape in ((3, 2), (5, 4, 2), (5, 3, 3)):
        with pytest.raises(InvalidInputError, match=r"shape \(frames, balls, 2\).*Received: positions of shape"):
            balls.draw(np.zeros(shape), 16, 4)
