"""The checks of arguments: what passes, in which form, and the one sentence for what does not."""

import math

import numpy as np
import pytest

from sslzoo import checks
from sslzoo.errors import InvalidInputError, UnknownNameError, choose, nearest

PASSES = [
    (checks.number(0, rate=0), 0),
    (checks.number(rate=np.float32(-1.5)), -1.5),
    (checks.positive(a=1, b=2.5), (1, 2.5)),
    (checks.fraction(momentum=1), 1),
    (checks.count(steps=np.int64(3)), 3),
    (checks.count(0, steps=0), 0),
    (checks.seed(seed=None), None),
    (checks.seed(seed=2**31 - 1), 2**31 - 1),
    (checks.interval(0, 1, scale=[0, 1]), (0.0, 1.0)),
    (checks.interval(0, math.inf, above=True, ratio=(0.5, 2)), (0.5, 2.0)),
    (checks.size(size=None), None),
    (checks.size(size=8), (8, 8)),
    (checks.size(size=[8, 6]), (8, 6)),
    (checks.shape(3, input_shape=[8, 8, 1]), (8, 8, 1)),
    (checks.shape(input_shape=(5,)), (5,)),
]


@pytest.mark.parametrize("kept, expected", PASSES)
def test_what_passes_is_kept(kept, expected):
    assert (kept == expected and type(kept) is type(expected)) or kept == pytest.approx(expected)


REFUSED = [
    (lambda v: checks.number(0, rate=v), "rate must be a number >= 0", [-1, math.nan, math.inf, True, "1", None]),
    (lambda v: checks.number(0, 2, rate=v), "rate must be a number from 0 to 2", [-0.1, 2.1, False]),
    (lambda v: checks.positive(rate=v), "rate must be a number > 0", [0, -1, math.nan, math.inf, True, "1"]),
    (lambda v: checks.positive(rate=v), "rate must be a number of at least 1.17549e-38, as float32 computes", [1e-39]),
    (lambda v: checks.fraction(rate=v), "rate must be a number from 0 to 1", [-1e-9, 1.1, math.nan]),
    (lambda v: checks.count(2, rate=v), "rate must be an integer >= 2", [1, 2.0, True, "2", None]),
    (lambda v: checks.seed(rate=v), "rate must be an integer from 0 to 2147483647, or None", [-1, 2**31, 0.0, True]),
    (
        lambda v: checks.interval(0, 1, above=True, rate=v),
        r"rate must be (a, b), finite, with 0 < a <= b <= 1",
        [(0, 1), (0.9, 0.2), (0.1, 1.1), 0.5, (0.5,), (0.1, math.nan), (True, 1)],
    ),
    (lambda v: checks.interval(0, math.inf, rate=v), "rate must be (a, b), finite, with 0 <= a <= b", [(1, math.inf)]),
    (
        lambda v: checks.interval(-math.inf, math.inf, rate=v),
        "rate must be (a, b), finite, with a <= b",
        [(-math.inf, 1)],
    ),
    (lambda v: checks.size(rate=v), "rate must be an integer >= 1, (height, width), or None", [0, (8, 8, 3), 1.5]),
    (
        lambda v: checks.shape(3, rate=v),
        "rate must be (height, width, channels) of positive integers, without the batch",
        [(8, 8), (None, 8, 1), 8, "abc", ()],
    ),
]


@pytest.mark.parametrize("check, sentence, values", REFUSED)
def test_what_does_not_pass_is_told_in_one_sentence(check, sentence, values):
    for value in values:
        with pytest.raises(InvalidInputError) as caught:
            check(value)
        assert str(caught.value) == f"{sentence}. Received: rate={value!r}"


@pytest.mark.parametrize(
    "name, near",
    [
        ("SimVAE_CIFAR10", ["simvae-cifar10"]),  # case and punctuation
        ("simvae", ["simvae-cifar10", "simvae-mnist"]),  # the beginning, before what is spelled alike ("vae")
        ("simvea-mnist", ["simvae-mnist"]),
        ("", []),
        (None, []),
    ],
)
def test_the_nearest_names(name, near):
    assert nearest(name, ["vae", "simvae-mnist", "simvae-cifar10", "moco"], 2)[: len(near) or 1] == near


def test_a_message_lists_names_that_can_be_read_at_a_glance():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'b'\? Expected one of a, b\. Received: letter='B'"):
        choose("letter", "B", "ab")
    many = [f"model-{number}" for number in range(90)]
    with pytest.raises(UnknownNameError, match=r"Did you mean 'model-7'\? Expected one of 90 names\. Received"):
        choose("model", "MODEL7", many)
    with pytest.raises(UnknownNameError, match=r"Expected one of model-0, .*, model-9\. Received: model='x'"):
        choose("model", "x", many)  # nothing is near: all of them


def test_open_sides_are_both_open_and_only_where_they_may_be():
    assert checks.shape(3, open_sides=True, input_shape=(None, None, 3)) == (None, None, 3)
    for shape, options in (((None, None, 3), {}), ((None, 8, 3), {"open_sides": True})):
        with pytest.raises(InvalidInputError, match=r"input_shape must be .* Received: input_shape=\(None"):
            checks.shape(3, **options, input_shape=shape)
