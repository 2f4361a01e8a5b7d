"""InfoNCE: objective, closed forms and critics, beyond the shared battery."""

import keras
import numpy as np
import pytest
from contract import Flips, head, images, plain_encoder
from keras import ops
from oracle import check

from sslzoo.errors import InvalidInputError, UnknownNameError
from sslzoo.methods import InfoNCE
from sslzoo.networks import BilinearCritic, GaussianCritic


def to_numpy(tensor):
    return ops.convert_to_numpy(tensor)


def make(critic="bilinear", **arguments):
    return InfoNCE(plain_encoder(), views=Flips(2), critic=critic, **arguments)


def embeddings(n=6, size=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 2, size)).astype("float32")


def terms(model, z, training=True):
    given = {"z": ops.convert_to_tensor(z, dtype="float32")}
    return {name: float(to_numpy(value)) for name, value in model.objective(None, given, training).items()}


def loss(model, z):
    return sum(terms(model, z).values())


# ---------------------------------------------------------------- float64 references


def info_nce_reference(scores):
    return (-np.diag(scores) + np.log(np.exp(scores).sum(1))).mean()


def bilinear_reference(z, kernel):
    return z[:, 0] @ kernel @ z[:, 1].T


def gaussian_reference(z, log_length_scale):
    squared = ((z[:, 0][:, None] - z[:, 1][None]) ** 2).sum(-1)
    return -squared / (2 * np.exp(log_length_scale) ** 2)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("name", ["bilinear", "gaussian"])
def test_loss_and_gradients_equal_a_float64_reference(name, symmetric):
    """Gradients also with respect to W and log L."""
    model = make(name, symmetric=symmetric)
    (variable,) = model.critic.trainable_variables
    scores = {"bilinear": bilinear_reference, "gaussian": gaussian_reference}[name]
    start = {"bilinear": embeddings(2, seed=1).reshape(4, 4), "gaussian": np.float32(-0.3)}[name]

    def ours(z, value):
        with keras.StatelessScope(state_mapping=[(variable, value)]):
            return sum(model.objective(None, {"z": z}, True).values())

    def reference(z, value):
        s = scores(z, value)
        return (info_nce_reference(s) + info_nce_reference(s.T)) / 2 if symmetric else info_nce_reference(s)

    check(ours, reference, embeddings(), start)


def test_alignment_is_the_prior_and_contrast_its_normalizer():
    z = embeddings()
    scores = gaussian_reference(z.astype("float64"), np.log(0.5))
    found = terms(make(GaussianCritic(0.5)), z)
    assert found["alignment"] == pytest.approx(((z[:, 0] - z[:, 1]) ** 2).sum(-1).mean() / (2 * 0.5**2), rel=1e-5)
    assert found["contrast"] == pytest.approx(np.log(np.exp(scores).sum(1)).mean(), rel=1e-5)


# ---------------------------------------------------------------- closed forms


@pytest.mark.parametrize("critic", ["bilinear", "gaussian"])
def test_equal_embeddings_are_at_chance(critic):
    model = make(critic)
    equal = np.tile(embeddings(1)[:, :1], (30, 2, 1))
    assert loss(model, equal) == pytest.approx(np.log(30), abs=1e-5) == pytest.approx(3.4012, abs=1e-4)
    assert model.chance_level(30) == pytest.approx(np.log(30))


def test_a_wide_length_scale_is_at_chance_and_a_narrow_one_at_zero_or_far_off():
    z = embeddings(30)
    assert loss(make(GaussianCritic(1e4)), z) == pytest.approx(np.log(30), abs=1e-4)
    z[:, 1] = z[:, 0]
    assert loss(make(GaussianCritic(1e-2)), z) == pytest.approx(0, abs=1e-5)
    z[:, 1] = np.roll(z[:, 0], 1, axis=0)
    assert loss(make(GaussianCritic(1e-2)), z) > 1e3


def test_only_the_gaussian_prior_does_not_care_where_the_origin_is():
    z = embeddings()
    assert loss(make("gaussian"), z + 7) == pytest.approx(loss(make("gaussian"), z), abs=1e-4)
    assert abs(loss(make("bilinear"), z + 7) - loss(make("bilinear"), z)) > 0.1


def test_gaussian_equals_bilinear_with_a_bias_for_each_candidate():
    @keras.saving.register_keras_serializable("sslzoo_tests")
    class Biased(BilinearCritic):
        def call(self, z, z_prime):
            return (super().call(z, z_prime) - 0.5 * ops.sum(ops.square(z_prime), axis=1)) / 0.6**2

    z = embeddings()
    assert loss(make(Biased(4)), z) == pytest.approx(loss(make(GaussianCritic(0.6)), z), rel=1e-5)
    assert loss(make(Biased(4)), z) != pytest.approx(loss(make(BilinearCritic(4)), z), rel=1e-2)


def test_pairs_and_candidates_have_a_direction_unless_symmetric():
    z = embeddings()
    one_way, other_way = loss(make(), z), loss(make(), z[:, ::-1].copy())
    assert abs(one_way - other_way) > 1e-2
    both = loss(make(symmetric=True), z)
    assert both == pytest.approx((one_way + other_way) / 2, rel=1e-5)


def test_permuting_the_batch_changes_nothing_and_mixing_pairs_does():
    z, order = embeddings(), np.random.default_rng(1).permutation(6)
    z[:, 1] = z[:, 0] + 0.1 * z[:, 1]
    model = make("gaussian")
    assert loss(model, z[order]) == pytest.approx(loss(model, z), rel=1e-5)
    assert loss(model, np.stack([z[:, 0], z[order, 1]], axis=1)) > loss(model, z) + 0.5


# ---------------------------------------------------------------- pairs, bound, precision, training


def test_pairs_come_from_time_as_well_as_from_views():
    """Ready-made pairs: frame and next frame, (B, 2, H, W, C), trained by fit without any views layer."""
    frames = images(13).astype("float32") / 255
    pairs = np.stack([frames[:-1], frames[1:]], axis=1)
    model = InfoNCE(plain_encoder(), critic=GaussianCritic(0.5))
    z = to_numpy(model(pairs)["z"])
    assert z.shape == (12, 2, 4)
    np.testing.assert_allclose(z[3, 1], to_numpy(model.encode(frames[4:5]))[0], atol=1e-5)
    model.compile(keras.optimizers.SGD(0.1))
    before = float(to_numpy(model.critic.log_length_scale))
    history = model.fit(pairs, batch_size=12, epochs=20, verbose=0).history["loss"]
    assert history[-1] < history[0] - 0.1
    assert float(to_numpy(model.critic.log_length_scale)) != before


@pytest.mark.parametrize("critic", ["bilinear", "gaussian"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_embeddings_give_a_float32_loss(critic, dtype):
    """Squares of 300 are beyond float16."""
    model = make(critic)
    z = ops.cast(300 * embeddings(), dtype)
    value = model.compute_loss(x=images(6), y_pred={"z": z}, training=False)
    assert keras.backend.standardize_dtype(value.dtype) == "float32"
    assert float(to_numpy(value)) == pytest.approx(loss(model, to_numpy(ops.cast(z, "float32"))), rel=1e-4)


@pytest.mark.parametrize("critic", ["bilinear", "gaussian"])
def test_zero_embeddings_and_a_batch_of_one(critic):
    model = make(critic)
    assert loss(model, np.zeros((5, 2, 4))) == pytest.approx(np.log(5), abs=1e-6)
    assert sum(terms(model, embeddings(1), training=False).values()) == pytest.approx(0, abs=1e-6)
    model.compile("sgd")
    with pytest.raises(InvalidInputError, match=r"at least 2 in every batch.*Received: a batch of 1 image"):
        model.train_on_batch(images(1))


def test_a_critic_of_ones_own_is_built_trained_and_saved(tmp_path):
    @keras.saving.register_keras_serializable("sslzoo_tests")
    class Separable(keras.layers.Layer):
        """Two towers and an inner product; built when it first sees embeddings."""

        def build(self, z_shape, z_prime_shape):
            self.towers = [self.add_weight((shape[-1], 3)) for shape in (z_shape, z_prime_shape)]

        def call(self, z, z_prime):
            return ops.matmul(ops.matmul(z, self.towers[0]), ops.transpose(ops.matmul(z_prime, self.towers[1])))

    model = make(Separable(), projector=head())
    assert [tuple(w.shape) for w in model.critic.weights] == [(6, 3), (6, 3)]
    model.compile("sgd")
    model.fit(images(24), batch_size=12, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for ours, theirs in zip(loaded.weights, model.weights):
        np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))


def test_the_projector_decides_the_size_of_the_critic():
    assert make().critic.kernel.shape == (4, 4)
    assert make(projector=head()).critic.kernel.shape == (6, 6)


# ---------------------------------------------------------------- wrong ways


class FirstEmbedding(keras.layers.Layer):
    """Takes two batches, but scores no pairs."""

    def call(self, z, z_prime):
        return z


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: make("gausian"), UnknownNameError, "Did you mean 'gaussian'"),
        (lambda: make(7), InvalidInputError, "critic must be a name or a Keras layer. Received: critic=7"),
        (lambda: make(FirstEmbedding()), InvalidInputError, r"score for each pair.*gives \(3, 4\) for B=3"),
        (lambda: InfoNCE(plain_encoder(), views=Flips(3)), InvalidInputError, "exactly 2 views.*num_views=3"),
        (lambda: InfoNCE(plain_encoder())(images(4)), InvalidInputError, "made without `views`"),
    ],
)
def test_wrong_arguments_are_refused_at_once(build, error, message):
    with pytest.raises(error, match=message):
        build()
