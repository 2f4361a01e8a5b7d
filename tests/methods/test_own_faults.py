"""What users do by mistake, or in the middle of a step, costs no trained weights and is told in a sentence."""

import re
import signal

import keras
import numpy as np
import pytest
from contract import IMAGE_SHAPE, inputs, plain_encoder
from keras import ops

from sslzoo import callbacks, data, methods
from sslzoo.downstream import finetuning
from sslzoo.errors import InvalidInputError
from sslzoo.methods.fusing import fuses_its_steps
from sslzoo.methods.state import giving_back
from sslzoo.views import Views

jax_only = pytest.mark.skipif(keras.backend.backend() != "jax", reason="JAX takes variables away while a step runs")
IMAGES = np.random.default_rng(0).integers(0, 256, (48, 8, 8, 1)).astype("uint8")


def simclr(**arguments):
    return methods.SimCLR(plain_encoder(), views=Views("simvae-digits", 2, seed=0), **arguments)


@pytest.fixture
def interruptible():
    """Shells start what runs in the background with Ctrl-C ignored."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@jax_only
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_while_a_step_runs_leaves_the_model_its_result():
    import jax

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.BatchNormalization()])
    groups = model.trainable_variables, model.non_trainable_variables
    before = [ops.convert_to_numpy(variable).copy() for group in groups for variable in group]
    add = jax.jit(lambda state: jax.tree.map(lambda value: value + 1, state), donate_argnums=0)

    def interrupted(state, data):
        after = add(state)
        signal.raise_signal(signal.SIGINT)
        return {}, after

    step = giving_back(model, interrupted, "trainable non_trainable")
    with pytest.raises(KeyboardInterrupt):
        step(tuple([variable.value for variable in group] for group in groups), None)
    after = [ops.convert_to_numpy(variable) for group in groups for variable in group]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(new, old + 1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@jax_only
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("fused", [1, 4])
def test_ctrl_c_in_fit_waits_for_the_step_and_fit_goes_on(fused):
    model = simclr()
    model.compile(keras.optimizers.SGD(1e-3), steps_per_execution=fused)
    batches = data.Batches(IMAGES, None, 12, seed=0, repeat=True, steps_per_execution=fused)

    def stop(batch, logs):
        if batch >= 3:
            real = model.train_function

            def interrupted(state, iterator):
                signal.raise_signal(signal.SIGINT)
                return real(state, iterator)

            model.train_function = giving_back(model, interrupted, "trainable non_trainable optimizer metrics")

    watch = keras.callbacks.LambdaCallback(on_train_batch_end=stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(batches, steps_per_epoch=12, shuffle=False, verbose=0, callbacks=[watch])
    assert int(model.optimizer.iterations) >= 4 + fused
    assert fuses_its_steps() and np.isfinite([np.abs(ops.convert_to_numpy(w)).sum() for w in model.weights]).all()
    model.make_train_function(force=True)
    history = model.fit(batches, steps_per_epoch=4, shuffle=False, verbose=0).history
    assert np.isfinite(history["loss"]).all()


class NoMean(methods.SimCLR):
    """Its author forgot the mean over images."""

    def criterion(self, z):
        return {term: ops.ones(6) * value for term, value in super().criterion(z).items()}


def test_terms_that_are_no_scalars_are_refused():
    model = NoMean(plain_encoder(), views=Views("simvae-digits", 2, seed=0))
    model.compile("sgd")
    with pytest.raises(InvalidInputError, match=r"must give scalars.*Received: alignment of shape \(6,\)"):
        model.fit(IMAGES, batch_size=12, verbose=0)


class NoAttribute(methods.SimCLR):
    def __init__(self, encoder, projector=None, views=None, rate=1.0, **kwargs):
        super().__init__(encoder, projector, views, **kwargs)


def test_an_argument_that_is_not_kept_is_told_by_compile():
    with pytest.warns(UserWarning, match="cannot be saved. Received: NoAttribute without rate"):
        NoAttribute(plain_encoder(), views=Views("simvae-digits", 2, seed=0)).compile("sgd")


def test_views_of_another_rank_are_told():
    flips = keras.Sequential([keras.Input(IMAGE_SHAPE), keras.layers.Rescaling(1 / 255)], name="flips")
    model = methods.SimCLR(plain_encoder(), views=flips)
    with pytest.raises(InvalidInputError, match=r"must give views of shape.*Received: flips -> \(6, 8, 8, 1\)"):
        model(IMAGES[:6])


@pytest.mark.parametrize("policy", ["float16", "bfloat16"])
def test_half_precision_leaves_images_whole(policy):
    seen = []

    class Sees(Views):
        def __call__(self, images, **kwargs):
            seen.append(keras.backend.standardize_dtype(images.dtype))
            return super().__call__(images, **kwargs)

    keras.config.set_dtype_policy(policy)
    try:
        methods.SimCLR(plain_encoder(), views=Sees("simvae-digits", 2, seed=0))(IMAGES[:4].astype("float32"))
    finally:
        keras.config.set_dtype_policy("float32")
    assert seen == ["float32"]


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_fine_tuning_moves_pixels_of_16_bits_whole(policy):
    keras.config.set_dtype_policy(policy)
    try:
        image = np.full((1, 8, 8, 1), 65535, "float32")
        for layer in finetuning._moves((8, 8, 1), False, 0):
            image = layer(image, training=True) if isinstance(layer, Views) else layer(image)
    finally:
        keras.config.set_dtype_policy("float32")
    assert keras.backend.standardize_dtype(image.dtype) == "float32"
    np.testing.assert_allclose(ops.convert_to_numpy(image), 65535, rtol=1e-6)


def test_a_step_that_draws_by_itself_is_told():
    mixed = Views([keras.layers.AugMix(value_range=(0, 1), name="mixed")], 2, seed=0)
    with pytest.warns(UserWarning, match=r"\['mixed'\] draw from generators of their own"):
        mixed(IMAGES[:4].repeat(3, axis=-1), training=True, seed=1)


def test_the_call_that_export_advises_is_one():
    with pytest.raises(InvalidInputError) as caught:
        simclr().export("nowhere")
    advice = re.search(r"\[(keras\.InputSpec\(.*\))\]", str(caught.value))[1]
    spec = eval(advice, {"keras": keras, "H": 8, "W": 8, "C": 1})
    assert spec.shape == (None, 8, 8, 1) and spec.dtype == "float32"


def annulus():
    return methods.Annulus(plain_encoder(), 48, views=Views("simvae-digits", 2, seed=0), neighbors=20, clusters=4)


@pytest.mark.parametrize(("start", "epochs", "warned"), [(1, 1, True), (0, 1, False), (1, 2, False)])
def test_clusters_that_no_epoch_makes_are_told(start, epochs, warned, recwarn):
    model = annulus()
    model.compile(keras.optimizers.SGD(1e-3))
    watch = callbacks.ClusterBank(start=start)
    model.fit(inputs(model, 48), batch_size=12, epochs=epochs, verbose=0, callbacks=[watch])
    assert any("this `fit` ends before" in str(each.message) for each in recwarn) == warned


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        ((IMAGES[:, :6], np.zeros(48, int)), "bank must fit the encoder's input"),
        ((IMAGES, np.zeros(47, int)), "one label for each row of the 48.*Received: bank labels of shape \\(47,"),
        ((IMAGES, np.eye(2, dtype=int)[np.arange(48) % 2]), r"of one-hot rows.*Received: bank labels of shape \(48, 2"),
        ((IMAGES, np.zeros((48, 3), int)), r"Received: bank labels of shape \(48, 3"),
        ((IMAGES, np.full(48, np.nan)), "NaN is no class.*Received: bank labels"),
        ((IMAGES, None), "Received: bank labels=None"),
        ((list(IMAGES[0]), np.zeros(8, int)), r"bank must be an array \(N, H, W, C\)"),
    ],
)
def test_a_monitor_refuses_what_it_cannot_look_at(bank, message):
    model, queries = simclr(), (IMAGES[:8], np.zeros(8, int))
    encoder = model.live_encoder(IMAGE_SHAPE)
    with pytest.raises(InvalidInputError, match=message):
        callbacks.KNNMonitor(encoder, bank, queries)
    with pytest.raises(InvalidInputError, match=message.replace("bank", "queries")):
        callbacks.KNNMonitor(encoder, (IMAGES, np.zeros(48, int)), bank)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, None])
def test_a_monitor_refuses_counts_that_are_none(wrong):
    group = IMAGES, np.zeros(48, int)
    with pytest.raises(InvalidInputError, match=f"Received: k={wrong}"):
        callbacks.KNNMonitor(simclr().live_encoder(IMAGE_SHAPE), group, group, k=wrong)
    with pytest.raises(InvalidInputError, match=f"Received: every={wrong}"):
        callbacks.FiniteGuard(["alignment"], every=wrong)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (np.arange(7), "one place for each of 8 images. Received: 7 places"),
        (np.zeros(8), "index of dtype=float"),
        (np.arange(41, 49), "index=48"),
        (np.zeros((8, 1), int), r"shape=\(8, 1\)"),
    ],
)
def test_places_of_remembered_images_are_those_of_the_bank(index, message):
    model = annulus()
    model.views(IMAGES[:1], training=False)
    assert model.remembered(IMAGES[:8], index=np.arange(8)).shape == (8,)
    with pytest.raises(InvalidInputError, match=message):
        model.remembered(IMAGES[:8], index=index)


def test_a_checkpoint_before_its_journal_is_refused_in_the_first_epoch(tmp_path):
    def fit(place, model):
        journal, stopwatch = callbacks.Journal(tmp_path / "h.csv", 24), callbacks.Stopwatch()
        checkpoint = callbacks.Checkpoint(tmp_path / f"{place}.npz", journal, stopwatch)
        watchers = [stopwatch, journal]
        watchers.insert(place, checkpoint)
        model.fit(IMAGES, batch_size=12, epochs=3, verbose=0, callbacks=watchers if place else [stopwatch, checkpoint])
        return checkpoint

    model = simclr()
    model.compile(keras.optimizers.SGD(1e-3))
    with pytest.raises(InvalidInputError, match=r"must stand behind it.*Received: no row of epoch 1"):
        fit(1, model)
    for place in (2, 0):  # behind it, and without one
        model = simclr()
        model.compile(keras.optimizers.SGD(1e-3))
        checkpoint = fit(place, model)
        other = simclr()
        with pytest.raises(InvalidInputError, match="compile the model first"):
            checkpoint.restore(other)
        other.compile(keras.optimizers.SGD(1e-3))
        assert checkpoint.restore(other) == 3


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of the others resizing compiles")
def test_resizing_is_not_compiled_under_tensorflow(tmp_path):
    """XLA has no kernel of its antialiasing, and on a GPU Keras compiles what does not say so."""
    from sslzoo import networks, publishing, zoo

    views = Views("simclr-cifar10", 2, size=16, seed=0)
    whole = networks.compose(views.preprocessor((24, 24, 3)), networks.encoder("convnet", (16, 16, 3), 8, seed=0))
    folder = publishing.write(
        tmp_path / "mine", whole, method="SimCLR", dataset="mine", recipe="none", seeds=[0], metrics=[]
    )
    for model in (whole, zoo.load(folder)):
        resizing = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.Resizing)]
        assert [layer.supports_jit for layer in resizing] == [False]
