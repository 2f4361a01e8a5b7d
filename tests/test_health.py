"""Measures of collapse against their formulas, the sentence for each collapse, and a callback that moves nothing."""

import json
import re
import warnings
from types import SimpleNamespace

import contract
import keras
import numpy as np
import pytest
from keras import ops
from test_training import recipe

import sslzoo
from sslzoo import data, errors, methods, networks
from sslzoo.callbacks import Health, Journal, Stopwatch, UntilKNN, health, monitors
from sslzoo.files import write_beside
from sslzoo.methods.advice import SIGNS, advise
from sslzoo.methods.compiled import predicted, watched_views
from sslzoo.methods.pretrainer import Pretrainer
from sslzoo.views import Views

rng = np.random.default_rng(0)
RANDOM = rng.normal(size=(40, 6)) + 0.5


# ---------------------------------------------------------------- the right sentence for each way to collapse


class Frozen(Pretrainer):
    """A method whose encoder is a given function of the pixels, and whose loss is a given number.

    Settings become attributes; advice on them is that of the methods that have them.
    """

    terms = ("pull",)
    advice = (*methods.SwAV.advice[:1], *methods.VICReg.advice, *methods.SimCLR.advice)

    def __init__(self, kernel, bias, loss=1.0, clusters=None, **settings):
        image = keras.Input(contract.IMAGE_SHAPE)
        features = keras.layers.Dense(len(bias))(keras.layers.Flatten()(image))
        super().__init__(keras.Model(image, features), contract.Flips(2))
        self.encoder.set_weights([kernel, bias])
        self.loss_value, self.clusters = loss, clusters
        for name, value in settings.items():
            setattr(self, name, value)

    def call(self, images, training=False):
        views = self.make_views(images, training)
        return self.embed(ops.reshape(views, (-1, *contract.IMAGE_SHAPE)), training)

    def objective(self, images, outputs, training):
        return {"pull": self.loss_value + 0 * ops.mean(outputs)}

    def chance_level(self, batch_size):
        return float(np.log(2 * batch_size - 1))

    def cluster_probabilities(self, views):
        if self.clusters is None:
            return None
        return ops.softmax(ops.matmul(self.embed(views), self.clusters[0]) + self.clusters[1])


def spread(width=8, scale=1.0):
    """Weights of features that differ between images: random projections of pixels about their mean, 1/2."""
    kernel = scale * np.random.default_rng(1).normal(size=(64, width))
    return kernel.astype("float32"), (-0.5 * kernel.sum(axis=0)).astype("float32")


def constant():
    return Frozen(np.zeros((64, 8)), np.ones(8), variance_weight=25.0)


def one_direction():
    kernel, bias = spread(1)
    directions = np.random.default_rng(2).normal(size=(1, 8))
    return Frozen(kernel @ directions, (bias @ directions), covariance_weight=1.0)


def one_prototype():
    return Frozen(*spread(), clusters=(np.zeros((8, 30), "float32"), 20 * np.eye(30, dtype="float32")[3]), epsilon=0.05)


def narrow_cone():
    kernel, bias = spread(scale=0.05)
    return Frozen(kernel, bias + 1, temperature=0.5)


def at_chance():
    return Frozen(*spread(), loss=float(np.log(23)))


COLLAPSES = [
    (
        constant,
        r"Complete collapse after epoch 2: all images have nearly the same features \(standard deviation 0\.000, "
        r"spread evenly 1\); try a higher variance weight \(now 25\), a lower learning rate \(now 0\.001\) or longer "
        r"warm-up\.",
    ),
    (
        one_direction,
        r"Dimensional collapse after epoch 2: features use 1\.0 of 8 directions; try a higher covariance weight "
        r"\(now 1\), a lower learning rate \(now 0\.001\) or milder views\.",
    ),
    (
        one_prototype,
        r"Unused prototypes after epoch 2: all images share 1\.0 of 30 prototypes; try a lower epsilon \(now 0\.05\), "
        r"a lower learning rate \(now 0\.001\) or longer warm-up\.",
    ),
    (
        narrow_cone,
        r"Alignment without uniformity after epoch 2: views of one image agree \(squared distance 0\.0\d+\), but so do "
        r"those of different images \(0\.\d+, spread evenly 2\); try a lower temperature "
        r"\(now 0\.5\), a lower learning rate \(now 0\.001\) or longer warm-up\.",
    ),
    (
        at_chance,
        r"Loss stuck at chance after epoch 2: 3\.14, where a model that distinguishes nothing has 3\.14; try another "
        r"learning rate \(now 0\.001\), longer warm-up or milder views\.",
    ),
]


def looks(model, callback, epochs=4, learning_rate=1e-3, verbose=0, loss=None):
    """What a callback logs of an untrained model, epoch by epoch, without the cost of `fit`."""
    model.compile(optimizer=keras.optimizers.SGD(learning_rate))
    callback.set_params({"epochs": epochs, "steps": 2, "verbose": verbose})
    callback.set_model(model)
    callback.on_train_begin()
    history = [{} if loss is None else {"loss": loss} for _ in range(epochs)]
    for epoch, logs in enumerate(history):
        callback.on_epoch_end(epoch, logs)
    return history


def fit(model, callback, epochs=4, others=(), learning_rate=0.0, verbose=0):
    model.compile(optimizer=keras.optimizers.SGD(learning_rate))
    return model.fit(
        contract.images(24), batch_size=12, epochs=epochs, verbose=verbose, callbacks=[callback, *others]
    ).history


@pytest.mark.parametrize(("make", "expected"), COLLAPSES, ids=[make.__name__ for make, _ in COLLAPSES])
def test_each_collapse_is_told_once_in_its_own_sentence(make, expected):
    watch = Health(contract.images(40), patience=2, grace=0, batch_size=12)
    with pytest.warns(health.CollapseWarning) as caught:
        looks(make(), watch, loss=float(np.log(23)) if make is at_chance else 1.0)
    assert [str(w.message) for w in caught if w.category is health.CollapseWarning] == watch.warnings
    assert len(watch.warnings) == 1
    assert re.fullmatch(expected, watch.warnings[0]), watch.warnings[0]
    assert watch.reason is None


def test_a_healthy_run_is_not_warned_of():
    images, _ = sslzoo.data.load("digits", "train")
    encoder = networks.encoder("mlp-small", (8, 8, 1), 10, seed=0)
    model = methods.SimCLR(encoder, networks.projector(10, (10, 6), seed=1), contract.Flips(2))
    model.compile(optimizer=keras.optimizers.Adam(1e-3))
    watch = Health(images[:256], patience=1, grace=20, stop=1, batch_size=64)
    with warnings.catch_warnings():
        warnings.simplefilter("error", health.CollapseWarning)
        history = model.fit(images, batch_size=64, epochs=3, verbose=0, callbacks=[watch]).history
    assert watch.warnings == [] and watch.reason is None and len(history["loss"]) == 3
    assert history["chance"] == pytest.approx([np.log(127)] * 3)
    assert history["loss"][-1] < history["chance"][-1] - 0.5
    assert 0.5 < history["health_std"][-1] <= 1
    assert 2 < history["health_rank"][-1] <= 6 < 10 >= history["health_encoder_rank"][-1] > 2
    assert -4 < history["health_uniformity"][-1] < -1
    assert 0 < history["health_alignment"][-1] < 1
    assert "health_prototypes" not in history


@pytest.fixture
def judged(monkeypatch):
    """A callback at work on given measures: values of one of them, one per look -> how many sentences by then."""
    model = constant()

    def run(measure, values, **arguments):
        watch = Health(contract.images(8), **{"patience": 3, "grace": 0, **arguments})
        monkeypatch.setattr(monitors, "watched_views", lambda *_: [contract.images(8)])
        looks(model, watch, epochs=0)
        watch.params["epochs"] = 100
        counts = []
        for epoch, value in enumerate(values):
            healthy = {"finite": True, "std": 0.9, "rank": 7.0, "rank_limit": 8, "uniformity": -2.0}
            monkeypatch.setattr(watch, "measure", lambda found={**healthy, measure: value}: found)
            watch.on_epoch_end(epoch, {})
            counts.append(len(watch.warnings))
        return counts, watch

    return run


@pytest.mark.filterwarnings("ignore::sslzoo.callbacks.health.CollapseWarning")
def test_a_sign_must_last_and_is_repeated_only_when_much_worse(judged):
    assert judged("std", [0.008, 0.008, 0.9, 0.008, 0.008, 0.008])[0] == [0, 0, 0, 0, 0, 1]
    assert judged("std", [0.002, 0.004, 0.006, 0.008, 0.9])[0] == [0] * 5  # it is getting better by itself
    assert judged("rank", [1.3, 1.2, 1.2, 1.1, 1.008, 1.005, 1.0])[0] == [0, 0, 1, 1, 2, 2, 2]
    assert judged("std", [0.0] * 8, grace=10)[0] == [0, 0, 0, 0, 0, 0, 1, 1]
    assert judged("finite", [True, False, False], grace=100)[0] == [0, 1, 1]


@pytest.mark.filterwarnings("ignore::sslzoo.callbacks.health.CollapseWarning")
def test_the_gravest_sign_is_told_and_the_lesser_ones_it_brings_are_not(judged):
    counts, watch = judged("rank", [1.1] * 4)
    assert counts[-1] == 1 and "Dimensional" in watch.warnings[0]
    first = 1 + 1e-4 * rng.normal(size=(2, 40, 64))
    found = health.measure(*first)
    assert list(health.signs(found, loss=2.0, chance=2.0)) == ["complete", "dimensional", "cone", "chance"]


def test_an_offset_that_all_features_share_is_no_collapse_while_images_are_told_apart():
    images = 3 + rng.normal(size=(200, 16))
    views = [images + 0.2 * rng.normal(size=images.shape) for _ in range(2)]
    found = health.measure(*views)
    assert found["std"] < 0.4 and found["uniformity"] > health.CONE_UNIFORMITY
    assert health.signs(found) == {}


@pytest.mark.parametrize(("loss", "chance", "stuck"), [(6.2, 6.24, True), (6.0, 6.24, False), (-0.01, 0.0, True)])
def test_chance_is_a_margin_below_the_chance_level(loss, chance, stuck):
    """A chance level may be 0, below which a loss falls (ProtoCPC)."""
    found = health.measure(RANDOM)
    assert ("chance" in health.signs(found, loss, chance)) == stuck
    assert "chance" not in health.signs(found, loss, None)


def test_small_representations_are_not_taken_for_collapsed():
    assert health.signs(health.measure(rng.normal(size=(50, 1)))) == {}
    assert health.signs(health.measure(rng.normal(size=(50, 2)))) == {}


def test_features_with_nan_are_told_at_once():
    model = Frozen(np.full((64, 8), np.nan), np.ones(8))
    watch = Health(contract.images(8))
    with pytest.warns(health.CollapseWarning, match="not finite after epoch 1; try a lower learning rate"):
        history = looks(model, watch, epochs=2)
    assert len(watch.warnings) == 1 and history == [{}, {}]


def family():
    """Every method, and the classes it is made of."""
    return {each for method in methods.METHODS.values() for each in method.__mro__ if issubclass(each, Pretrainer)}


def test_advice_names_settings_and_signs_that_there_are():
    found = health.measure(1 + 1e-4 * rng.normal(size=(40, 64)), 1 + 1e-4 * rng.normal(size=(40, 64)))
    found |= {"prototypes": 0.01, "used": 1.0, "used_limit": 100}
    shown = {*health.signs({"finite": False}), *health.signs(found, loss=2.0, chance=2.0)}
    assert shown == set(SIGNS)
    for method in family():
        for advice in vars(method).get("advice", ()):
            assert set(advice.against) <= set(SIGNS)
            known = {*method.arguments(), *dir(method), "optimizer.learning_rate", None}
            if method is not methods.joint_embedding.TeacherStudent:  # of what it says the methods have it
                assert advice.setting in known, (method, advice)


@pytest.mark.parametrize("name", list(contract.CASES))
def test_every_method_has_something_to_try_against_every_sign(name):
    num_views, make = contract.CASES[name]
    model = make(contract.Flips(num_views))
    model.compile(optimizer=keras.optimizers.SGD(0.25))
    for sign in SIGNS:
        tries = advise(model, sign)
        assert any(words.endswith("learning rate (now 0.25)") for words in tries) and len(set(tries)) == len(tries)


@pytest.mark.parametrize("batch_norm", [False, True])
def test_a_teacher_and_a_plain_head_are_known(batch_norm):
    encoder = contract.plain_encoder()
    head = networks.projector(encoder.output_shape[-1], (6, 4), batch_norm=batch_norm)
    teacher, plain = "a slower teacher, with momentum nearer 1 (now 0.9)", "batch normalization in the head"
    told = advise(methods.MoCo(encoder, head, momentum=0.9, temperature=0.25), "complete")
    expected = ["a lower temperature (now 0.25)", teacher, plain, "longer warm-up"]
    assert told == [words for words in expected if words != plain or not batch_norm]  # no optimizer, no learning rate
    told = advise(methods.CorInfoMax(encoder, momentum=0.5), "complete")
    assert told == ["a lower invariance weight (now 250)", "longer warm-up"]


def test_a_setting_that_is_off_is_not_proposed():
    model = methods.ParametricInstanceDiscrimination(contract.plain_encoder(), 8, temperature=None)
    assert not any("temperature" in words for words in advise(model, "complete"))


# ---------------------------------------------------------------- how it fits into a run


def test_stop_ends_the_run_in_good_order():
    ended = []
    after = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: ended.append(epoch), on_train_end=lambda logs: ended.append("end")
    )
    watch = Health(contract.images(8), stop=2, patience=5, grace=0)
    history = fit(constant(), watch, epochs=10, others=[after])
    assert len(history["loss"]) == 2 and ended == [0, 1, "end"]
    assert watch.ended == "collapse" and "Complete collapse after epoch 2" in watch.reason and watch.warnings == []
    assert len(fit(Frozen(*spread()), watch, epochs=3)["loss"]) == 3  # and begins afresh
    assert watch.reason is None


def everything(model):
    return [ops.convert_to_numpy(v) for v in (*model.variables, *model.optimizer.variables)]


LOOKED_AT = ["vae", "moco", "swav-queue", "byol", "deepcluster"]


@pytest.mark.parametrize("case", LOOKED_AT)
def test_a_look_moves_no_state(case):
    num_views, make = contract.CASES[case]
    model = make(contract.Flips(num_views))
    model.compile(optimizer=keras.optimizers.Adam(1e-3))
    model.optimizer.build(model.trainable_variables)
    watch = Health(contract.images(16), batch_size=12)
    before, logs = everything(model), {"loss": 1.0}
    watch.set_params({"epochs": 2, "steps": 1, "verbose": 0})
    watch.set_model(model)
    watch.on_train_begin()
    watch.on_epoch_end(0, logs)
    for old, new in zip(before, everything(model), strict=True):
        np.testing.assert_array_equal(old, new)
    expected = {"loss", "health_std", "health_rank", "health_uniformity"}
    if num_views > 1:
        expected.add("health_alignment")
    if case in ("moco", "swav-queue", "byol"):
        expected.add("health_encoder_rank")
    if case in ("swav-queue", "deepcluster"):
        expected.add("health_prototypes")
    if case in ("moco", "swav-queue", "deepcluster"):
        expected.add("chance")
    assert set(logs) == expected
    assert np.isfinite(list(logs.values())).all()
    assert all(type(value) is float for value in logs.values())


def small_simclr():
    encoder = networks.encoder("mlp-small", (8, 8, 1), 10, seed=0)
    return methods.SimCLR(encoder, None, Views("simvae-digits", 2, seed=0))


def test_training_is_the_same_with_and_without_and_compiled_once(monkeypatch):
    """The views' own random state is among the variables, so its steps are compared too."""
    traced = []
    embed = methods.SimCLR.embed
    with_watch, without = small_simclr(), small_simclr()
    histories = []
    for model, callbacks in ((with_watch, [Health(contract.images(20), patience=9)]), (without, [])):
        model.compile(optimizer=keras.optimizers.Adam(1e-3))
        if callbacks:
            monkeypatch.setattr(
                methods.SimCLR, "embed", lambda self, views, training=False: traced.append(1) or embed(self, views)
            )
            callbacks.append(keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: traced.append("|")))
        keras.utils.set_random_seed(0)  # of the order of images
        fitted = model.fit(contract.images(24), batch_size=12, epochs=3, verbose=0, callbacks=callbacks)
        histories.append(fitted.history)
        monkeypatch.undo()
    assert histories[0]["loss"] == histories[1]["loss"]
    for ours, theirs in zip(everything(with_watch), everything(without), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    if keras.backend.backend() != "torch":  # where nothing is compiled
        assert traced[-2:] == ["|", "|"]


def test_ready_made_views_serve_a_model_without_views():
    model = methods.SimCLR(contract.plain_encoder())
    pairs = np.stack([contract.images(20) / 255, contract.images(20, seed=1) / 255], axis=1).astype("float32")
    logs = looks(model, Health(pairs), epochs=1)[0]
    embedded = [ops.convert_to_numpy(model.encoder(pairs[:, i])) for i in (0, 1)]
    assert logs["health_alignment"] == pytest.approx(health.alignment(*embedded), rel=1e-4)
    assert logs["health_rank"] == pytest.approx(health.effective_rank(embedded[0]), rel=1e-4)


def test_views_are_a_function_of_the_seed_and_are_measured_in_batches(monkeypatch):
    monkeypatch.setattr(Health, "ROWS", 16)
    model, images = small_simclr(), contract.images(21)
    logs, again = looks(model, Health(images, seed=7), epochs=2)
    drawn = ops.convert_to_numpy(model.views(images, training=True, seed=7, num_views=2))
    first, second = (ops.convert_to_numpy(model.embed(drawn[:, i])) for i in (0, 1))
    assert logs == again
    assert logs["health_alignment"] == pytest.approx(health.alignment(first, second), rel=1e-3)
    assert logs["health_uniformity"] == pytest.approx(health.uniformity(first), rel=1e-3)


def test_mixed_bfloat16():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        num_views, make = contract.CASES["swav-queue"]
        logs = looks(make(contract.Flips(num_views)), Health(contract.images(16), batch_size=12), epochs=1)[0]
    finally:
        keras.config.set_dtype_policy("float32")
    assert np.isfinite([logs[name] for name in ("health_std", "health_encoder_rank", "health_prototypes")]).all()


def test_every_second_epoch_and_the_last_are_looked_at():
    history = looks(Frozen(*spread()), Health(contract.images(8), every=2), epochs=5)
    assert ["health_std" in logs for logs in history] == [False, True, False, True, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"images": np.zeros((8, 8))}, r"images of shape \(8, 8\)"),
        ({"images": np.zeros((1, 8, 8, 1))}, "at least two"),
        ({"every": 0}, "every=0"),
        ({"patience": 0}, "patience=0"),
        ({"stop": -1}, "stop=-1"),
        ({"grace": 1.5}, "grace=1.5"),
        ({"batch_size": 0}, "batch_size=0"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(errors.InvalidInputError, match=message):
        Health(**{"images": contract.images(4), **arguments})


def test_what_does_not_fit_is_refused_before_training():
    plain = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    plain.compile(optimizer="sgd", loss="mse")
    with pytest.raises(errors.InvalidInputError, match="Received: model of type Sequential"):
        plain.fit(np.zeros((4, 2)), np.zeros((4, 1)), verbose=0, callbacks=[Health(contract.images(4))])
    with pytest.raises(errors.InvalidInputError, match=r"without `views`.*Received: images of shape \(4, 8, 8, 1\)"):
        looks(methods.SimCLR(contract.plain_encoder()), Health(contract.images(4)))
    with pytest.raises(errors.InvalidInputError, match="views of images must fit"):
        looks(Frozen(*spread()), Health(np.zeros((4, 9, 9, 1), "uint8")))


# ---------------------------------------------------------------- in a recipe


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sslzoo.callbacks.health.CollapseWarning")
def test_a_recipe_stops_on_collapse_and_its_results_say_why(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(health, "signs", lambda found, loss, chance: {"complete": 0.0})
    monkeypatch.setattr(Health.__init__, "__defaults__", (1, 0, 3, 0, None, 0))  # no grace
    small = ["--limit", "96", "--batch-size", "24", "--protocols", "knn", "--epochs", "9", "--stop-on-collapse", "2"]
    folder = recipe("vae").main([*small, "--out", str(tmp_path / "run")])
    assert "stopped by --stop-on-collapse" in capsys.readouterr().out
    results = json.loads((folder / "results.json").read_text())
    assert results["ended"] == "collapse"
    assert re.match(
        "Training was stopped by --stop-on-collapse. Complete collapse after epoch 2", results["remarks"][0]
    )
    assert (folder / "pictures" / "curves.png").exists()
    header, *rows = (tmp_path / "run" / "history.csv").read_text().splitlines()
    assert {"health_std", "health_rank", "health_uniformity", "health_alignment"} <= set(header.split(","))
    with np.load(tmp_path / "run" / "checkpoint.npz") as checkpoint:
        assert json.loads(str(checkpoint["note"]))["epochs_done"] == len(rows) == 2


def test_looking_at_views_moves_no_generator_of_theirs():
    views = Views([keras.layers.GaussianNoise(0.1)], 2, seed=0)
    views(np.zeros((2, 8, 8, 1), "uint8"), training=True)
    before = [ops.convert_to_numpy(each) for each in views.variables]
    watched_views(SimpleNamespace(views=views), np.zeros((4, 8, 8, 1), "uint8"), seed=1)
    assert len(before) >= 2
    for old, new in zip(before, views.variables, strict=True):
        np.testing.assert_array_equal(old, ops.convert_to_numpy(new))


def test_predictions_come_in_whole_batches_that_devices_can_share():
    sizes = []

    class Watched(keras.Model):
        def predict(self, x, batch_size, verbose):
            sizes.append((len(x), batch_size))
            return x.sum(axis=(1, 2, 3))[:, None]

    images = np.random.default_rng(0).uniform(size=(21, 4, 4, 1))
    np.testing.assert_allclose(predicted(Watched(), images, 8)[:, 0], images.sum(axis=(1, 2, 3)))
    assert sizes == [(8, 8)] * 3
    sizes.clear()
    assert predicted(Watched(), images[:5]).shape == (5, 1) and sizes == [(8, 8)]
    sizes.clear()

    def read(row):  # an image is decoded when its batch is due, not before
        assert row < 8 * len(sizes) + 8
        return images[row]

    streamed = data.StreamedImages(range(21), read, images.shape[1:], images.dtype)
    np.testing.assert_allclose(predicted(Watched(), streamed, 8)[:, 0], images.sum(axis=(1, 2, 3)))


def test_callbacks_refuse_wrong_numbers_and_make_their_folder(tmp_path):
    for wrong in ({"minutes": 0}, {"minutes": float("nan")}, {"minutes": "5"}, {"grace": -1}):
        with pytest.raises(errors.InvalidInputError, match="must be a number"):
            Stopwatch(**wrong)
    journal = Journal(tmp_path / "new" / "history.csv", 32)
    with pytest.raises(errors.InvalidInputError, match="mark must be a number from 0 to 1"):
        UntilKNN(90, journal)
    journal.on_train_begin()
    assert (tmp_path / "new").is_dir()


@pytest.mark.parametrize("error", [PermissionError(13, "Access is denied"), OSError(28, "No space left on device")])
def test_a_history_that_cannot_be_written_for_once_ends_no_training(error, tmp_path, monkeypatch, capsys):
    """Windows refuses to replace a file that a spreadsheet holds open; a disk may be full for a moment."""

    def held(path, content):
        raise error

    journal = Journal(tmp_path / "history.csv", 32)
    journal.on_train_begin()
    for epoch in (0, 1):
        monkeypatch.setattr("sslzoo.callbacks.checkpoint.write_beside", held if epoch == 0 else write_beside)
        journal.on_epoch_begin(epoch)
        journal.on_epoch_end(epoch, {"loss": 1.0})
    assert f"could not be written ({error.strerror})" in capsys.readouterr().out
    assert len(journal.path.read_text().splitlines()) == 3
