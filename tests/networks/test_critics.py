"""Critics: scores against float64 references, how the two forms are related, and parameters that stay float32."""

import keras
import numpy as np
import pytest
from keras import ops
from oracle import check, gradient

from sslzoo.errors import InvalidInputError
from sslzoo.networks import BilinearCritic, GaussianCritic


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def to_numpy(tensor):
    return ops.convert_to_numpy(tensor)


def bilinear_reference(z, z_prime, kernel):
    return np.array([[a @ kernel @ b for b in z_prime] for a in z])


def gaussian_reference(z, z_prime, log_length_scale):
    square = np.exp(log_length_scale) ** 2
    return np.array([[-((a - b) ** 2).sum() / (2 * square) for b in z_prime] for a in z])


CASES = {
    "bilinear": (lambda: BilinearCritic(4), "kernel", bilinear_reference, draw(4, 4, seed=3)),
    "gaussian": (GaussianCritic, "log_length_scale", gaussian_reference, np.float32(-0.4)),
}


@pytest.mark.parametrize("name", CASES)
def test_scores_and_all_gradients_equal_float64_references(name):
    """Also with respect to W and log L, and for batches of different sizes."""
    make, attribute, reference, parameter = CASES[name]
    layer, weights = make(), draw(5, 3, seed=9)  # one number of many scores; unequal, so that a transpose shows

    def scored(z, z_prime, value):
        with keras.StatelessScope(state_mapping=[(getattr(layer, attribute), value)]):
            return ops.sum(ops.multiply(weights, layer(z, z_prime)))

    check(scored, lambda *arrays: (weights * reference(*arrays)).sum(), draw(5, 4), draw(3, 4, seed=1), parameter)


@pytest.mark.parametrize("name", CASES)
def test_scores_go_from_rows_of_z_to_columns_of_z_prime(name):
    layer = CASES[name][0]()
    z, z_prime = draw(5, 4), draw(3, 4, seed=1)
    scores = to_numpy(layer(z, z_prime))
    assert scores.shape == (5, 3)
    np.testing.assert_allclose(to_numpy(layer(z[2:3], z_prime[1:2]))[0, 0], scores[2, 1], rtol=1e-5)
    assert layer(keras.Input((4,)), keras.Input((4,))).shape == (None, None)


def test_the_bilinear_critic_starts_as_the_inner_product():
    z, z_prime = draw(5, 4), draw(6, 4, seed=1)
    np.testing.assert_allclose(to_numpy(BilinearCritic(4)(z, z_prime)), z @ z_prime.T, rtol=1e-5, atol=1e-6)


def test_gaussian_is_bilinear_with_a_price_for_each_candidate():
    """-|z - z'|^2 / 2L^2 = z^T (I / L^2) z' - |z'|^2 / 2L^2 + what depends on z alone, which the softmax removes."""
    z, z_prime, length = draw(6, 4), draw(6, 4, seed=1), 0.7
    linear = BilinearCritic(4)
    linear.kernel.assign(np.eye(4) / length**2)
    biased = linear(z, z_prime) - ops.sum(ops.square(z_prime), axis=1) / (2 * length**2)
    gaussian = GaussianCritic(length)(z, z_prime)
    np.testing.assert_allclose(to_numpy(ops.softmax(gaussian)), to_numpy(ops.softmax(biased)), atol=1e-6)


@pytest.mark.parametrize("shift", [1.0, 1000.0])
def test_only_the_gaussian_critic_ignores_where_the_origin_is(shift):
    """Coordinates that are multiples of 1/16 can be moved by 1000 exactly; |z|^2 + |z'|^2 - 2 z.z' would lose 0.1."""
    z, z_prime = np.round(16 * draw(6, 4)) / 16, np.round(16 * draw(6, 4, seed=1)) / 16
    gaussian = GaussianCritic(0.5)
    np.testing.assert_allclose(
        to_numpy(gaussian(z + shift, z_prime + shift)), to_numpy(gaussian(z, z_prime)), rtol=1e-4, atol=1e-3
    )
    linear = BilinearCritic(4)
    moved = np.abs(to_numpy(ops.softmax(linear(z + shift, z_prime + shift)) - ops.softmax(linear(z, z_prime))))
    assert moved.max() > 0.1


def test_gaussian_scores_are_zero_for_equal_embeddings_and_have_no_gradient_there():
    z = np.tile(draw(1, 4), (5, 1))
    layer = GaussianCritic(0.1)
    np.testing.assert_allclose(to_numpy(layer(z, z)), 0, atol=1e-4)
    for slope in gradient(lambda a, b: ops.sum(layer(a, b)), z, z):
        np.testing.assert_allclose(slope, 0, atol=1e-3)


@pytest.mark.parametrize("length", [1e-6, 1e6])
def test_log_length_scale_holds_scales_of_any_size(length):
    layer = GaussianCritic(length)
    scores = to_numpy(layer(np.array([[length]]), np.array([[0.0], [length]])))
    np.testing.assert_allclose(scores, [[-0.5, 0.0]], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_parameters_and_scores_are_float32_under_every_policy(name, policy):
    keras.config.set_dtype_policy(policy)
    try:
        layer = CASES[name][0]()
        z = ops.cast(100 * draw(4, 4), policy.removeprefix("mixed_"))  # whose squares float16 could not hold
        scores = layer(z, z)
    finally:
        keras.config.set_dtype_policy("float32")
    assert keras.backend.standardize_dtype(scores.dtype) == "float32"
    assert {keras.backend.standardize_dtype(w.dtype) for w in layer.weights} == {"float32"}
    np.testing.assert_allclose(to_numpy(scores), to_numpy(CASES[name][0]()(ops.cast(z, "float32"), z)), rtol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_configuration_round_trip(name):
    layer = CASES[name][0]()
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(copy) is type(layer) and copy.get_config() == layer.get_config()
    assert [w.path.split("/")[-1] for w in copy.trainable_variables] == [CASES[name][1]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianCritic(0.0), "length_scale must be a number > 0. Received: length_scale=0.0"),
        (lambda: GaussianCritic("wide"), "Received: length_scale='wide'"),
        (lambda: BilinearCritic(0), "embedding_dim must be an integer >= 1. Received: embedding_dim=0"),
    ],
)
def test_wrong_arguments_are_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()
