"""LARS, and SGD and Adam with an L2 penalty, held against the published rules in float64; and the schedules."""

import json
import zipfile

import keras
import numpy as np
import pytest
from keras import ops

from sslzoo import networks, optimizers
from sslzoo.errors import InvalidInputError, UnknownNameError
from sslzoo.optimizers import L2SGD, LARS, L2Adam, Muon, warmup_cosine

SHAPES = {"kernel": (5, 3), "bias": (3,), "temperature": ()}
STEPS = 6


def start():
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=shape) for name, shape in SHAPES.items()}


def gradients():
    """One gradient per step and variable, of very different lengths."""
    rng = np.random.default_rng(1)
    return [
        {name: rng.normal(size=shape) * 10.0 ** (step - 3) for name, shape in SHAPES.items()} for step in range(STEPS)
    ]


def run(optimizer, weights, steps, dtype="float32"):
    """The weights after each step, by the optimizer under test."""
    variables = [keras.Variable(value, dtype=dtype, name=name) for name, value in weights.items()]
    optimizer.build(variables)
    path = []
    for step in steps:
        optimizer.apply([ops.convert_to_tensor(step[v.name], dtype="float32") for v in variables], variables)
        path.append({v.name: ops.convert_to_numpy(ops.cast(v, "float32")) for v in variables})
    return path


def recursion(weights, steps, rates, momentum, weight_decay=0.0, ratio=None, exclude=False, nesterov=False):
    """The weights after each step, in float64: `ratio(w, g, rate)` of You et al., or None for plain SGD."""
    w = {name: np.array(value, "float64") for name, value in weights.items()}
    v = {name: np.zeros_like(value) for name, value in w.items()}
    path = []
    for step, rate in zip(steps, rates):
        for name, g in step.items():
            if exclude and w[name].ndim < 2:
                update = rate * g
            else:
                update = rate * (g + weight_decay * w[name]) * (1.0 if ratio is None else ratio(w[name], g, rate))
            v[name] = momentum * v[name] + update
            w[name] = w[name] - (momentum * v[name] + update if nesterov else v[name])
        path.append({name: value.copy() for name, value in w.items()})
    return path


def published_ratio(trust_coefficient, weight_decay, clip=False):
    def ratio(w, g, rate):
        w_norm, g_norm = np.sqrt((w**2).sum()), np.sqrt((g**2).sum())
        if w_norm == 0 or g_norm == 0:
            return 1.0
        found = trust_coefficient * w_norm / (g_norm + weight_decay * w_norm)
        return min(found / rate, 1.0) if clip else found

    return ratio


def same_path(ours, theirs, rtol=2e-5):
    for step, (found, expected) in enumerate(zip(ours, theirs, strict=True)):
        for name in expected:
            np.testing.assert_allclose(found[name], expected[name], rtol, atol=1e-6, err_msg=f"{name}, step {step}")


def pytorchs_path(optimizer, **settings):
    """Weights after each step of an optimizer of `torch.optim`."""
    import torch

    weights = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in start().items()}
    optimizer = getattr(torch.optim, optimizer)(weights.values(), **settings)
    path = []
    for step in gradients():
        for name, value in step.items():
            weights[name].grad = torch.tensor(np.asarray(value))
        optimizer.step()
        path.append({name: w.detach().numpy().copy() for name, w in weights.items()})
    return path


# ---------------------------------------------------------------- the update rules


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_l2_sgd_follows_the_recursion(weight_decay, exclude, momentum, nesterov):
    optimizer = L2SGD(0.3, momentum, weight_decay, exclude_bias_and_norm=exclude, nesterov=nesterov)
    expected = recursion(start(), gradients(), [0.3] * STEPS, momentum, weight_decay, None, exclude, nesterov)
    same_path(run(optimizer, start(), gradients()), expected)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch's own SGD is the reference")
def test_l2_sgd_is_pytorchs_sgd_at_a_constant_rate():
    path = pytorchs_path("SGD", lr=0.3, momentum=0.9, weight_decay=0.1)
    same_path(run(L2SGD(0.3, 0.9, 0.1), start(), gradients()), path)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_l2_adam_follows_the_recursion(weight_decay):
    w = {name: np.array(value, "float64") for name, value in start().items()}
    m, v = ({name: np.zeros_like(value) for name, value in w.items()} for _ in range(2))
    path = []
    for step, gradient in enumerate(gradients(), 1):
        for name, g in gradient.items():
            g = g + weight_decay * w[name]
            m[name] = 0.9 * m[name] + 0.1 * g
            v[name] = 0.999 * v[name] + 0.001 * g**2
            w[name] = w[name] - 0.3 * (m[name] / (1 - 0.9**step)) / np.sqrt(v[name] / (1 - 0.999**step))
        path.append({name: value.copy() for name, value in w.items()})
    # Keras has 1 - 0.999^t in float32, of which a few digits are left.
    same_path(run(L2Adam(0.3, weight_decay, epsilon=0.0), start(), gradients()), path, rtol=2e-3)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch's own Adam is the reference")
def test_l2_adam_is_pytorchs_adam():
    path = pytorchs_path("Adam", lr=0.3, weight_decay=0.1, eps=0.0)
    same_path(run(L2Adam(0.3, 0.1, epsilon=0.0), start(), gradients()), path, rtol=2e-3)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("weight_decay", [0.0, 0.02])
def test_lars_follows_the_published_recursion(weight_decay, clip, exclude, nesterov):
    rate, eta = 0.3, 0.02  # with gradients of 1e-3 .. 100 the clip holds in some steps, and not in others
    ratio = published_ratio(eta, weight_decay, clip)
    found = [ratio(start()["kernel"], step["kernel"], rate) for step in gradients()]
    assert not clip or min(found) < 1.0 == max(found)
    optimizer = LARS(rate, 0.9, weight_decay, eta, clip, exclude, epsilon=0.0, nesterov=nesterov)
    expected = recursion(start(), gradients(), [rate] * STEPS, 0.9, weight_decay, ratio, exclude, nesterov)
    same_path(run(optimizer, start(), gradients()), expected)


@pytest.mark.parametrize("clip", [False, True])
def test_lars_follows_a_schedule_from_its_rate_of_zero_on(clip):
    peak, warmup = 0.5, 2
    rates = [0.0, 0.25, *(peak * 0.5 * (1 + np.cos(np.pi * t / 4)) for t in range(4))]
    schedule = warmup_cosine(peak, STEPS, warmup)
    optimizer = LARS(schedule, 0.9, 0.1, 0.02, clip, epsilon=0.0)

    def ratio(w, g, rate):
        return published_ratio(0.02, 0.1, clip)(w, g, rate) if rate else 1.0

    same_path(run(optimizer, start(), gradients()), recursion(start(), gradients(), rates, 0.9, 0.1, ratio, True))


def test_lars_moves_by_a_share_of_the_weights_whatever_the_gradients_length():
    w = start()["kernel"]
    for length in (1e-12, 1.0, 1e12):
        g = length * gradients()[3]["kernel"]
        (after,) = run(LARS(0.5, trust_coefficient=0.02, epsilon=0.0), {"kernel": w}, [{"kernel": g}])
        moved = np.linalg.norm(after["kernel"] - w) / np.linalg.norm(w)
        assert moved == pytest.approx(0.5 * 0.02, rel=1e-4)


def test_epsilon_calms_vanishing_gradients():
    w, g = start()["kernel"], 1e-9 * gradients()[3]["kernel"]
    (after,) = run(LARS(0.5, trust_coefficient=0.02, epsilon=1e-8), {"kernel": w}, [{"kernel": g}])
    g_norm = np.linalg.norm(g)
    moved = np.linalg.norm(after["kernel"] - w) / np.linalg.norm(w)
    assert moved == pytest.approx(0.5 * 0.02 * g_norm / (g_norm + 1e-8), rel=1e-3)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(("w_scale", "g_scale"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_zero_weights_or_gradients_make_a_plain_step(w_scale, g_scale, clip):
    """New layers that start at zero must be able to leave it, and a dead gradient must not divide by zero."""
    w, g = w_scale * start()["kernel"], g_scale * gradients()[3]["kernel"]
    (after,) = run(LARS(0.3, 0.9, 0.1, clip=clip, epsilon=0.0), {"kernel": w}, [{"kernel": g}])
    np.testing.assert_allclose(after["kernel"], w - 0.3 * (g + 0.1 * w), rtol=1e-5, atol=1e-7)


def test_keras_own_exclusion_from_weight_decay_is_heard():
    optimizer = L2SGD(0.3, 0.0, 0.1)
    optimizer.exclude_from_weight_decay(var_names=["kernel"])
    nothing = {name: np.zeros(shape) for name, shape in SHAPES.items()}
    (after,) = run(optimizer, start(), [nothing])
    np.testing.assert_allclose(after["kernel"], start()["kernel"], rtol=1e-6)
    np.testing.assert_allclose(after["bias"], (1 - 0.3 * 0.1) * start()["bias"], rtol=1e-6)


# ---------------------------------------------------------------- precision


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_norms_are_taken_in_float32(dtype):
    """300^2 is beyond float16, and 2^-15 squared below it: norms taken there would be infinite, or zero."""
    for length in (300.0, 2.0**-15):
        w = {"kernel": np.full((16, 16), length)}
        (after,) = run(LARS(0.5, trust_coefficient=0.5), w, [{"kernel": np.full((16, 16), length)}], dtype)
        np.testing.assert_allclose(after["kernel"], 0.75 * length, rtol=0.01)


def small_model():
    keras.utils.set_random_seed(0)
    layers = [keras.Input((6,)), keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dense(2)]
    return keras.Sequential(layers)


def fit(model, epochs):
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(32, 6)), rng.normal(size=(32, 2))
    model.fit(x, y, batch_size=8, epochs=epochs, shuffle=False, verbose=0)


@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_trains_under_mixed_precision(precision):
    keras.config.set_dtype_policy(precision)
    try:
        model = small_model()
        model.compile(optimizer=LARS(0.5, weight_decay=1e-4, trust_coefficient=0.02, clip=True), loss="mse")
        before = [w.copy() for w in model.get_weights()]
        fit(model, 1)
    finally:
        keras.config.set_dtype_policy("float32")
    for old, new in zip(before, model.get_weights()):
        assert np.isfinite(new).all() and np.abs(new - old).max() > 0


# ---------------------------------------------------------------- files


def lars():
    return LARS(
        warmup_cosine(0.5, 16, 4), 0.8, 1e-3, 0.02, True, exclude_bias_and_norm=False, epsilon=0.0, nesterov=True
    )


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path):
    whole, half = small_model(), small_model()
    for model in (whole, half):
        model.compile(optimizer=lars(), loss="mse")
    fit(whole, 4)
    fit(half, 2)
    half.save(tmp_path / "half.keras")
    resumed = keras.saving.load_model(tmp_path / "half.keras")
    fit(resumed, 2)
    for ours, theirs in zip(resumed.get_weights(), whole.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)
    for ours, theirs in zip(resumed.optimizer.variables, whole.optimizer.variables):
        np.testing.assert_allclose(ops.convert_to_numpy(ours), ops.convert_to_numpy(theirs), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "make",
    [
        lars,
        lambda: L2SGD(0.1, 0.8, 1e-3, exclude_bias_and_norm=True, nesterov=True),
        lambda: L2Adam(0.1, 1e-3, beta_1=0.8, epsilon=1e-5),
    ],
)
def test_every_argument_is_saved(make):
    optimizer = make()
    again = keras.optimizers.deserialize(json.loads(json.dumps(keras.optimizers.serialize(optimizer))))
    assert type(again) is type(optimizer) and again.get_config() == optimizer.get_config()
    same_path(run(again, start(), gradients()), run(make(), start(), gradients()), rtol=1e-6)


def test_files_name_no_backend(tmp_path):
    """Keras' own optimizers are saved under PyTorch as PyTorch classes, which the other backends cannot train with."""
    model = small_model()
    model.compile(optimizer=LARS(0.1), loss="mse")
    model.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        saved = json.loads(archive.read("config.json"))["compile_config"]["optimizer"]
    assert saved["registered_name"] == "sslzoo>LARS" and saved["module"] == optimizers.__name__
    assert saved["config"]["trust_coefficient"] == 0.001


# ---------------------------------------------------------------- schedules


@pytest.mark.parametrize(("warmup", "final"), [(0, 0.2), (10, 0.0), (99, 0.2)])
def test_warmup_cosine_follows_its_formula(warmup, final):
    schedule = warmup_cosine(0.8, 100, warmup, final)
    steps = np.array([0, warmup, 100, 130, warmup // 2, 60])
    fallen = np.clip((steps - warmup) / (100 - warmup), 0.0, 1.0)
    expected = final + (0.8 - final) * 0.5 * (1 + np.cos(np.pi * fallen))
    if warmup:
        expected = np.where(steps < warmup, 0.8 * steps / warmup, expected)
    found = [float(schedule(int(step))) for step in steps]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[:4], [0.0 if warmup else 0.8, 0.8, final, final], atol=1e-6)


# ---------------------------------------------------------------- wrong ways


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: L2SGD(0.1, weight_decay=-1e-4), "weight_decay must be a number >= 0. Received: weight_decay=-0.0001"),
        (lambda: L2SGD(0.1, weight_decay=None), "weight_decay must be a number >= 0. Received: weight_decay=None"),
        (lambda: L2Adam(0.1, weight_decay=-1e-4), "weight_decay must be a number >= 0. Received: weight_decay=-0.0001"),
        (lambda: LARS(0.1, trust_coefficient=0.0), "trust_coefficient must be a number > 0"),
        (lambda: LARS(0.1, epsilon=float("nan")), "epsilon must be a number >= 0. Received: epsilon=nan"),
        (lambda: LARS(0.1, momentum=1.5), "momentum"),
        (lambda: warmup_cosine(0.0, 10), "peak must be a number > 0"),
        (lambda: warmup_cosine(0.1, 0), "total_steps must be a number > 0"),
        (lambda: warmup_cosine(0.1, 10, 10), "less than total_steps=10. Received: warmup_steps=10"),
        (lambda: warmup_cosine(0.1, 10, 2, 0.2), "between 0 and peak=0.1. Received: final=0.2"),
    ],
)
def test_bad_input_is_refused(build, message):
    with pytest.raises(ValueError, match=message) as error:
        build()
    assert isinstance(error.value, InvalidInputError) or message == "momentum"


# ---------------------------------------------------------------- Muon

KERNELS = {
    "conv/kernel": (3, 3, 4, 5),
    "fc/kernel": (6, 4),
    "wide/kernel": (3, 8),
    "bias": (5,),
    "projection/kernel": (6, 4),
}


def muon_recursion(weights, steps, rate, momentum=0.95, weight_decay=0.0):
    """The weights after each step in float64: Newton-Schulz on matrices and kernels, Adam on the bias and the head."""
    w = {name: np.array(value, "float64") for name, value in weights.items()}
    m = {name: np.zeros_like(value) for name, value in w.items()}
    v = {name: np.zeros_like(value) for name, value in w.items()}
    path = []
    for count, step in enumerate(steps, 1):
        for name, g in step.items():
            w[name] = w[name] - rate * weight_decay * w[name]
            if name in ("bias", "projection/kernel"):
                m[name] = 0.9 * m[name] + 0.1 * g
                v[name] = 0.999 * v[name] + 0.001 * g * g
                alpha = rate * np.sqrt(1 - 0.999**count) / (1 - 0.9**count)
                w[name] = w[name] - alpha * m[name] / (np.sqrt(v[name]) + 1e-7)
                continue
            m[name] = momentum * m[name] + g
            u = (g + momentum * m[name]).reshape(-1, g.shape[-1])
            left, singular, right = np.linalg.svd(u, full_matrices=False)
            singular = singular / (np.linalg.norm(u) + 1e-7)
            for _ in range(5):  # the polynomial acts on singular values alone
                singular = 3.4445 * singular - 4.7750 * singular**3 + 2.0315 * singular**5
            step_size = rate * 0.2 * np.sqrt(max(u.shape))
            w[name] = w[name] - step_size * (left * singular @ right).reshape(g.shape)
        path.append({name: value.copy() for name, value in w.items()})
    return path


class Named(keras.Variable):
    """A variable whose path is its name, as that of a layer's kernel has the layer's name."""

    @property
    def path(self):
        return self.name.replace("|", "/")


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_muon_is_its_rule_in_float64(weight_decay):
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=shape) for name, shape in KERNELS.items()}
    steps = [{name: rng.normal(size=shape) for name, shape in KERNELS.items()} for _ in range(4)]
    variables = [Named(value, name=name.replace("/", "|")) for name, value in weights.items()]
    optimizer = Muon(0.02, weight_decay=weight_decay)
    optimizer.build(variables)
    for step, expected in zip(steps, muon_recursion(weights, steps, 0.02, weight_decay=weight_decay)):
        gradients = [ops.convert_to_tensor(step[v.path], dtype="float32") for v in variables]
        optimizer.apply(gradients, variables)
        for v in variables:
            np.testing.assert_allclose(ops.convert_to_numpy(v), expected[v.path], atol=2e-5)


def test_muon_in_bfloat16_leaves_singular_values_near_one():
    x = np.random.default_rng(0).normal(size=(3, 3, 8, 12)).astype("float32")
    for dtype, slack in (("float32", 0.0), ("bfloat16", 0.05)):
        y = Muon(iteration_dtype=dtype).zeropower_via_newtonschulz5(ops.convert_to_tensor(x), 5)
        singular = np.linalg.svd(ops.convert_to_numpy(y).reshape(-1, 12), compute_uv=False)
        assert singular.min() > 0.65 - slack and singular.max() < 1.25 + slack
        assert keras.backend.standardize_dtype(y.dtype) == "float32"


def test_muon_survives_a_config_and_a_gradient_of_zero():
    optimizer = Muon(0.01, weight_decay=0.1, exclude_layers=["head"], iteration_dtype="bfloat16", momentum=0.9)
    again = Muon.from_config(json.loads(json.dumps(optimizer.get_config())))
    assert again.get_config() == optimizer.get_config()
    zero = ops.zeros((3, 3, 2, 4))
    assert not ops.convert_to_numpy(optimizer.zeropower_via_newtonschulz5(zero, 5)).any()
    with pytest.raises(InvalidInputError, match="weight_decay"):
        Muon(weight_decay=-1.0)


def test_muon_moves_what_it_should_in_a_network():
    network = networks.encoder("convnet", (16, 16, 3), 4, seed=0)
    optimizer = Muon()
    by_muon = [v.path for v in network.trainable_variables if not optimizer._should_use_adamw(v)]
    assert by_muon == ["conv1/kernel", "conv2/kernel", "conv3/kernel", "conv4/kernel"]


def test_transformers_biases_of_two_dimensions_are_biases():
    network = networks.encoder("vit-tiny", (16, 16, 3), None, seed=0, depth=1)
    names = {v.path: v for v in network.trainable_variables}
    by_muon = sorted(path for path, v in names.items() if not Muon()._should_use_adamw(v))
    assert by_muon and all("block" in path and path.endswith("kernel") for path in by_muon)
    query = names["block1_attention/query/bias"]
    assert len(query.shape) == 2 and LARS(0.1).is_excluded(query)
    query.assign(ops.ones(query.shape))
    optimizer = LARS(0.1, momentum=0.0, weight_decay=0.5)
    optimizer.apply([ops.ones(query.shape)], [query])
    np.testing.assert_allclose(ops.convert_to_numpy(query), 0.9, rtol=1e-6)  # the gradient alone, at the whole rate
    table = keras.layers.Embedding(5, 3, name="my_embedding")
    table.build()
    assert Muon()._should_use_adamw(table.embeddings)
    assert not Muon(exclude_embeddings=False)._should_use_adamw(table.embeddings)


@pytest.mark.parametrize("wrong", [{"exclude_layers": "head"}, {"exclude_layers": ["("]}, {"iteration_dtype": "foo"}])
def test_muon_refuses_what_excludes_everything_or_nothing(wrong):
    with pytest.raises((InvalidInputError, UnknownNameError), match="Received: "):
        optimizers.Muon(**wrong)
