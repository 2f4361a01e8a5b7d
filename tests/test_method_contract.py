"""What every method promises on every backend. A method joins by one line in tests/contract.py.

Golden files hold eight steps of each method as TensorFlow computed them; a new method's is written by
`KERAS_BACKEND=tensorflow python tests/test_method_contract.py --write NAME`, with NAME a key of `CASES`. A file that is
there already is left alone: delete it first if the method was meant to change.
"""

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import contract
import keras
import numpy as np
import pytest
from keras import ops
from tiers import tiered

from sslzoo import data, methods, networks
from sslzoo.errors import choose
from sslzoo.methods import METHODS
from sslzoo.methods import inputs as fit_inputs
from sslzoo.networks import composition
from sslzoo.views import Views

GOLDEN = Path(__file__).parent / "golden"
BACKENDS = ("tensorflow", "jax", "torch")
CASES = list(contract.CASES)
# By default each method once, not every option of it.
TIERED = tiered(CASES, METHODS)
KINDS = ["simvae", "simclr-projector", "byol", "dino", "annulus", "gedi"]  # a method of each


@pytest.fixture(scope="module", params=TIERED)
def run(request):
    eight_steps = contract.EightSteps(request.param)
    eight_steps.name = request.param
    return eight_steps


def test_every_method_has_a_case():
    tested = {type(make(contract.Flips(num_views))) for num_views, make in contract.CASES.values()}
    assert set(METHODS.values()) <= tested


def test_methods_that_draw_are_known():
    def draws(num_views, make):
        return any("seed" in variable.name for variable in make(contract.Flips(num_views)).variables)

    assert {name for name, case in contract.CASES.items() if draws(*case)} == contract.DRAWING


def test_eight_steps_equal_the_golden_run_of_another_backend(run):
    same_as_golden(run.arrays, run.name)


def same_as_golden(arrays, name):
    with np.load(GOLDEN / f"{name}.npz") as golden:
        assert set(golden.files) == set(arrays)
        for key in golden.files:
            np.testing.assert_allclose(arrays[key], golden[key], rtol=1e-5, atol=1e-5, err_msg=f"{name} {key}")


def test_terms_are_finite_and_sum_to_the_loss(run):
    assert set(run.terms) == {"loss", *run.model.terms}
    assert np.isfinite(list(run.terms.values())).all()
    total = sum(np.array(run.terms[term]) for term in run.model.terms)
    np.testing.assert_allclose(total, run.terms["loss"], rtol=1e-4)


def test_training_moves_every_variable(run):
    still = [
        weight.path
        for weight, old, new in zip(run.model.weights, run.before, contract.state(run.model))
        if np.array_equal(old, new) and weight.name not in contract.STILL.get(run.name, ())
    ]
    assert not still


@pytest.mark.parametrize("name", TIERED)
def test_freezing_and_unfreezing_leaves_what_is_trained(name):
    """Keras sets `trainable` of all variables at once; teachers stay where no optimizer sees them."""
    num_views, make = contract.CASES[name]
    model = make(contract.Flips(num_views))
    groups = [[w.path for w in group] for group in (model.trainable_variables, model.non_trainable_variables)]
    weights = [[w.path for w in group] for group in (model.trainable_weights, model.non_trainable_weights)]
    model.trainable = False
    assert model.trainable_variables == model.trainable_weights == []
    model.trainable = True
    for layer in model.layers:
        layer.trainable = True
    assert groups == [[w.path for w in group] for group in (model.trainable_variables, model.non_trainable_variables)]
    assert weights == [[w.path for w in group] for group in (model.trainable_weights, model.non_trainable_weights)]


@pytest.mark.parametrize("name", tiered(["moco", "byol", "protocpc", "tico", "dino", "simdino"], {"moco", "byol"}))
def test_eight_steps_after_unfreezing_equal_those_of_a_model_never_frozen(name):
    same_as_golden(contract.EightSteps(name, thawed=True).arrays, name)


@pytest.mark.parametrize("name", TIERED)
def test_a_remainder_that_cannot_be_taken_is_refused_before_the_first_step(name):
    num_views, make = contract.CASES[name]
    model = make(contract.Flips(num_views))
    model.compile(optimizer=keras.optimizers.SGD(1e-3))
    inputs = contract.inputs(model, 13)
    images = inputs["images"] if model.indexed else inputs
    batches = data.Batches(images, None, 12, with_index=model.indexed, drop_remainder=False)
    if model.least_batch == 1 and name != "wmse":
        fit_inputs.check_batches(model, inputs, 12)
        return
    fit_inputs.check_batches(model, inputs, 12, steps=1)  # which meets no remainder
    fit_inputs.check_least(model, inputs, 12, steps=1)
    steps = keras.callbacks.LambdaCallback(on_train_batch_begin=lambda batch, logs: pytest.fail("a step was taken"))
    held_out = {"x": contract.inputs(model, 26), "batch_size": 12, "validation_split": 0.5}
    several = {"x": inputs, "batch_size": 12, "steps_per_epoch": 1, "epochs": 2}  # the second epoch goes on
    for given in (
        {"x": inputs, "batch_size": 12},
        held_out,
        {"x": batches, "shuffle": False},
        {"x": images[:1]},
        several,
    ):
        with pytest.raises(ValueError, match=r"drop 1 of|last batch of an epoch"):
            model.fit(**given, verbose=0, callbacks=[steps])


def test_evaluate_leaves_weights_alone(run):
    """`EightSteps` evaluates after its last step, so the golden weights would show a trace of it; so would these."""
    before = contract.state(run.model)
    result = run.model.evaluate(contract.inputs(run.model, 12), batch_size=12, verbose=0, return_dict=True)
    assert set(result) == {"loss", *run.model.terms} and np.isfinite(list(result.values())).all()
    for old, new in zip(before, contract.state(run.model)):
        np.testing.assert_array_equal(old, new)


def test_jit_stays_on(run):
    if keras.backend.backend() == "jax":
        assert run.model.jit_compile is True
    assert all(layer.supports_jit for layer in run.model._flatten_layers())


def test_encode_draws_nothing(run):
    before = [ops.convert_to_numpy(v) for v in run.model.variables]
    np.testing.assert_array_equal(contract.encoded(run.model), contract.encoded(run.model))
    for old, new in zip(before, run.model.variables):
        np.testing.assert_array_equal(old, ops.convert_to_numpy(new))


def test_save_and_load_round_trip(run, tmp_path):
    run.model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(run.model)
    assert settings(loaded) == settings(run.model)
    np.testing.assert_allclose(contract.encoded(loaded), contract.encoded(run.model), atol=1e-6)
    for ours, theirs in zip(contract.state(loaded), contract.state(run.model)):
        np.testing.assert_array_equal(ours, theirs)
    assert int(loaded.optimizer.iterations) == int(run.model.optimizer.iterations) > 0


def settings(model):
    return {name: value for name, value in model.get_config().items() if not isinstance(value, dict)}


def test_images_of_the_wrong_rank_are_refused(run):
    with pytest.raises(ValueError, match=r"\(batch, height, width, channels\).*Received: shape=\(8, 8\)"):
        run.model.make_views(np.zeros((8, 8), "uint8"), training=True)
    with pytest.raises(ValueError, match=r"Expected images of shape \(batch, height, width, channels\)"):
        run.model.fit(flattened(contract.inputs(run.model, 12)), batch_size=12, verbose=0)


def flattened(inputs):
    """Inputs whose images lack their channels."""
    return {**inputs, "images": inputs["images"][..., 0]} if isinstance(inputs, dict) else inputs[..., 0]


# All under PyTorch alone, which compiles nothing: Keras has one rule of dtypes for all backends.
@pytest.mark.parametrize("name", tiered(CASES, KINDS) if keras.backend.backend() == "torch" else KINDS)
def test_mixed_bfloat16_keeps_losses_and_state_in_float32(name):
    num_views, make = contract.CASES[name]
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = make(contract.Flips(num_views))
        model.compile(optimizer=keras.optimizers.Adam(1e-3))
        history = model.fit(contract.inputs(model, 24), batch_size=12, verbose=0).history
    finally:
        keras.config.set_dtype_policy("float32")
    hidden = [layer for layer in model.encoder._flatten_layers() if layer.name == "hidden"]
    assert {layer.compute_dtype for layer in hidden} == {"bfloat16"}
    assert np.isfinite(list(history.values())).all()
    assert {keras.backend.standardize_dtype(w.dtype) for w in model.weights} <= {"float32", "int32"}
    exact = make(contract.Flips(num_views))
    batch = contract.inputs(exact, 4)
    outputs = exact(batch)
    loss = {}
    for precision in ("bfloat16", "float32"):
        cast = [ops.cast(tensor, precision) for tensor in keras.tree.flatten(outputs)]
        packed = keras.tree.pack_sequence_as(outputs, cast)
        loss[precision] = exact.compute_loss(x=batch, y_pred=packed, training=False)
    assert keras.backend.standardize_dtype(loss["bfloat16"].dtype) == "float32"
    assert float(loss["bfloat16"]) == pytest.approx(float(loss["float32"]), rel=0.05, abs=0.05)


def test_a_network_in_float16_has_its_loss_scaled():
    """Keras asks the policy of the method alone: gradients below 6e-8 vanished without a word."""
    encoder = networks.encoder("mlp-small", (8, 8, 1), 4, seed=0)
    whole = networks.compose(None, encoder)
    half = composition.with_policy(whole, keras.dtype_policies.get("mixed_float16"))
    for network, scaled in ((half, True), (encoder, False)):
        model = methods.SimCLR(network, views=Views("simvae-digits", 2, seed=0))
        model.compile("adam")
        assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer) == scaled
        images = np.random.default_rng(0).integers(0, 256, (24, 8, 8, 1)).astype("uint8")
        assert np.isfinite(model.fit(images, batch_size=12, verbose=0).history["loss"]).all()
        model.compile("adam", auto_scale_loss=False)
        assert not isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)


def in_another_process(code, backend, **environment):
    """Run Python `code` with tests/ importable under a backend; its output on failure."""
    environment = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(Path(__file__).parent), **environment}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]


def side_by_side(code, count=2, timeout=1800):
    """Run Python `code` in processes that find `index` and `port` in it, as `in_another_process` does; all end well."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", f"index, port = {index}, {port}\n{code}"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(count)
    ]
    try:
        for process in started:
            told = process.communicate(timeout=timeout)[1]
            assert process.returncode == 0, told[-3000:]
    finally:
        for process in started:
            process.kill()


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="keras.distribution.DataParallel is JAX's")
def test_two_devices_equal_one():
    """The golden runs of every kind of state, sharded over two virtual devices: negatives and statistics are those of
    the whole batch."""
    names = [*KINDS, "vae", "moco", "swav-queue", "cmc", "deepcluster", "wmse", "nnclr", "ebclr", "lejepa-local"]
    names.append("instance-discrimination-drawn")
    code = f"""
import keras
keras.distribution.set_distribution(keras.distribution.DataParallel())
import contract, jax, test_method_contract as battery
assert len(jax.devices()) == 2
for name in {names}:
    battery.same_as_golden(contract.EightSteps(name).arrays, name)
"""
    in_another_process(code, "jax", XLA_FLAGS="--xla_force_host_platform_device_count=2")


@pytest.mark.slow
def test_saved_here_loads_under_another_backend(tmp_path):
    """Each backend writes for the next of them."""
    other = BACKENDS[(BACKENDS.index(keras.backend.backend()) + 1) % len(BACKENDS)]
    if importlib.util.find_spec(other) is None:
        pytest.skip(f"{other} is not installed")
    for name, (num_views, make) in contract.CASES.items():
        model = make(contract.Flips(num_views))
        model.save(tmp_path / f"{name}.keras")
        np.save(tmp_path / f"{name}.npy", contract.encoded(model))
    code = f"""
import keras, numpy, contract
for name in {CASES}:
    model = keras.saving.load_model(rf"{tmp_path}/{{name}}.keras", compile=False)
    numpy.testing.assert_allclose(contract.encoded(model), numpy.load(rf"{tmp_path}/{{name}}.npy"), atol=1e-5)
"""
    in_another_process(code, other)


if __name__ == "__main__":
    if sys.argv[1:2] != ["--write"]:
        sys.exit(__doc__)
    for case in sys.argv[2:] or CASES:
        file = GOLDEN / f"{choose('case', case, CASES)}.npz"
        if file.exists():
            print(f"{file} exists and is left alone")
        else:
            np.savez_compressed(file, **contract.EightSteps(case).arrays)
