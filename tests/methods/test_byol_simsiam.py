"""BYOL and SimSiam: whose gradients are stopped, how the teacher moves, whose statistics are used."""

import keras
import numpy as np
import oracle
import pytest
from contract import IMAGE_SHAPE, LATENT, Flips, head, images, plain_encoder
from keras import ops

from sslzoo.errors import InvalidInputError
from sslzoo.methods import BYOL, SimSiam
from sslzoo.networks import predictor, projector

METHODS = [BYOL, SimSiam]


def to_numpy(tensor):
    return ops.convert_to_numpy(tensor)


def make(method, **arguments):
    return method(plain_encoder(), head(), predictor(6, 4, seed=4), Flips(2), **arguments)


def embeddings(n=5, size=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 2, size)).astype("float32")


def loss_of(model, prediction, target):
    outputs = {"prediction": ops.convert_to_tensor(prediction), "target": ops.convert_to_tensor(target)}
    return model.objective(None, outputs, True)["alignment"]


def cosines(p, z):
    return (p * z).sum(-1) / np.sqrt((p**2).sum(-1) * (z**2).sum(-1))


# ---------------------------------------------------------------- the objective


def test_each_view_predicts_the_other():
    p, t = embeddings(seed=0), embeddings(seed=1)
    across = [cosines(p[:, 0], t[:, 1]).mean(), cosines(p[:, 1], t[:, 0]).mean()]
    assert float(loss_of(make(BYOL), p, t)) == pytest.approx(sum(2 - 2 * c for c in across), rel=1e-5)
    assert float(loss_of(make(SimSiam), p, t)) == pytest.approx(-sum(across) / 2, rel=1e-5)


@pytest.mark.parametrize(("method", "expected"), [(BYOL, (0.0, 4.0, 8.0)), (SimSiam, (-1.0, 0.0, 1.0))])
def test_closed_forms(method, expected):
    """Equal directions (so collapse, too), a dead head, opposite directions."""
    x = embeddings()
    swapped = x[:, [1, 0]]
    found = [float(loss_of(make(method), p, swapped)) for p in (3.0 * x, np.zeros_like(x), -x)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(("method", "scale", "shift"), [(BYOL, 4.0, 4.0), (SimSiam, 1.0, 0.0)])
def test_gradients_reach_embeddings_through_the_predictor_only(method, scale, shift):
    """The reference holds the targets still, in float64: -mean cos(h(z_1), z_2') / 2 - mean cos(h(z_2), z_1') / 2."""
    predict = projector(6, (8, 6), batch_norm=False, activation="tanh", seed=4)  # smooth, for finite differences
    model = method(plain_encoder(), head(), predict, Flips(2))
    w1, b1, w2, b2 = (w.astype("float64") for w in predict.get_weights())
    z = embeddings(n=3)

    def reference(free):
        p = np.tanh(free @ w1 + b1) @ w2 + b2
        loss = -0.5 * (cosines(p[:, 0], z[:, 1]).mean() + cosines(p[:, 1], z[:, 0]).mean())
        return scale * loss + shift

    oracle.check(lambda free: loss_of(model, model.predict_groups(free, False), free), reference, z)


@pytest.mark.parametrize("method", METHODS)
def test_targets_get_no_gradient(method):
    model, p, t = make(method), embeddings(seed=0), embeddings(seed=1)
    to_prediction, to_target = oracle.gradient(lambda p, t: loss_of(model, p, t), p, t)
    assert np.abs(to_prediction).max() > 1e-3
    np.testing.assert_array_equal(to_target, 0.0)


@pytest.mark.parametrize("method", METHODS)
def test_dead_embeddings_have_a_finite_loss_and_gradient(method):
    model, dead = make(method), np.zeros((4, 2, 6), "float32")
    (gradient,) = oracle.gradient(lambda z: loss_of(model, z, z), dead)
    np.testing.assert_array_equal(gradient, 0.0)


# ---------------------------------------------------------------- the teacher


def networks(model, teacher=False):
    """What the teacher follows, or the teacher: encoder and projector, learned variables only, as float64."""
    students = (model.encoder, model.projector)
    teachers = (model.teacher_encoder, model.teacher_projector)
    return [
        to_numpy(own).astype("float64")
        for student, network in zip(students, teachers if teacher else students)
        for weight, own in zip(student.weights, network.weights)
        if weight.trainable
    ]


@pytest.mark.parametrize("total_steps", [None, 3])
def test_teacher_follows_the_papers_recursion(total_steps):
    """teacher <- tau_k teacher + (1 - tau_k) student, after optimizer step k; here at the beginning of the next."""
    model = make(BYOL, momentum=0.6, total_steps=total_steps)
    model.compile(optimizer=keras.optimizers.SGD(0.1))
    expected, momenta = networks(model), []
    for step in range(6):
        if step:
            k = step - 1
            tau = 0.6 if total_steps is None else 1 - 0.4 * (np.cos(np.pi * min(k / total_steps, 1)) + 1) / 2
            momenta.append(tau)
            expected = [tau * old + (1 - tau) * new for old, new in zip(expected, networks(model))]
        model.train_on_batch(images(12, seed=step))
        for ours, theirs in zip(networks(model, teacher=True), expected):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
    if total_steps:
        np.testing.assert_allclose(momenta, [0.6, 0.7, 0.9, 1.0, 1.0])
    student = np.concatenate([w.ravel() for w in networks(model)])
    assert np.abs(student - np.concatenate([w.ravel() for w in expected])).max() > 1e-3  # or nothing was tested
    assert int(to_numpy(model.step)) == 6


def test_teacher_moves_in_float32_under_mixed_precision():
    """A step of one part in a thousand is lost if the teacher is ever rounded to bfloat16, which has eight bits."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = make(BYOL, momentum=0.999)
    finally:
        keras.config.set_dtype_policy("float32")
    model.compile(optimizer=keras.optimizers.SGD(0.1))
    model.train_on_batch(images(12))
    before, student = networks(model, teacher=True), networks(model)
    model.train_on_batch(images(12))
    for old, new, theirs in zip(before, networks(model, teacher=True), student):
        np.testing.assert_allclose(new - old, 0.001 * (theirs - old), rtol=0.1, atol=1e-7)
    assert model.teacher_encoder.get_layer("hidden").compute_dtype == "bfloat16"


def test_first_step_takes_over_weights_given_after_construction():
    model = make(BYOL, momentum=0.99)
    model.encoder.set_weights([w + 0.5 for w in model.encoder.get_weights()])
    model(images(6), training=True)
    for ours, theirs in zip(networks(model, teacher=True), networks(model)):
        np.testing.assert_array_equal(ours, theirs)


def test_the_first_step_copies_weights_and_statistics_loaded_into_a_frozen_encoder():
    encoder = plain_encoder()
    encoder.trainable = False
    model = BYOL(encoder, head(), predictor(6, 4, seed=4), Flips(2), momentum=0.9)
    encoder.set_weights([w + 0.5 for w in plain_encoder(seed=7).get_weights()])
    model.compile(keras.optimizers.SGD(1e-3))
    for _ in range(2):
        model.train_on_batch(images(8))
        for ours, theirs in zip(model.teacher_encoder.weights, encoder.weights):
            np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs), rtol=1e-6, err_msg=ours.path)


def test_the_optimizer_never_sees_the_teacher():
    model = make(BYOL)
    plain = make(SimSiam)
    assert [w.shape for w in model.trainable_variables] == [w.shape for w in plain.trainable_variables]
    teacher = [*model.teacher_encoder.weights, *model.teacher_projector.weights, model.step]
    assert not {id(w) for w in teacher} & {id(w) for w in model.trainable_variables}
    assert {id(w) for w in teacher} <= {id(w) for w in model.non_trainable_variables}


def test_only_training_moves_teacher_and_counter():
    model = make(BYOL)
    model.encoder.set_weights([w + 0.5 for w in model.encoder.get_weights()])
    before = [to_numpy(w) for w in model.weights]
    model(images(6), training=False)
    model.embed(Flips(2)(images(6))[:, 0])
    for old, new in zip(before, model.weights):
        np.testing.assert_array_equal(old, to_numpy(new))


@pytest.mark.slow
def test_counter_and_teacher_are_saved_and_go_on(tmp_path):
    """A saved run continues like the one that was never stopped, its momentum included."""
    whole, half = (make(BYOL, momentum=0.5, total_steps=6) for _ in range(2))
    for model in (whole, half):
        model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9))
    for step in range(3):
        whole.train_on_batch(images(12, seed=step))
        half.train_on_batch(images(12, seed=step))
    half.save(tmp_path / "half.keras")
    resumed = keras.saving.load_model(tmp_path / "half.keras")
    assert int(to_numpy(resumed.step)) == 3
    for step in range(3, 5):
        whole.train_on_batch(images(12, seed=step))
        resumed.train_on_batch(images(12, seed=step))
    for ours, theirs in zip(resumed.weights, whole.weights):
        np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs), atol=1e-6)


# ---------------------------------------------------------------- statistics


def normalizing(method):
    """Heads that end in batch normalization: statistics can be read off the embeddings."""
    return method(plain_encoder(), projector(LATENT, (8, 6), output_batch_norm=True, seed=3), predictor(6, 4))


@pytest.mark.parametrize("method", METHODS)
def test_each_view_is_normalised_by_its_own_batch_statistics(method):
    model = normalizing(method)
    dark, bright = images(12) / 512.0, images(12, seed=1) / 256.0 + 1.0  # statistics of both together would not do
    views = np.stack([dark, bright], axis=1).astype("float32")
    target = to_numpy(model(views, training=True)["target"])
    np.testing.assert_allclose(target.mean(0), 0.0, atol=1e-4)
    np.testing.assert_allclose(target.std(0), 1.0, atol=0.02)
    for view in range(2):  # of the first step, whose teacher is still the student: all its layers, not the last alone
        np.testing.assert_allclose(target[:, view], to_numpy(model.embed(views[:, view], training=True)), atol=1e-5)
    assert np.abs(to_numpy(model(views, training=False)["target"]).mean(0)).max() > 0.1


@pytest.mark.parametrize("method", METHODS)
def test_targets_are_before_the_predictor(method):
    model, views = make(method), to_numpy(Flips(2)(images(5)))
    out = model(views, training=False)
    for view in range(2):
        z = model.embed(views[:, view])
        np.testing.assert_allclose(to_numpy(out["target"])[:, view], to_numpy(z), atol=1e-5)
        expected = to_numpy(model.predictor(z, training=False))
        np.testing.assert_allclose(to_numpy(out["prediction"])[:, view], expected, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_of_one_has_a_defined_loss(method):
    """Batch normalization makes zeros of it, so nothing can be learned from it, but nothing breaks either."""
    model = normalizing(method)
    model.compile(optimizer=keras.optimizers.SGD(0.1))
    views = to_numpy(Flips(2)(images(1)))
    assert np.isfinite(model.train_on_batch(views)).all()
    assert np.isfinite(np.concatenate([to_numpy(w).ravel() for w in model.weights])).all()


@pytest.mark.parametrize("method", METHODS)
def test_head_may_be_absent(method):
    model = method(plain_encoder(), None, predictor(LATENT, 3), Flips(2))
    model.compile(optimizer=keras.optimizers.SGD(0.1))
    assert np.isfinite(model.train_on_batch(images(8))).all()
    assert set(model.parts(IMAGE_SHAPE)) == {"encoder"}
    assert set(make(method).parts(IMAGE_SHAPE)) == {"encoder", "projection"}


# ---------------------------------------------------------------- wrong ways


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda method: method(plain_encoder(), head(), predictor(5, 4)), r"\(None, 6\) to embeddings.*\(None, 5\)"),
        (
            lambda method: method(plain_encoder(), head(), projector(6, (4, 5))),
            r"embeddings.*\(None, 6\) -> \(None, 5\)",
        ),
        (lambda method: method(plain_encoder(), head(), keras.Sequential()), "predictor must be a built Functional"),
        (lambda method: method(plain_encoder(), head(), predictor(6, 4), Flips(3)), "exactly 2 views.*num_views=3"),
    ],
)
def test_parts_that_do_not_fit_are_refused(method, build, message):
    with pytest.raises(InvalidInputError, match=message):
        build(method)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"momentum": 1.1}, "momentum must be a number from 0 to 1. Received: momentum=1.1"),
        ({"total_steps": 0}, "total_steps must be an integer >= 1. Received: total_steps=0"),
        ({"total_steps": 10.0}, "total_steps must be an integer"),
    ],
)
def test_byol_refuses_arguments_outside_their_range(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        make(BYOL, **arguments)
