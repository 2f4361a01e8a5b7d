"""What users pass to `compile`, `fit` and `evaluate`: each argument works, or is refused before the first step."""

import inspect
import pickle
import warnings

import keras
import numpy as np
import pytest
from test_method_contract import in_another_process

from sslzoo import data, evaluation, methods, networks
from sslzoo.errors import InvalidInputError
from sslzoo.methods import inputs
from sslzoo.views import Views

IMAGES = np.random.default_rng(0).integers(0, 256, (24, 8, 8, 1)).astype("uint8")


def simclr(**compiled):
    encoder = networks.encoder("mlp-small", (8, 8, 1), 4, seed=0)
    model = methods.SimCLR(encoder, views=Views("simvae-digits", 2, seed=0), temperature=0.5)
    model.compile("sgd", **compiled)
    return model


def untouched(model):
    return keras.callbacks.LambdaCallback(on_train_batch_begin=lambda *_: pytest.fail("a step was taken"))


VALUES = {
    "-1..1": IMAGES / 127.5 - 1,
    "standardized": (IMAGES - 128.0) / 64,
    "16 bit": IMAGES.astype("uint16") * 200,
    "NaN": np.where(IMAGES > 250, np.nan, IMAGES.astype("float32")),
    "infinite": np.where(IMAGES > 250, np.inf, IMAGES.astype("float32")),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_that_the_views_do_not_take_are_refused(kind):
    """Views would cut them off: all views of -1..1 are black and alike within two epochs, and the loss looks well."""
    model = simclr()
    with pytest.raises(InvalidInputError, match=r"images must be (values 0\.\.255|finite).*Received: images in"):
        model.fit(VALUES[kind], batch_size=12, verbose=0, callbacks=[untouched(model)])
    with pytest.raises(InvalidInputError, match="Received: images in"):
        model.evaluate(VALUES[kind], batch_size=12, verbose=0)
    with pytest.raises(InvalidInputError, match="Received: images in"):
        evaluation.features("simvae-digits", VALUES[kind])
    if np.isfinite(VALUES[kind]).all():
        batches = data.Batches(VALUES[kind], None, 12, seed=0)
        with pytest.raises(InvalidInputError, match="Received: images in"):
            model.fit(batches, verbose=0, shuffle=False, callbacks=[untouched(model)])


@pytest.mark.parametrize("scale", [255, 127.5])
def test_images_far_too_dark_bring_a_warning(scale):
    model, dark = simclr(), IMAGES / scale
    with pytest.warns(UserWarning, match=r"so small that all .*pass images \* 255\. Received: images in 0"):
        model.fit(dark, batch_size=12, verbose=0)
    with pytest.warns(UserWarning, match="so small"):
        model.evaluate(dark, batch_size=12, verbose=0)
    with pytest.warns(UserWarning, match="so small"):
        evaluation.features("simvae-digits", dark)


def test_whole_numbers_of_0_and_1_are_far_too_dark_as_well():
    masks = (IMAGES > 127).astype("uint8")
    with pytest.warns(UserWarning, match="so small"):
        simclr().fit(masks, batch_size=12, verbose=0)
    with pytest.warns(UserWarning, match="so small"):
        evaluation.features("simvae-digits", masks)
    assert "so small" in evaluation.embed("simvae-digits", masks).remarks[0]


@pytest.mark.parametrize("method", [methods.DCL, methods.VICReg])
def test_validation_of_a_remainder_of_one_is_refused_before_the_first_step(method):
    """Under TensorFlow val_loss was -inf; elsewhere the first epoch was lost."""
    model = method(networks.encoder("mlp-small", (8, 8, 1), 4, seed=0), views=Views("simvae-digits", 2, seed=0))
    model.compile("sgd")
    odd = np.concatenate([IMAGES, IMAGES[:1]])
    calls = [untouched(model)]
    with pytest.raises(InvalidInputError, match=r"last batch of validation_data .*drop 1 of 25 images"):
        model.fit(IMAGES, batch_size=12, verbose=0, validation_data=(odd,), callbacks=calls)
    with pytest.raises(InvalidInputError, match=r"last batch of validation_split .*drop 1 of 13 images"):
        model.fit(odd, batch_size=12, verbose=0, validation_split=13 / 25, callbacks=calls)
    with pytest.raises(InvalidInputError, match="drop 1 of 25 images"):
        model.evaluate(odd, batch_size=12, verbose=0)
    with pytest.raises(InvalidInputError, match=r"values 0\.\.255"):
        model.fit(IMAGES, batch_size=12, verbose=0, validation_data=(VALUES["-1..1"],), callbacks=calls)
    kept = model.fit(IMAGES, batch_size=12, verbose=0, validation_data=(odd,), validation_batch_size=5).history
    assert np.isfinite(kept["val_loss"]).all() and np.isfinite(model.evaluate(odd, batch_size=11, verbose=0)).all()


def test_views_of_another_range_take_its_values():
    views = Views("simvae-digits", 2, seed=0, value_range=(-1, 1))
    model = methods.SimCLR(networks.encoder("mlp-small", (8, 8, 1), 4, seed=0), views=views, temperature=0.5)
    model.compile("sgd")
    model.fit(VALUES["-1..1"], batch_size=12, verbose=0)
    with pytest.raises(InvalidInputError, match=r"values -1\.\.1"):
        model.fit(IMAGES, batch_size=12, verbose=0)


def test_a_schedule_that_cannot_be_saved_is_trained_with():
    """As by models of Keras: nothing that `fit` and `evaluate` ask for needs `get_config`."""

    class Warm(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.1 * keras.ops.minimum(keras.ops.cast(step, "float32") / 2, 1.0)

    model = simclr()
    model.compile(keras.optimizers.SGD(Warm()))
    before = model.encoder.get_weights()
    model.fit(IMAGES, batch_size=12, verbose=0)
    assert any((old != new).any() for old, new in zip(before, model.encoder.get_weights()))
    assert np.isfinite(model.evaluate(IMAGES, batch_size=12, verbose=0)).all()


def test_there_must_be_images_to_train_on():
    with pytest.raises(InvalidInputError, match="Received: 0 images"):
        simclr().fit(IMAGES[:0], batch_size=12, verbose=0)
    with pytest.raises(InvalidInputError, match="Received: 0 images"):
        simclr().fit(IMAGES, batch_size=12, verbose=0, validation_split=1.0)
    with pytest.raises(InvalidInputError, match=r"a number from 0 to 1\. Received: validation_split=1\.5"):
        simclr().fit(IMAGES, batch_size=12, verbose=0, validation_split=1.5)
    with pytest.raises(InvalidInputError, match="Received: 0 images"):
        simclr().evaluate(IMAGES[:0], batch_size=12, verbose=0)


def test_no_share_for_validation_may_be_none():
    assert "val_loss" not in simclr().fit(IMAGES, batch_size=12, verbose=0, validation_split=None).history


@pytest.mark.parametrize(
    "compiled", [{"loss": "mse"}, {"loss_weights": [2.0]}, {"metrics": ["mse"]}, {"weighted_metrics": ["mse"]}], ids=str
)
def test_a_loss_or_metrics_of_ones_own_are_refused(compiled):
    with pytest.raises(InvalidInputError, match=rf"Received: compile\({next(iter(compiled))}=\.\.\.\)"):
        simclr(**compiled)


@pytest.mark.filterwarnings("error::UserWarning")
def test_a_compiled_method_is_read_with_the_state_of_its_optimizer(tmp_path):
    model = simclr(jit_compile=False)
    model.fit(IMAGES, batch_size=12, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert (loaded.jit_compile, int(loaded.optimizer.iterations)) == (False, 2)
    loaded.fit(IMAGES, batch_size=12, verbose=0)
    assert int(loaded.optimizer.iterations) == 4


def test_weights_of_images_are_refused():
    model, labels = simclr(), np.arange(24) % 3
    weights = np.ones(24)
    for given in ({"sample_weight": weights}, {"y": labels, "class_weight": {0: 1.0, 1: 2.0, 2: 1.0}}):
        with pytest.raises(InvalidInputError, match="Received: sample_weight or class_weight"):
            model.fit(IMAGES, batch_size=12, verbose=0, callbacks=[untouched(model)], **given)
    with pytest.raises(InvalidInputError, match="Received: sample_weight"):
        model.evaluate(IMAGES, batch_size=12, verbose=0, sample_weight=weights)
    with pytest.raises(InvalidInputError, match="Received: sample_weight"):
        model.train_on_batch(IMAGES[:12], sample_weight=weights[:12])
    # The same by position, in the order of Keras.
    calls = [untouched(model)]
    for given in ({}, weights), ({0: 1.0, 1: 2.0, 2: 1.0},):
        with pytest.raises(InvalidInputError, match="Received: sample_weight or class_weight"):
            model.fit(IMAGES, labels, 12, 1, 0, calls, 0.0, None, True, given[0] or None, *given[1:])
    with pytest.raises(InvalidInputError, match="Received: sample_weight"):
        model.fit(IMAGES, labels, 12, 1, 0, calls, 0.0, (IMAGES, labels, weights))
    with pytest.raises(InvalidInputError, match="Received: sample_weight"):
        model.evaluate(IMAGES, labels, 12, 0, weights)


def test_arguments_of_fit_and_evaluate_may_be_given_by_position():
    """What is checked of validation is so however it was given."""
    model = simclr()
    for method, ours in ((keras.Model.fit, model.fit), (keras.Model.evaluate, model.evaluate)):
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(method).parameters)[1:]
    odd = np.concatenate([IMAGES, IMAGES[:1]])
    calls = [untouched(model)]
    for share, held_out in ((0.0, (odd,)), (13 / 25, None)):
        with pytest.raises(InvalidInputError, match=r"last batch of validation_.* images"):
            model.fit(odd if share else IMAGES, None, 12, 1, 0, calls, share, held_out)
    assert model.fit(IMAGES, None, 12, 1, 0).epoch == [0]
    history = model.fit(IMAGES, None, 12, 3, 0, None, 0.0, (IMAGES[:12],), False, None, None, 1, 1, 1, 12, 2)
    assert history.epoch == [1, 2] and len(history.history["val_loss"]) == 1
    assert set(model.evaluate(IMAGES, None, 12, 0, None, 1, None, True)) == {"loss", *model.terms}


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="others see the size of every batch")
def test_a_tf_data_remainder_that_cannot_be_taken_ends_training():
    """In TensorFlow's graph its size is not known; DCL of one image was -inf."""
    import tensorflow as tf

    encoder = networks.encoder("mlp-small", (8, 8, 1), 4, seed=0)
    model = methods.DCL(encoder, views=Views("simvae-digits", 2, seed=0))
    model.compile("sgd")
    whole = tf.data.Dataset.from_tensor_slices(IMAGES)
    with pytest.raises(tf.errors.InvalidArgumentError, match="DCL needs 2 images"):
        model.fit(whole.take(13).batch(12), verbose=0)
    for good in (whole.take(14).batch(12), whole.take(13).batch(12, drop_remainder=True)):
        assert np.isfinite(model.fit(good, verbose=0).history["loss"]).all()
    with pytest.raises(tf.errors.InvalidArgumentError, match="DCL needs 2 images"):  # val_loss was -inf
        model.fit(IMAGES, batch_size=12, validation_data=whole.take(13).batch(12), verbose=0)
    with_labels = tf.data.Dataset.from_tensor_slices((IMAGES, np.arange(24))).batch(12)
    assert np.isfinite(model.fit(with_labels, verbose=0).history["loss"]).all()
    with pytest.raises(tf.errors.InvalidArgumentError, match="DCL needs 2 images"):  # the loss of the epoch was -inf
        model.fit(whole.take(13).batch(12).repeat(), steps_per_epoch=2, verbose=0)
    queue = methods.MoCo(networks.encoder("mlp-small", (8, 8, 1), 4, seed=0), None, Views("simvae-digits", 2), 8)
    queue.compile("sgd")
    with pytest.raises(tf.errors.InvalidArgumentError, match="MoCo has room for"):  # keys lay upon each other
        queue.fit(whole.batch(12), verbose=0)
    assert np.isfinite(queue.evaluate(whole.batch(12), verbose=0)).all()  # which keeps none


class Rows(keras.utils.PyDataset):
    """IMAGES in batches of 12, the last of one image."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return IMAGES[:13][12 * index : 12 * index + 12]


def test_a_remainder_of_a_data_set_of_keras_or_a_generator_ends_training():
    encoder = networks.encoder("mlp-small", (8, 8, 1), 4, seed=0)
    model = methods.DCL(encoder, views=Views("simvae-digits", 2, seed=0))
    model.compile("sgd")
    calls = (
        lambda: model.fit(Rows(), verbose=0),
        lambda: model.fit(Rows(workers=2), verbose=0),
        lambda: model.fit(IMAGES, batch_size=12, validation_data=Rows(), verbose=0),
        lambda: model.evaluate(Rows(), verbose=0),
        lambda: model.fit(((rows,) for rows in (IMAGES[:12], IMAGES[:1])), steps_per_epoch=2, verbose=0),
    )
    for call in calls:
        with pytest.raises(InvalidInputError, match="needs at least 2"):
            call()
    whole = type("Whole", (Rows,), {"__getitem__": lambda self, index: IMAGES[12 * index : 12 * index + 12]})
    assert np.isfinite(model.fit(whole(), validation_data=whole(), epochs=2, verbose=0).history["val_loss"]).all()
    # Processes that are spawned, as on macOS and Windows, get their data set by pickle.
    sent = pickle.loads(pickle.dumps(inputs.check_stream(model, Rows(use_multiprocessing=True), training=True)))
    assert sent.use_multiprocessing and len(sent[0]) == 12
    if keras.backend.backend() == "tensorflow":  # whose compiled step cannot ask
        with pytest.raises(InvalidInputError, match="needs at least 2"):
            sent[1]


class Failing(methods.SimCLR):
    def objective(self, images, outputs, training):
        if images.shape[0] == 5:  # where a step is traced
            raise InvalidInputError("five")
        return super().objective(images, outputs, training)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="others compute with the model's own variables")
@pytest.mark.parametrize("fused", [1, 2])
def test_a_step_that_raises_leaves_the_model_its_weights(fused):
    """JAX's trainer takes them out of the model before a step: all was lost to a first batch that it could not take."""
    encoder = networks.encoder("mlp-small", (8, 8, 1), 4, seed=0)
    model = Failing(encoder, views=Views("simvae-digits", 2, seed=0), temperature=0.5)
    model.compile("adam", steps_per_execution=fused)
    before = model.get_weights()
    for call in (
        lambda: model.fit(IMAGES[:5], batch_size=5, verbose=0),
        lambda: model.evaluate(IMAGES[:5], batch_size=5, verbose=0),
        lambda: model.predict(IMAGES[:, :5], batch_size=5, verbose=0),
    ):
        with pytest.raises(ValueError):
            call()
        for ours, theirs in zip(model.get_weights(), before, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert np.isfinite(model.fit(IMAGES, batch_size=12, verbose=0).history["loss"]).all()
    trained = model.get_weights()
    assert np.isfinite(model.evaluate(IMAGES, batch_size=12, verbose=0)).all()
    interrupt = keras.callbacks.LambdaCallback()
    interrupt.on_test_batch_end = lambda batch, logs=None: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        model.evaluate(IMAGES, batch_size=12, verbose=0, callbacks=[interrupt])
    for ours, theirs in zip(model.get_weights(), trained, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_data_loader_of_pytorch_says_how_many_images_its_batches_have():
    torch = pytest.importorskip("torch")
    model, loader = simclr(), torch.utils.data.DataLoader
    for steps in (None, 3):
        with pytest.raises(InvalidInputError, match="drop 1 of 24 images"):
            model.fit(loader(IMAGES, 23), steps_per_epoch=steps, verbose=0, callbacks=[untouched(model)])
    inputs.check_batches(model, loader(IMAGES, 23, drop_last=True), None)
    some = torch.utils.data.SubsetRandomSampler
    inputs.check_batches(model, loader(IMAGES, 12, sampler=some(range(12))), None)
    with pytest.raises(InvalidInputError, match="drop 1 of 13 images"):
        inputs.check_batches(model, loader(IMAGES, 12, sampler=some(range(13))), None)
    with pytest.raises(InvalidInputError, match=r"drop 1 of 24 images.*at least 2"):
        model.evaluate(loader(IMAGES, 23), verbose=0)


@pytest.mark.parametrize("kind", ["data set of Keras", "loader", "tf.data"])
def test_a_stream_of_images_in_0_to_1_is_warned_of(kind):
    small = IMAGES.astype("float32") / 255
    if kind == "loader":
        torch = pytest.importorskip("torch")
        rows = torch.utils.data.TensorDataset
        made = [lambda images: torch.utils.data.DataLoader(rows(torch.from_numpy(images)), 12, shuffle=True)]
    elif kind == "tf.data":
        tf = pytest.importorskip("tensorflow")
        whole = tf.data.Dataset.from_tensor_slices
        made = [
            lambda images: whole(images).batch(12),
            lambda images: whole((images, np.arange(24))).batch(12, drop_remainder=True).prefetch(1),
        ]
    else:
        rows = [lambda images: lambda self, index: images[12 * index : 12 * index + 12]]
        made = [lambda images, rows=rows: type("Whole", (Rows,), {"__getitem__": rows(images)})() for rows in rows]
    for make in made:
        model = simclr()
        with pytest.warns(UserWarning, match="all look black"):
            model.fit(make(small), verbose=0)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", ".*all look black")
            assert np.isfinite(model.fit(make(IMAGES.astype("float32")), epochs=2, verbose=0).history["loss"]).all()


def test_to_look_at_a_loader_moves_no_random_numbers():
    torch = pytest.importorskip("torch")

    class Noisy(torch.utils.data.Dataset):
        def __len__(self):
            return 24

        def __getitem__(self, index):
            return torch.rand(8, 8, 1)

    torch.manual_seed(0)
    with pytest.warns(UserWarning, match="all look black"):
        inputs.check_values(simclr(), torch.utils.data.DataLoader(Noisy(), 12))
    after = torch.rand(1)
    torch.manual_seed(0)
    assert after == torch.rand(1)


def test_steps_that_meet_a_remainder_are_refused_before_the_first():
    model = simclr()
    stream = data.Batches(IMAGES, None, 23, drop_remainder=False, repeat=True, seed=0)
    for given in ({"x": IMAGES, "batch_size": 23, "shuffle": False}, {"x": stream}):
        for epochs in ({"steps_per_epoch": 2}, {"steps_per_epoch": 1, "epochs": 2}):
            with pytest.raises(InvalidInputError, match="drop 1 of 24 images"):
                model.fit(**given, **epochs, verbose=0, callbacks=[untouched(model)])
    with pytest.raises(InvalidInputError, match="1 of 24 images"):
        model.evaluate(IMAGES, batch_size=23, steps=2, verbose=0)
    held_out = {"validation_data": (IMAGES, None), "validation_batch_size": 23, "validation_steps": 1}
    with pytest.raises(InvalidInputError, match="1 of 24 images"):
        model.fit(IMAGES, batch_size=12, **held_out, epochs=2, verbose=0, callbacks=[untouched(model)])
    model.fit(IMAGES, batch_size=23, steps_per_epoch=1, verbose=0)
    model.fit(IMAGES, batch_size=23, steps_per_epoch=1, initial_epoch=1, epochs=1, verbose=0)  # nothing is left to do
    assert np.isfinite(model.evaluate(IMAGES, batch_size=23, steps=1, verbose=0)).all()


def test_an_index_that_nothing_remembers_is_refused():
    model = simclr()
    before = [keras.ops.convert_to_numpy(weight) for weight in model.weights]
    for x in ({"images": IMAGES}, data.Batches(IMAGES, None, 12, with_index=True)):
        with pytest.raises(InvalidInputError, match="SimCLR takes one array of images, without an index"):
            model.fit(x, batch_size=12, verbose=0)
    for old, new in zip(before, model.weights):
        np.testing.assert_array_equal(old, keras.ops.convert_to_numpy(new))


@pytest.mark.parametrize("shape", [(16, 16, 1), (8, 8, 2)])
def test_images_of_another_size_than_the_encoder_s_are_refused(shape):
    model = simclr()
    with pytest.raises(InvalidInputError, match=r"takes views \(8, 8, 1\)\. Received: images "):
        model.fit(np.zeros((24, *shape), "uint8"), batch_size=12, verbose=0, callbacks=[untouched(model)])


def test_a_batch_size_is_a_number_of_images():
    for size in (0, -4, 2.5):
        with pytest.raises(InvalidInputError, match="batch_size must be an integer >= 1"):
            simclr().fit(IMAGES, batch_size=size, verbose=0)


def test_a_method_of_an_encoder_of_any_size_says_what_to_evaluate():
    encoder = networks.encoder("airnet", (None, None, 1), None, widths=(4,), seed=0)
    model = methods.SimCLR(encoder, views=Views("simvae-digits", 2, size=(6, 6), seed=0))
    with pytest.raises(InvalidInputError, match=r"method\.parts\(\(H, W, C\)\)\['encoder'\]"):
        evaluation.features(model, IMAGES)
    assert evaluation.features(model.parts((8, 8, 1))["encoder"], IMAGES).shape == (24, 4)


def test_a_stack_of_batches_is_not_taken_for_views_of_an_image():
    """A stack (B, K, H, W, C) has the shape of ready-made views, and would train on K images as views of one."""
    model = simclr()
    stacked = data.Batches(IMAGES, None, 12, repeat=True, steps_per_execution=2, seed=0)
    with pytest.raises(InvalidInputError, match="steps_per_execution=2 of the batches, 1 of the method"):
        model.fit(stacked, steps_per_epoch=2, verbose=0, callbacks=[untouched(model)])
    with pytest.raises(InvalidInputError, match="steps_per_execution=2 of the batches"):
        model.fit(IMAGES, batch_size=12, validation_data=stacked, validation_steps=1, verbose=0)
    with pytest.raises(InvalidInputError, match="steps_per_execution=2 of the batches"):
        model.evaluate(stacked, steps=1, verbose=0)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="others have a loop of their own")
def test_programs_that_an_epoch_of_finite_data_does_not_divide_into_are_refused():
    """Keras counts whole programs, and took the data for used up a step before their end."""
    model = simclr(steps_per_execution=2)
    with pytest.raises(InvalidInputError, match=r"multiple of steps_per_execution=2.*steps_per_epoch=3"):
        model.fit(IMAGES, batch_size=6, steps_per_epoch=3, epochs=2, verbose=0, callbacks=[untouched(model)])
    endless = data.Batches(IMAGES, None, 6, repeat=True, seed=0)
    model.fit(endless, steps_per_epoch=3, epochs=2, shuffle=False, verbose=0)
    assert int(model.optimizer.iterations) == 6


def test_a_method_is_not_quantized():
    with pytest.raises(InvalidInputError, match="Quantize the encoder alone"):
        simclr().quantize("int8")


def test_views_of_ones_own_train_and_say_what_publishing_takes():
    class Pairs(keras.layers.Layer):
        def call(self, images, training=False):
            images = keras.ops.cast(images, "float32") / 255
            return keras.ops.stack([images, keras.ops.flip(images, axis=2)], axis=1)

    model = methods.SimCLR(networks.encoder("mlp-small", (8, 8, 1), 4, seed=0), views=Pairs(name="mirrored"))
    model.compile("sgd")
    assert np.isfinite(model.fit(IMAGES, batch_size=12, verbose=0).history["loss"]).all()
    for call in (lambda: model.encode(IMAGES), lambda: model.parts((8, 8, 1))):
        with pytest.raises(InvalidInputError, match=r"`prepare` and .*Received: views='mirrored' \(Pairs"):
            call()


@pytest.mark.parametrize("method", [methods.LeJEPA, methods.WMSE, methods.InstanceDiscrimination])
def test_seeds_may_be_numpy_s(method):
    options = {"num_images": 24} if method is methods.InstanceDiscrimination else {}
    network = networks.encoder("mlp-small", (8, 8, 1), 4, seed=0)
    model = method(network, views=Views("simvae-digits", 2, seed=np.int64(0)), seed=np.int64(3), **options)
    assert type(model.seed) is int


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_an_encoder_of_integers_is_refused(dtype):
    """Views are 0..1: cast to its input they were black, and training went on without a word."""
    x = keras.Input((8, 8, 1), dtype=dtype)
    encoder = keras.Model(x, keras.layers.Dense(4)(keras.layers.Flatten()(keras.layers.Rescaling(1.0)(x))))
    with pytest.raises(InvalidInputError, match=f"dtype='{dtype}'"):
        methods.SimCLR(encoder, views=Views("simvae-digits", 2))


def test_raw_images_in_the_place_of_views_are_refused():
    model, raw = simclr(), np.stack([IMAGES, IMAGES], axis=1)
    views = np.asarray(keras.ops.convert_to_numpy(model.views(IMAGES)))
    said = r"Ready-made views must be floats.*dtype='uint8'"
    with pytest.raises(InvalidInputError, match=said):
        model.fit(raw, batch_size=12, verbose=0)
    assert int(model.optimizer.iterations) == 0
    with pytest.raises(InvalidInputError, match=said):
        model.evaluate(raw, batch_size=12, verbose=0)
    with pytest.raises(InvalidInputError, match=said):
        model.fit(IMAGES, validation_data=(raw,), batch_size=12, verbose=0)
    model.fit(views, validation_data=(views,), batch_size=12, verbose=0)


@pytest.mark.parametrize("name", ["BYOL", "MoCo", "VAE", "SimCLR"])
def test_float64(name):
    before = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    try:
        encoder = networks.encoder("mlp-small", (8, 8, 1), 4, posterior=name == "VAE", seed=0)
        views = Views("simvae-digits", 1 if name == "VAE" else 2, seed=0)
        if name == "VAE":
            model = methods.VAE(encoder, networks.decoder("mlp-small", (8, 8, 1), 4, seed=0), views=views)
        elif name == "BYOL":
            model = methods.BYOL(encoder, networks.projector(4, (4,)), networks.projector(4, (4,)), views=views)
        else:
            model = getattr(methods, name)(encoder, views=views)
        model.compile("sgd")
        assert np.isfinite(model.fit(IMAGES, batch_size=12, verbose=0).history["loss"][0])
        assert model.encoder.weights[0].dtype == "float64"
    finally:
        keras.config.set_floatx(before[0])
        keras.config.set_dtype_policy(before[1])


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="keras.distribution.DataParallel is JAX's")
def test_a_remainder_that_devices_cannot_share_is_told_before_the_first_step():
    code = """
import keras, numpy as np, pytest
from sslzoo import methods, networks
from sslzoo.errors import InvalidInputError
from sslzoo.views import Views
keras.distribution.set_distribution(keras.distribution.DataParallel())
images = np.random.default_rng(0).integers(0, 256, (51, 8, 8, 1)).astype("uint8")
model = methods.SimCLR(networks.encoder("mlp-small", (8, 8, 1), 4, seed=0), views=Views("simvae-digits", 2, seed=0))
model.compile("sgd")
for given in ({"x": images}, {"x": images[:48], "validation_data": (images,)}):
    with pytest.raises(InvalidInputError, match="multiple of 2 images in every batch, which 2 devices share"):
        model.fit(**given, batch_size=16, verbose=0)
assert int(model.optimizer.iterations) == 0
model.fit(images[:50], batch_size=16, verbose=0)
assert int(model.optimizer.iterations) == 4
"""
    in_another_process(code, "jax", XLA_FLAGS="--xla_force_host_platform_device_count=2")
