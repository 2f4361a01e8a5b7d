"""A video of balls that bounce in a square: data in which time, not augmentation, says what belongs together.

Section 4 of "InfoNCE is a variational autoencoder": three colored balls, each moving by its diameter from frame to
frame in a direction that hardly changes. What a good representation holds is known here, namely where the balls are.
"""

import numpy as np

from sslzoo import checks
from sslzoo.errors import InvalidInputError

BACKGROUND = (20, 24, 38)
COLORS = ((255, 127, 80), (64, 196, 255), (178, 235, 96))  # coral, sky, lime; further balls would look like one of them
TURN = 2.0  # degrees
TRIES = 64  # of one ball, then of one frame


def moving_balls(
    frames: int = 900,
    size: int = 256,
    num_balls: int = 3,
    diameter: float | None = None,
    step: float | None = None,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Makes one continuous video of bouncing balls.

    From frame to frame each ball moves by `step`, in its previous direction changed by a uniform angle of -2 to +2
    degrees. A move that would cross a wall or end on another ball is drawn again from twice the range of angles, until
    one is valid. Balls move one after another, in an order drawn for each frame; where one finds no way at all, the
    frame is drawn again. Balls are discs with anti-aliased edges.

    Args:
        frames: int, T.
        size: int, S, height and width of a frame in pixels.
        num_balls: int from 1 to 3, one color each.
        diameter: float, pixels; an eighth of the size by default, as in the paper (32 of 256).
        step: float, pixels from frame to frame; the diameter by default, as in the paper.
        seed: int >= 0. NumPy draws the video: equal on every backend.

    Returns:
        images: uint8 array (T, S, S, 3), RGB.
        positions: float32 array (T, num_balls, 2), x (to the right) and y (down) of the centers in pixels. The center
            of the top left pixel is (0, 0), so a ball touches the left wall at x = diameter / 2 - 1/2.

    Raises:
        InvalidInputError: a number out of range, or balls too large, many or fast for the square.

    Reference:
        "InfoNCE is a variational autoencoder", section 4, whose figures the defaults are.
    """
    checks.count(frames=frames, num_balls=num_balls)
    checks.count(2, size=size)
    checks.seed(needed=True, seed=seed)
    if num_balls > len(COLORS):
        raise InvalidInputError(f"num_balls must be at most {len(COLORS)}. Received: num_balls={num_balls}")
    diameter = size / 8 if diameter is None else diameter
    step = diameter if step is None else step
    if not (diameter > 0 and step > 0 and diameter + step <= size):
        raise InvalidInputError(
            "diameter and step must be > 0 and leave a ball room to move: diameter + step <= size. "
            f"Received: diameter={diameter!r}, step={step!r}, size={size}"
        )
    positions = _trajectories(frames, size, num_balls, diameter, step, np.random.default_rng(seed))
    return draw(positions, size, diameter), positions.astype("float32")


def draw(positions: np.ndarray, size: int, diameter: float) -> np.ndarray:
    """Frames of balls at given places.

    Args:
        positions: float array (T, num_balls, 2), x and y in pixels, as `moving_balls` returns them.
        size: int, S, height and width of a frame.
        diameter: float, pixels.

    Returns:
        uint8 array (T, S, S, 3), RGB.

    Raises:
        InvalidInputError: positions of another shape.
    """
    positions = np.asarray(positions, "float64")
    if positions.ndim != 3 or positions.shape[1] > len(COLORS) or positions.shape[2] != 2:
        raise InvalidInputError(
            f"positions must have the shape (frames, balls, 2), with at most {len(COLORS)} balls. "
            f"Received: positions of shape {positions.shape}"
        )
    images = np.empty((len(positions), size, size, 3), "uint8")
    images[:] = BACKGROUND
    pixels = np.arange(size)
    reach = int(np.ceil(diameter / 2)) + 1  # pixels beyond it are not touched by a ball
    for image, places in zip(images, positions):
        for (x, y), color in zip(places, COLORS):
            columns, rows = (slice(max(0, round(c) - reach), max(0, round(c) + reach + 1)) for c in (x, y))
            patch = image[rows, columns]
            distance = np.hypot(pixels[columns] - x, pixels[rows, None] - y)
            cover = np.clip(diameter / 2 + 0.5 - distance, 0.0, 1.0)[..., None]
            patch[:] = np.rint(patch + cover * (np.array(color) - patch.astype("float64")))
    return images


def _trajectories(frames, size, num_balls, diameter, step, rng):
    """Positions (frames, num_balls, 2), float64."""
    low, high = diameter / 2 - 0.5, size - 0.5 - diameter / 2

    def valid(place, others):
        inside = low <= place.min() and place.max() <= high
        return inside and all(np.hypot(*(place - other)) >= diameter for other in others)

    def start():
        """Places of all balls, or None if the last ones found no room."""
        places = []
        for _ in range(num_balls):
            candidates = rng.uniform(low, high, (TRIES, 2))
            room = next((place for place in candidates if valid(place, places)), None)
            if room is None:
                return None
            places.append(room)
        return np.array(places), rng.uniform(0.0, 360.0, num_balls)

    def move(state):
        """Places and headings of the next frame, or None if a ball found no way."""
        places, headings = (array.copy() for array in state)
        for ball in rng.permutation(num_balls):
            others = np.delete(places, ball, axis=0)
            turn = TURN
            for _ in range(TRIES):
                heading = headings[ball] + rng.uniform(-turn, turn)
                place = places[ball] + step * np.array([np.cos(np.radians(heading)), np.sin(np.radians(heading))])
                if valid(place, others):
                    break
                turn = min(2 * turn, 180.0)
            else:
                return None
            places[ball], headings[ball] = place, heading
        return places, headings

    def attempt(draw_once, *arguments):
        for _ in range(TRIES):
            state = draw_once(*arguments)
            if state is not None:
                return state
        raise InvalidInputError(
            "The balls leave each other no room to move; take fewer, smaller or slower ones. "
            f"Received: num_balls={num_balls}, diameter={diameter!r}, step={step!r}, size={size}"
        )

    states = [attempt(start)]
    while len(states) < frames:
        states.append(attempt(move, states[-1]))
    return np.array([places for places, _ in states])
