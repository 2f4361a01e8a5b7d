"""VICReg, BarlowTwins, CorInfoMax and WMSE: weights, statistics and state, beyond the shared battery."""

import keras
import numpy as np
import pytest
from contract import LATENT, Flips, head, images, plain_encoder
from keras import ops

from sslzoo import losses
from sslzoo.errors import InvalidInputError
from sslzoo.methods import WMSE, BarlowTwins, CorInfoMax, VICReg

METHODS = [VICReg, BarlowTwins, CorInfoMax, WMSE]


def to_numpy(tensor):
    return ops.convert_to_numpy(tensor)


def make(method, num_views=2, **arguments):
    return method(plain_encoder(), views=Flips(num_views), **arguments)


def embeddings(n=12, views=2, size=LATENT, seed=0):
    """What `call` returns, as an array made for the purpose."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 1, size)) + 0.5 * rng.normal(size=(n, views, size))
    return {"z": ops.convert_to_tensor(z, dtype="float32")}


def terms(model, given, training=True):
    return {name: float(to_numpy(value)) for name, value in model.objective(None, given, training).items()}


# ---------------------------------------------------------------- each term with its own weight


def test_vicreg_weighs_each_term():
    given = embeddings()
    unweighted = losses.vicreg_terms(given["z"][:, 0], given["z"][:, 1])
    model = make(VICReg, invariance_weight=2.0, variance_weight=3.0, covariance_weight=5.0)
    expected = {name: w * float(to_numpy(unweighted[name])) for name, w in zip(model.terms, (2.0, 3.0, 5.0))}
    assert terms(model, given) == pytest.approx(expected, rel=1e-6)
    collapsed = {"z": ops.ones((6, 2, LATENT))}
    assert sum(terms(make(VICReg), collapsed).values()) == pytest.approx(24.75, abs=1e-4)


def test_barlow_twins_weighs_each_term():
    given = embeddings()
    z_a, z_b = given["z"][:, 0], given["z"][:, 1]
    found = terms(make(BarlowTwins, off_diagonal_weight=0.3, scale=0.1), given)
    assert sum(found.values()) == pytest.approx(0.1 * float(to_numpy(losses.barlow_twins(z_a, z_b, 0.3))), rel=1e-6)
    doubled = terms(make(BarlowTwins, off_diagonal_weight=0.6, scale=0.1), given)
    assert doubled["redundancy"] == pytest.approx(2 * found["redundancy"], rel=1e-6)
    assert doubled["invariance"] == found["invariance"]


def test_corinfomax_without_memory_is_the_loss_of_the_batch():
    given = embeddings()
    z = given["z"] / ops.sqrt(ops.sum(ops.square(given["z"]), axis=-1, keepdims=True))
    expected = losses.corinfomax_terms(z[:, 0], z[:, 1], 1e-3)
    model = make(CorInfoMax, invariance_weight=7.0, regularizer=1e-3, momentum=0.0)
    assert terms(model, given) == pytest.approx(
        {
            "invariance": 7 * float(to_numpy(expected["invariance"])),
            "log_determinant": float(to_numpy(expected["log_determinant"])),
        },
        rel=1e-4,
    )
    raw = losses.corinfomax_terms(given["z"][:, 0], given["z"][:, 1], 1e-3)
    model = make(CorInfoMax, regularizer=1e-3, momentum=0.0, normalize=False)
    assert terms(model, given)["log_determinant"] == pytest.approx(float(to_numpy(raw["log_determinant"])), rel=1e-4)


# ---------------------------------------------------------------- statistics, state and random numbers


@pytest.mark.parametrize("method", METHODS)
def test_views_pass_batch_normalisation_one_at_a_time(method):
    model = make(method)
    views = model.make_views(images(12), training=True)
    z = to_numpy(model.embed_groups(views, training=True))
    for view in range(2):
        np.testing.assert_allclose(z[:, view], to_numpy(model.encoder(views[:, view], training=True)), atol=1e-5)
    together = to_numpy(model.encoder(ops.reshape(views, (-1, 8, 8, 1)), training=True)).reshape(12, 2, LATENT)
    assert np.abs(z - together).max() > 1e-3


def test_corinfomax_estimates_follow_the_recursion():
    """Means first, covariances about the new means; starting from 0 and I; each view has its own."""
    momentum = 0.3
    model = make(CorInfoMax, momentum=momentum, normalize=False, regularizer=1e-4)
    mean, covariance = np.zeros((2, LATENT)), np.stack([np.eye(LATENT)] * 2)
    for step in range(3):
        given = embeddings(seed=step)
        z = to_numpy(given["z"]).astype("float64")
        for view in range(2):
            mean[view] = momentum * mean[view] + (1 - momentum) * z[:, view].mean(0)
            centered = z[:, view] - mean[view]
            covariance[view] = momentum * covariance[view] + (1 - momentum) * centered.T @ centered / len(z)
        volume = -sum(np.linalg.slogdet(c + 1e-4 * np.eye(LATENT))[1] for c in covariance) / LATENT
        assert terms(model, given)["log_determinant"] == pytest.approx(volume, abs=1e-4)
        model.update(None, given)
        np.testing.assert_allclose(to_numpy(model.means)[:, 0], mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(to_numpy(model.covariances), covariance, rtol=1e-4, atol=1e-5)


def test_corinfomax_keeps_state_only_where_it_remembers():
    assert len(make(CorInfoMax, momentum=0.01).non_trainable_variables) == (
        len(make(CorInfoMax, momentum=0.0).non_trainable_variables) + 2
    )
    model = make(CorInfoMax)
    model.compile(optimizer="sgd")
    model.evaluate(images(12), batch_size=12, verbose=0)
    np.testing.assert_array_equal(to_numpy(model.covariances), np.stack([np.eye(LATENT)] * 2))


def test_wmse_whitens_random_parts_of_the_batch_in_training_only():
    given = embeddings()
    whole, parts = make(WMSE), make(WMSE, whitening_size=6)
    first = {"z": given["z"][:6]}, {"z": given["z"][6:]}
    in_order = np.mean([terms(whole, half)["invariance"] for half in first])
    evaluated = [terms(parts, given, training=False)["invariance"] for _ in range(2)]
    assert evaluated == pytest.approx([in_order] * 2, rel=1e-5)
    drawn = [terms(parts, given)["invariance"] for _ in range(6)]
    assert len(set(drawn)) > 1
    repeated = make(WMSE, whitening_size=6)
    assert [terms(repeated, given)["invariance"] for _ in range(6)] == drawn
    assert abs(terms(whole, given)["invariance"] - in_order) > 1e-3


def test_wmse_averages_over_its_iterations():
    given = embeddings()
    once, thrice = make(WMSE, whitening_size=6), make(WMSE, whitening_size=6, iterations=3)
    drawn = [terms(once, given)["invariance"] for _ in range(3)]
    assert terms(thrice, given)["invariance"] == pytest.approx(np.mean(drawn), rel=1e-5)


def test_wmse_permutes_images_and_keeps_their_views_together():
    z = np.arange(20.0).reshape(10, 2, 1)
    shuffled = to_numpy(WMSE(plain_encoder())._shuffled(ops.convert_to_tensor(z, dtype="float32")))
    assert not np.array_equal(shuffled, z)
    np.testing.assert_array_equal(shuffled[np.argsort(shuffled[:, 0, 0])], z)


@pytest.mark.parametrize("method", METHODS)
def test_training_pulls_views_together_and_keeps_images_apart(method):
    """Invariance alone would shrink everything to a point; each method's other half must prevent that."""
    push = {VICReg: {"covariance_weight": 25.0}, BarlowTwins: {"off_diagonal_weight": 0.1}}
    model = method(plain_encoder(), projector=head(size=3), views=Flips(2), **push.get(method, {}))
    model.compile(optimizer=keras.optimizers.Adam(5e-3))
    views = model.make_views(images(48), training=True)

    def agreement():
        """Mean distance of the views of an image in units of that between images."""
        z = to_numpy(model.embed_groups(views, training=True))
        apart = z[:, 0] - np.roll(z[:, 1], 7, axis=0)
        return np.square(z[:, 0] - z[:, 1]).mean() / np.square(apart).mean(), z[:, 0]

    before, _ = agreement()
    model.fit(np.tile(images(48), (40, 1, 1, 1)), batch_size=48, shuffle=False, verbose=0)
    after, z = agreement()
    assert after < 0.3 * before
    # All three directions are in use: without the covariance term of VICReg this is 0.015.
    assert np.linalg.eigvalsh(np.corrcoef(z.T))[0] > 0.15


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        (VICReg, {"variance_weight": 0}, "variance_weight must be a number > 0. Received: variance_weight=0"),
        (BarlowTwins, {"scale": -1.0}, "scale must be a number > 0. Received: scale=-1.0"),
        (CorInfoMax, {"regularizer": 0.0}, "regularizer must be a number > 0. Received: regularizer=0.0"),
        (CorInfoMax, {"momentum": 1.0}, "momentum must be below 1.*Received: momentum=1"),
        (WMSE, {"iterations": 0}, "iterations must be an integer >= 1. Received: iterations=0"),
        (WMSE, {"whitening_size": (6,)}, "whitening_size must be an integer >= 1. Received: whitening_size="),
        (WMSE, {"whitening_size": 4}, "larger than the 4 features of an embedding. Received: whitening_size=4"),
    ],
)
def test_arguments_out_of_range_are_refused(method, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        make(method, **arguments)


@pytest.mark.parametrize("method", [VICReg, BarlowTwins, CorInfoMax])
def test_a_batch_of_one_and_three_views_are_refused(method):
    with pytest.raises(InvalidInputError, match=r"at least 2 images.*Received"):
        make(method).objective(None, embeddings(n=1), True)
    with pytest.raises(InvalidInputError, match=rf"{method.__name__} needs exactly 2 views.*Received: num_views=3"):
        make(method, num_views=3)


@pytest.mark.parametrize(("size", "count", "received"), [(6, 20, "8 of 20"), (None, 15, "3 of 15")])
def test_wmse_refuses_held_out_images_it_cannot_whiten_before_the_first_step(size, count, received):
    model = make(WMSE, whitening_size=size)
    model.compile(keras.optimizers.SGD(1e-3))
    with pytest.raises(InvalidInputError, match=rf"last batch of x must be one .*drop {received} images"):
        model.evaluate(images(count), batch_size=12, verbose=0)
    with pytest.raises(InvalidInputError, match=rf"last batch of validation_data must .*drop {received} images"):
        model.fit(images(24), batch_size=12, validation_data=images(count), verbose=0)
    assert int(model.optimizer.iterations) == 0
    assert np.isfinite(model.evaluate(images(18), batch_size=12, verbose=0)).all()


def test_wmse_refuses_batches_it_cannot_whiten():
    with pytest.raises(InvalidInputError, match=r"WMSE .*at least 5 in every batch.*Received: a batch of 4 images"):
        make(WMSE).check_batch(4)
    with pytest.raises(InvalidInputError, match=r"multiple of 5 images in every batch. Received: a batch of 12 images"):
        make(WMSE, whitening_size=5).check_batch(12)
    with pytest.raises(InvalidInputError, match=r"WMSE needs at least 2 views.*Received: num_views=1"):
        make(WMSE, num_views=1)
