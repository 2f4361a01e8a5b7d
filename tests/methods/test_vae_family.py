"""VAE, BetaVAE, CRVAE and SimVAE: what their objectives must do beyond the shared battery."""

import keras
import numpy as np
import pytest
from contract import Flips, image_decoder, images, posterior_encoder
from keras import ops

from sslzoo import augment
from sslzoo.errors import InvalidInputError, UnknownNameError
from sslzoo.methods import CRVAE, VAE, BetaVAE, SimVAE
from sslzoo.views import Views


def to_numpy(tensor):
    return ops.convert_to_numpy(tensor)


def make(method, num_views=2, **arguments):
    return method(posterior_encoder(), image_decoder(), Flips(num_views), **arguments)


def outputs(n=4, views=3, size=4, log_var=0.0, seed=0):
    """What `call` returns, as arrays made for the purpose."""
    rng = np.random.default_rng(seed)
    shape = (n, views, 8, 8, 1)
    made = {
        "views": rng.uniform(size=shape),
        "logits": rng.normal(size=shape),
        "mean": rng.normal(size=(n, views, size)),
        "log_var": np.full((n, views, size), log_var),
        "z": rng.normal(size=(n, views, size)),
    }
    return {name: ops.convert_to_tensor(array, dtype="float32") for name, array in made.items()}


def terms(model, given):
    return {name: float(to_numpy(value)) for name, value in model.objective(None, given, True).items()}


def squared_error(given):
    x, logits = (to_numpy(given[name]).astype("float64") for name in ("views", "logits"))
    return ((x - 1 / (1 + np.exp(-logits))) ** 2).sum((2, 3, 4))


@pytest.mark.parametrize("method", [VAE, BetaVAE, SimVAE, CRVAE])
def test_views_that_a_sigmoid_cannot_rebuild_are_told_of(method, recwarn):
    networks = posterior_encoder(), image_decoder()
    for likelihood in ("gaussian", "bernoulli"):
        for views in (Views("simvae-digits", 2), Views("simvae-digits", 2, value_range=(0, 1)), Flips(2), None):
            method(*networks, views, likelihood=likelihood)
    assert not [warning for warning in recwarn if "views must lie" in str(warning.message)]
    with pytest.raises(InvalidInputError, match=r"views must lie in \[0, 1\].*Received: .* in \[-1, 1\]"):
        method(*networks, Views("gedi-mnist", 2), likelihood="bernoulli")
    with pytest.warns(UserWarning, match=r"views must lie in \[0, 1\].*likelihood='gaussian'"):
        method(*networks, Views("ebclr-mnist", 2))


# ---------------------------------------------------------------- the sums, over pixels and views, the mean over images


def test_vae_terms_are_summed_over_views_and_averaged_over_images():
    given = outputs(log_var=0.3)
    mean, v = to_numpy(given["mean"]).astype("float64"), np.exp(0.3)
    found = terms(make(VAE), given)
    assert found["reconstruction"] == pytest.approx(squared_error(given).sum(1).mean() / 2, rel=1e-5)
    assert found["prior"] == pytest.approx(0.5 * (mean**2 + v - np.log(v) - 1).sum((1, 2)).mean(), rel=1e-5)


def test_simvae_terms_are_those_of_the_text():
    given = outputs(log_var=-1.0)
    z = to_numpy(given["z"]).astype("float64")
    found = terms(make(SimVAE), given)
    assert found["reconstruction"] == pytest.approx(squared_error(given).sum(1).mean() / 0.02, rel=1e-5)
    assert found["entropy"] == pytest.approx(-3 * 4 * 0.5 * (np.log(2 * np.pi * np.e) - 1), rel=1e-5)
    spread = ((z - z.mean(1, keepdims=True)) ** 2).sum((1, 2)).mean()
    assert found["prior"] == pytest.approx(spread / 0.3, rel=1e-5)
    doubled = terms(make(SimVAE, entropy_weight=2.0), given)
    assert doubled["entropy"] == pytest.approx(2 * found["entropy"], rel=1e-6)


def test_released_bernoulli_likelihood_is_cross_entropy_over_the_variance():
    given = outputs()
    x, logits = (to_numpy(given[name]).astype("float64") for name in ("views", "logits"))
    p = 1 / (1 + np.exp(-logits))
    expected = -(x * np.log(p) + (1 - x) * np.log(1 - p)).sum((1, 2, 3, 4)).mean() / 0.01005
    model = make(SimVAE, likelihood="bernoulli", likelihood_variance=0.01005)
    assert terms(model, given)["reconstruction"] == pytest.approx(expected, rel=1e-5)


def test_beta_weighs_the_prior_alone():
    given = outputs()
    one, three = (terms(make(BetaVAE, beta=beta), given) for beta in (1.0, 3.0))
    assert three["prior"] == pytest.approx(3 * one["prior"], rel=1e-6)
    assert three["reconstruction"] == one["reconstruction"]


def test_cr_vae_measures_the_second_posterior_against_the_first():
    given = outputs(n=1, views=2, size=1)
    narrow, wide = (1.0, 0.0), (0.0, np.log(4.0))  # KL(N(1,1) || N(0,4)) = 0.443147, reversed 1.306853
    for (first, second), expected in [((wide, narrow), 0.443147), ((narrow, wide), 1.306853)]:
        given["mean"] = ops.convert_to_tensor([[[first[0]], [second[0]]]], dtype="float32")
        given["log_var"] = ops.convert_to_tensor([[[first[1]], [second[1]]]], dtype="float32")
        assert terms(make(CRVAE), given)["consistency"] == pytest.approx(0.1 * expected, abs=1e-6)


# ---------------------------------------------------------------- what goes wrong silently


def test_entropy_pushes_against_a_shrinking_posterior():
    """d loss / d log_var is about -1/2 per element at log_var = -10; the papers' Algorithm 1 has the sign wrong."""
    model = make(SimVAE)

    def loss_at(log_var):
        given = outputs(log_var=log_var)
        given["z"] = given["mean"] + np.exp(0.5 * log_var) * given["z"]
        found = terms(model, given)
        return found["entropy"] + found["prior"]

    elements_per_image = 3 * 4
    slope = (loss_at(-9.5) - loss_at(-10.5)) / elements_per_image
    assert slope == pytest.approx(-0.5, abs=0.01)


def test_views_of_one_image_are_grouped_with_each_other():
    """Permuting images before the grouping must raise the prior: a reshape of views x images would not notice."""
    model = make(SimVAE, num_views=4)
    flipped = to_numpy(model.make_views(images(12), training=True))
    blurred = flipped.mean((2, 3), keepdims=True).repeat(8, 2).repeat(8, 3)  # views of one image become equal
    mixed = blurred.reshape(48, 8, 8, 1)[np.random.default_rng(0).permutation(48)].reshape(12, 4, 8, 8, 1)
    given = [model(views, training=False) for views in (blurred, mixed)]
    for one in given:
        one["z"] = one["mean"]
    grouped, shuffled = (terms(model, one)["prior"] for one in given)
    assert grouped < 1e-6
    assert shuffled > 1e-2


def test_views_and_latents_stay_aligned_through_call():
    model = make(SimVAE, num_views=3)
    out = model(images(5), training=False)
    for j in range(3):
        mean, _ = model._posterior(out["views"][:, j], training=False)
        np.testing.assert_allclose(to_numpy(out["mean"])[:, j], to_numpy(mean), atol=1e-6)


def test_posterior_samples_have_the_posteriors_moments():
    model = make(VAE, num_views=1)
    out = model(np.repeat(images(1), 4000, axis=0), training=False)
    z, mean, log_var = (to_numpy(out[name])[:, 0] for name in ("z", "mean", "log_var"))
    np.testing.assert_allclose(z.mean(0), mean[0], atol=0.1)
    np.testing.assert_allclose(z.var(0), np.exp(log_var[0]), rtol=0.15)


def test_log_variance_is_kept_where_exp_is_finite():
    encoder = posterior_encoder()
    encoder.get_layer("log_var").bias.assign(np.full(4, 1e6))
    model = VAE(encoder, image_decoder(), Flips(2))
    model.compile(optimizer="adam")
    assert np.isfinite(model.train_on_batch(images(8))).all()


# ---------------------------------------------------------------- what a user does with a trained model


def test_encode_decode_reconstruct():
    model = make(VAE)
    mean, log_var = model.posterior(images(6))
    assert mean.shape == log_var.shape == (6, 4)
    np.testing.assert_array_equal(to_numpy(model.encode(images(6))), to_numpy(mean))
    rebuilt = to_numpy(model.reconstruct(images(6)))
    assert rebuilt.shape == (6, 8, 8, 1) and rebuilt.min() >= 0 and rebuilt.max() <= 1
    np.testing.assert_allclose(rebuilt, to_numpy(model.decode(to_numpy(mean))), atol=1e-6)


def test_sampling_follows_the_prior():
    latents = []
    for model in (make(VAE), make(SimVAE, center_variance=2.0)):
        model.decode = lambda z: latents.append(to_numpy(z)) or z
        model.sample(20_000, seed=1)
    assert latents[0].std() == pytest.approx(1.0, rel=0.02)
    assert latents[1].std() == pytest.approx((2.0 + 0.15) ** 0.5, rel=0.02)


def test_simvae_samples_around_given_images_in_turn():
    model = make(SimVAE)
    centers = to_numpy(model.encode(images(2)))
    model.decode = lambda z: z
    z = to_numpy(model.sample(8000, like=images(2), seed=1))
    np.testing.assert_allclose(z[0::2].mean(0), centers[0], atol=0.03)
    np.testing.assert_allclose(z[1::2].mean(0), centers[1], atol=0.03)
    assert (z - np.tile(centers, (4000, 1))).std() == pytest.approx(0.15**0.5, rel=0.03)


def test_a_seed_makes_samples_repeatable():
    model = make(SimVAE, center_variance=1.0)
    first, again, other = (to_numpy(model.sample(3, seed=seed)) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0


# ---------------------------------------------------------------- wrong ways


def test_uniform_centers_cannot_be_drawn():
    with pytest.raises(InvalidInputError, match="like=images"):
        make(SimVAE).sample(3)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: make(SimVAE, num_views=1), "SimVAE needs at least 2 views.*Received: num_views=1"),
        (lambda: make(CRVAE, num_views=3), "CRVAE needs exactly 2 views.*Received: num_views=3"),
        (lambda: make(SimVAE)(np.zeros((4, 1, 8, 8, 1))), "at least 2 views.*Received: num_views=1"),
        (lambda: make(SimVAE, prior_variance=0.0), "prior_variance must be a number > 0.*Received: prior_variance=0"),
        (lambda: make(BetaVAE, beta=-1), "Received: beta=-1"),
        (lambda: VAE(image_decoder(), image_decoder()), "two outputs"),
        (lambda: VAE(posterior_encoder(), posterior_encoder()), "decoder must map latents of size 4"),
        (
            lambda: VAE(keras.Sequential([keras.layers.Dense(2)]), image_decoder()),
            "a built Functional or Sequential model. ",
        ),
        (lambda: VAE(posterior_encoder(), image_decoder())(images(4)), "made without `views`"),
    ],
)
def test_wrong_arguments_are_refused_at_once(build, message):
    with pytest.raises(InvalidInputError, match=message):
        build()


def test_unknown_likelihood_names_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'gaussian'"):
        make(VAE, likelihood="gausian")


def test_samples_are_so_many_and_around_images():
    for method in (VAE, SimVAE):
        with pytest.raises(InvalidInputError, match="n must be an integer >= 1"):
            make(method).sample(2.5)
    with pytest.raises(InvalidInputError, match="like must be one image at least"):
        make(SimVAE).sample(2, like=images(4)[:0])


@pytest.mark.parametrize("beyond", [9.0, -13.0])
def test_a_log_variance_beyond_the_range_comes_back(beyond):
    """Its value is clipped; a clipped gradient would leave it there for ever."""
    model = make(VAE)
    (layer,) = [layer for layer in model.encoder.layers if layer.name == "log_var"]
    layer.kernel.assign(ops.zeros(layer.kernel.shape))
    layer.bias.assign(ops.full(layer.bias.shape, beyond))
    model.compile(optimizer=keras.optimizers.SGD(1e-4, clipnorm=1.0))
    model.fit(images(), epochs=3, batch_size=4, verbose=0)
    assert (np.abs(to_numpy(layer.bias)) < abs(beyond)).all()


def test_views_with_noise_have_no_bernoulli_likelihood():
    views = Views([keras.layers.Identity(), augment.GaussianNoise(0.1)], 2)
    with pytest.raises(InvalidInputError, match="neither normalizes nor adds noise"):
        VAE(posterior_encoder(), image_decoder(), views, likelihood="bernoulli")
    with pytest.warns(UserWarning, match="neither normalizes nor adds noise"):
        VAE(posterior_encoder(), image_decoder(), views)
