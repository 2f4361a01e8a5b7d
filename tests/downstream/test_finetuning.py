"""finetune: the head, what is trained, what comes back and what is written, and what is refused before any work."""

import json
import re

import keras
import numpy as np
import pytest
from PIL import Image
from tiers import tiered

import sslzoo
from sslzoo import data
from sslzoo.data import streams
from sslzoo.downstream import classifier as classifiers
from sslzoo.downstream import finetuning, labeled
from sslzoo.errors import ArtifactError, InvalidInputError, MissingDataError, UnknownNameError
from sslzoo.evaluation import datasets

QUICK = {"epochs": 1, "scratch": False}


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(finetuning, "LEAST_STEPS", 2)


def stripes(rows, classes=3, seed=0, size=8):
    """Images with a bright row, whose place is the class."""
    random = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    images = random.integers(0, 60, (rows, size, size, 3))
    images[np.arange(rows), 2 * labels + 1] += 150
    return images.astype("uint8"), labels


def make_encoder():
    keras.utils.set_random_seed(0)
    layers = keras.layers
    convolution = [layers.Conv2D(6, 3, padding="same", name="first"), layers.BatchNormalization(), layers.ReLU()]
    head = [layers.DepthwiseConv2D(3), layers.GlobalMaxPooling2D(), layers.Dense(5, name="last")]
    return keras.Sequential([keras.Input((8, 8, 3)), layers.Rescaling(1 / 255), *convolution, *head], name="tiny")


def make_folder(root, counts, size=8):
    for place, (name, count) in enumerate(counts.items()):
        (root / name).mkdir(parents=True)
        for number, image in enumerate(stripes(3 * count)[0][place::3]):
            Image.fromarray(image).resize((size, size)).save(root / name / f"{number}.png")
    return root


@pytest.mark.parametrize("mode", tiered(["full", "probe", "lora"], ["full", "lora"]))
def test_a_model_and_a_report_come_back(mode):
    encoder, (images, labels) = make_encoder(), stripes(60)
    before = [weight.copy() for weight in encoder.get_weights()]
    model, report = sslzoo.finetune(encoder, ((images, labels), stripes(30, seed=1)), mode=mode, epochs=2)
    assert type(model) is keras.Model or type(model).__name__ == "Functional"
    assert not any(isinstance(layer, keras.Model) for layer in model.layers)
    assert all(layer.trainable and not getattr(layer, "lora_enabled", False) for layer in model.layers)
    found = keras.ops.convert_to_numpy(model(images[:7].astype("float32")))
    assert found.shape == (7, 3)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    tuned = keras.Model(model.input, model.get_layer("logits").input)  # as docs/finetune.md has it
    features, before_it = (network.predict(images[:7], verbose=0) for network in (tuned, encoder))
    assert features.shape == (7, 5) and (mode != "probe" or np.allclose(features, before_it, atol=1e-5))
    assert list(report) == list(dict.fromkeys([mode, "probe", "scratch"])) and report.encoder == "tiny"
    assert report.data == {"name": "arrays", "train": 60, "test": 30, "features": 5, "classes": 3, "attribute": None}
    for numbers in report.numbers.values():
        values = {name: number.value for name, number in numbers.items()}
        assert values["accuracy_low"] <= values["accuracy"] <= values["accuracy_high"]
        assert values["accuracy"] == pytest.approx(values["balanced_accuracy"])  # ten test images of each class
    for weight, kept in zip(encoder.get_weights(), before):
        np.testing.assert_array_equal(weight, kept)
    assert sslzoo.evaluation.Report.from_json(report.to_json()) == report


def test_the_same_seed_gives_the_same_model():
    data = stripes(36), stripes(12, seed=1)
    one, other = (sslzoo.finetune(make_encoder(), data, labels=5, seed=3, **QUICK)[0] for _ in range(2))
    for mine, theirs in zip(one.get_weights(), other.get_weights()):
        np.testing.assert_array_equal(mine, theirs)


def test_the_same_seed_gives_the_same_dropout():
    inputs = keras.Input((8, 8, 3))
    x = keras.layers.Dropout(0.3)(keras.layers.Conv2D(4, 3, activation="relu")(inputs / 255))
    x = keras.layers.Dropout(0.3)(keras.layers.Conv2D(4, 3, activation="relu")(x))
    encoder = keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(x))
    one, other, third = (classifiers.Classifier(encoder, 3, seed).training for seed in (3, 3, 4))
    images = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3)).astype("float32")
    for model in (one, other, third):
        model.layers[-1].kernel.assign(np.eye(4, 3, dtype="float32"))
    drawn = [keras.ops.convert_to_numpy(model(images, training=True)) for model in (one, other, third)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.abs(drawn[0] - drawn[2]).max() > 1e-3
    states = [keras.ops.convert_to_numpy(each)[0] for each in one.variables if each.name == "seed_generator_state"]
    assert len(set(states)) == 2  # layers of one shape drop different places


def test_classes_without_train_images_are_missed_one_by_one():
    (images, labels), test = stripes(30), stripes(30, seed=1)
    known = labels < 2
    strange = (test[0], np.where(test[1] < 2, test[1], 2 + np.arange(len(test[1])) % 4))  # four classes
    _, report = sslzoo.finetune(make_encoder(), ((images[known], labels[known]), strange), mode="probe", scratch=False)
    probe = report.numbers["probe"]
    right = probe["accuracy"].value * 30 / 20  # ten images of either known class
    assert (
        probe["balanced_accuracy"].value == pytest.approx(right * 2 / 6) and probe["balanced_accuracy"].chance == 1 / 6
    )


@pytest.mark.parametrize(("mode", "first"), [("full", 0.1), ("lora", 1.0)])
def test_first_layers_are_slower_in_mode_full_alone(monkeypatch, mode, first):
    given, real = {}, finetuning.depth_factors

    def depth_factors(model, first):
        given[len(given)] = first
        return real(model, first)

    monkeypatch.setattr(finetuning, "depth_factors", depth_factors)
    data = stripes(30), stripes(12, seed=1)
    _, report = sslzoo.finetune(make_encoder(), data, mode=mode, epochs=1)
    assert given == {0: first, 1: 1.0}  # the second is from scratch
    assert ("depth_decay" in report.protocols[mode]) == (mode == "full")
    assert ("rank" in report.protocols[mode]) == (mode == "lora") and "rank" not in report.protocols["scratch"]


def test_it_learns_what_features_do_not_tell():
    """A mean over an image cannot tell the place of its stripe; convolutions before it can, once they are trained."""
    inputs = keras.Input((8, 8, 3))
    x = keras.layers.Conv2D(8, (8, 1), kernel_initializer=keras.initializers.RandomNormal(0.01, seed=0))(inputs / 255)
    encoder = keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(keras.layers.ReLU()(x)))
    data = stripes(90), stripes(60, seed=1)
    _, report = sslzoo.finetune(encoder, data, epochs=12, learning_rate=0.01, depth_decay=1, flip=False, scratch=False)
    assert report["full"]["accuracy"] >= max(0.9, report["probe"]["accuracy"])


def test_seeds_give_an_interval_of_their_mean():
    data = stripes(30), stripes(30, seed=1)
    _, report = sslzoo.finetune(make_encoder(), data, mode="probe", labels=4, seeds=3, scratch=False)
    each = [
        sslzoo.finetune(make_encoder(), data, mode="probe", labels=4, seed=seed, scratch=False)[1] for seed in range(3)
    ]
    shares = [one["probe"]["accuracy"] for one in each]
    assert report.seeds == [0, 1, 2] and report["probe"]["accuracy"] == pytest.approx(np.mean(shares))
    assert report.numbers["probe"]["accuracy"].error == pytest.approx(np.std(shares, ddof=1) / 3**0.5)
    strengths = {re.search(r"C = [\d.]+", one.numbers["probe"]["accuracy"].note)[0] for one in each}
    assert ("(seed 0)" in report.numbers["probe"]["accuracy"].note) == (len(strengths) > 1)  # whose choice is told
    low, high = finetuning.interval(shares, 30)
    assert (report["probe"]["accuracy_low"], report["probe"]["accuracy_high"]) == (low, high)


def test_intervals_are_those_of_the_books():
    # Wilson for 8 of 10 (Newcombe 1998, method 3), and t with two degrees of freedom: 4.3027.
    assert finetuning.interval([0.8], 10) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)
    assert finetuning.interval([0.5, 0.6, 0.7], 10) == pytest.approx(
        (0.6 - 4.302653 * 0.1 / 3**0.5, 0.8484138), abs=1e-6
    )


# ---------------------------------------------------------------------- the head, low-rank terms, rates


@pytest.mark.parametrize("classes", [2, 4])
def test_the_head_is_the_regression_on_standardised_features(classes):
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    random = np.random.default_rng(0)
    labels = np.arange(80) % classes
    rows = (random.normal(size=(80, 5)) + labels[:, None]) * [1, 100, 0.01, 1, 0] + [0, 500, 0, 3, 7]
    head = keras.layers.Dense(classes)
    head.build((None, 5))
    chosen = classifiers.fit_head(head, rows[:60], labels[:60], rows[60:], labels[60:], False)
    scaler = StandardScaler().fit(rows[:60])
    expected = LogisticRegression(C=chosen, max_iter=500).fit(scaler.transform(rows[:60]), labels[:60])
    found = keras.ops.convert_to_numpy(keras.ops.softmax(head(rows.astype("float32"))))
    np.testing.assert_allclose(found, expected.predict_proba(scaler.transform(rows)), atol=2e-4)


def test_low_rank_terms_are_merged():
    tuned, plain = (classifiers.Classifier(make_encoder(), 3) for _ in range(2))
    assert classifiers.add_low_rank(tuned, 2, seed=0) == 2  # a depthwise kernel has none
    names = {variable.path for variable in tuned.training.trainable_variables}
    assert names == {f"{layer}/lora_kernel_{x}" for layer in ("first", "last") for x in "ab"} | {
        "logits/kernel",
        "logits/bias",
    }
    for layer in ("first", "last"):
        term = tuned.training.get_layer(layer).lora_kernel_b
        term.assign(np.random.default_rng(0).normal(size=term.shape))
    plain.training.set_weights(tuned.weights())
    tuned.head.set_weights([np.eye(5, 3), np.zeros(3)])
    plain.head.set_weights([np.eye(5, 3), np.zeros(3)])
    images = stripes(6)[0].astype("float32")
    ours, theirs = (keras.ops.convert_to_numpy(each.training(images)) for each in (plain, tuned))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    untouched = keras.ops.convert_to_numpy(classifiers.Classifier(make_encoder(), 3).features(images))
    assert np.abs(untouched - keras.ops.convert_to_numpy(plain.features(images))).max() > 0.1


def test_rates_grow_with_depth():
    model = keras.Sequential([keras.Input((3,)), *(keras.layers.Dense(2, name=f"d{i}") for i in range(3))])
    assert classifiers.depth_factors(model, 0.01) == pytest.approx([0.01, 0.01, 0.1, 0.1, 1, 1])
    before = model.get_weights()
    model.compile(classifiers.GradedAdam(0.1, [0, 0, 0, 0, 0.5, 1]), "mse")
    model.fit(np.ones((4, 3)), np.full((4, 2), 9.0), epochs=1, batch_size=4, verbose=0)
    moved = [np.abs(now - then) for now, then in zip(model.get_weights(), before)]
    assert not any(change.any() for change in moved[:4])
    np.testing.assert_allclose(moved[5], 0.1, rtol=1e-3)  # Adam's first step is the rate itself
    assert moved[4].max() == pytest.approx(0.05, rel=1e-3)


# ---------------------------------------------------------------------- data


def test_a_folder_of_classes_becomes_a_folder_of_a_model(tmp_path):
    photos = make_folder(tmp_path / "My Photos", {"cat": 9, "dog": 9, "=cow": 9}, size=12)
    out = tmp_path / "Cats & dogs"
    model, report = sslzoo.finetune(make_encoder(), photos, out=out, mode="probe", license="cc0-1.0", scratch=False)
    loaded, images = sslzoo.load(out), stripes(4)[0]
    np.testing.assert_allclose(loaded.predict(images, verbose=0), model.predict(images, verbose=0), atol=1e-6)
    results = json.loads((out / "results.json").read_text())
    assert results["name"] == "cats-dogs" and results["classes"] == ["=cow", "cat", "dog"]
    assert results["dataset"] == "My Photos" and results["metrics"] == report.metrics()
    card = (out / "README.md").read_text()
    assert "pipeline_tag: image-classification" in card and "`=cow`, `cat`, `dog`" in card
    assert "without labels" not in card and str(tmp_path) not in card + json.dumps(results)
    assert any("20%" in remark for remark in report.remarks)  # there were no test images
    assert sslzoo.info(out)["classes"] == results["classes"] and "probabilities of =cow, cat" in str(sslzoo.info(out))
    with pytest.raises(ArtifactError, match="overwrite=True"):
        sslzoo.finetune(make_encoder(), photos, out=out)


def test_a_classifier_of_an_encoder_of_any_size_has_the_size_that_it_was_trained_at(tmp_path):
    layers = keras.layers
    any_size = keras.Sequential([keras.Input((None, None, 3)), layers.Conv2D(4, 3), layers.GlobalAveragePooling2D()])
    photos = make_folder(tmp_path / "photos", {"cat": 9, "dog": 9}, size=20)
    out = tmp_path / "model"
    model, _ = sslzoo.finetune(any_size, photos, image_size=12, out=out, mode="full", **QUICK)
    assert model.input_shape == sslzoo.load(out).input_shape == (None, 12, 12, 3)
    assert json.loads((out / "results.json").read_text())["input_shape"] == [12, 12, 3]


def test_what_a_classifier_is_trained_on_no_evaluation_tests_with(tmp_path):
    photos = make_folder(tmp_path / "photos", {"cat": 11, "dog": 17, "=cow": 9})
    of_finetune = labeled.read(photos, (8, 8, 3))
    _, train, test, _ = datasets.read(photos, None, None, (8, 8, 3))
    for ours, theirs in ((of_finetune.train_images, train[0]), (of_finetune.test_images, test[0])):
        np.testing.assert_array_equal(ours, theirs)


def test_a_class_without_a_name_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(finetuning, "_run", None)
    images, labels = stripes(30)
    with pytest.raises(InvalidInputError, match=r"A class must have a name.*Received: ''"):
        sslzoo.finetune(make_encoder(), (images, np.array(["", "a", "b"])[labels]))


def test_labels_may_have_gaps_and_names(tmp_path):
    (images, labels), (test, truth) = stripes(30), stripes(12, seed=1)
    kept = np.array([3, 7, 40])
    found = labeled.read(((images, kept[labels]), (test, np.where(truth == 2, 5, kept[truth]))), (8, 8, 3))
    assert found.classes == ["3", "7", "40"] and np.array_equal(found.train_labels, labels)
    assert np.array_equal(found.test_labels, np.where(truth == 2, -1, truth))
    assert any("4 test images" in remark for remark in found.remarks)
    named = np.array(["owl", "cat", "dog"])
    for kind in str, object:  # as NumPy and as columns of tables hold strings
        found = labeled.read(((images, named[labels].astype(kind)), (test, named[truth])), (8, 8, 3))
        assert found.classes == ["cat", "dog", "owl"]
        assert np.array_equal(np.array(found.classes)[found.test_labels], named[truth])
    for wrong in [*named[labels][1:], 3], [*named[labels][1:], None]:
        with pytest.raises(InvalidInputError, match="labels must be integers"):
            labeled.read((images, np.array(wrong, object)), (8, 8, 3))
    np.savez(tmp_path / "one.npz", images=images, labels=labels)
    halved = labeled.read(tmp_path / "one.npz", (8, 8, 3), test_share=0.5)
    assert len(halved.test_labels) == 15 and halved.name == "one"
    assert labeled.read("digits", (None, None, None)).test_images.shape == (360, 8, 8, 1)


def test_images_that_stay_in_their_files_make_the_same_classifier(tmp_path, monkeypatch):
    folder = make_folder(tmp_path / "photos", {"cat": 16, "dog": 10, "owl": 9})
    kinds, run = [], finetuning._run
    monkeypatch.setattr(finetuning, "_run", lambda *args: kinds.append(type(args[1].train_images)) or run(*args))
    options = {"batch_size": 4, "seed": 1, **QUICK}
    (here, report), (streamed, again) = (
        sslzoo.finetune(make_encoder(), folder, stream=stream, **options) for stream in (False, True)
    )
    assert kinds == [np.ndarray, data.StreamedImages]
    for mine, theirs in zip(here.get_weights(), streamed.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert (again.numbers, again.confusion, again.data) == (report.numbers, report.confusion, report.data)
    assert again.remarks == report.remarks
    monkeypatch.setattr(streams, "available_memory", lambda: 0)  # no room for a copy of those that train
    gathered, again = sslzoo.finetune(make_encoder(), folder, stream=False, **options)
    assert again.numbers == report.numbers
    for mine, theirs in zip(here.get_weights(), gathered.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_images_that_cannot_be_read_are_left_out_and_named_here_only(tmp_path, monkeypatch):
    folder = make_folder(tmp_path / "photos", {"cat": 10, "dog": 10})
    (folder / "cat" / "broken.png").write_bytes(b"none")
    monkeypatch.setattr("sslzoo.data.streams.available_memory", lambda: 0.0)
    with pytest.raises(InvalidInputError, match=r"broken\.png"):
        sslzoo.finetune(make_encoder(), folder, mode="probe", **QUICK)
    out = tmp_path / "made"
    _, report = sslzoo.finetune(make_encoder(), folder, mode="probe", on_error="skip", out=out, **QUICK)
    assert report.data["train"] == 16 and sum("broken.png" in remark for remark in report.remarks) == 1
    assert any("stay in their files" in remark for remark in report.remarks)
    written = "".join(file.read_text("utf-8") for file in (out / "results.json", out / "README.md"))
    assert "1 of 17 images could not be read" in written and "broken.png" not in written and "--stream" not in written


def test_images_in_files_are_fitted_as_they_are_read(tmp_path, monkeypatch):
    folder = make_folder(tmp_path / "photos", {"cat": 6, "dog": 6})
    for file in folder.glob("*/*.png"):
        with Image.open(file) as image:
            image.convert("L").save(file)
    here, there = (labeled.read(folder, (8, 6, 3), stream=stream) for stream in (False, True))
    assert isinstance(there.train_images, data.StreamedImages) and there.train_images.shape == here.train_images.shape
    np.testing.assert_array_equal(there.train_images[:], here.train_images)
    np.testing.assert_array_equal(there.test_images[[1, 0]], here.test_images[[1, 0]])
    assert there.remarks == here.remarks and any("from gray to color" in remark for remark in there.remarks)
    monkeypatch.setattr("sslzoo.data.streams.available_memory", lambda: 0.0)
    assert isinstance(labeled.read(folder, (8, 8, 3), stream="auto").train_images, data.StreamedImages)


def test_test_images_are_those_that_training_holds_out_also_where_some_cannot_be_read(tmp_path):
    folder = make_folder(tmp_path / "photos", {"cat": 12, "dog": 12})
    sorted(folder.glob("cat/*.png"))[3].write_bytes(b"none")
    found = labeled.read(folder, (8, 8, 3), on_error="skip")
    options = {"labels": "folders", "test_share": 0.2, "on_error": "skip"}
    for split, ours in (("train", found.train_images), ("test", found.test_images)):
        np.testing.assert_array_equal(data.load(folder, split, **options)[0], ours)


@pytest.mark.parametrize("shape", [(8, 16, 3), (16, 8, 3)])
def test_images_of_an_oblong_encoder_are_read_as_embed_reads_them(tmp_path, shape):
    random = np.random.default_rng(0)
    for n in range(20):
        pixels = random.integers(0, 256, (24, 48, 3)).astype("uint8")
        (tmp_path / "photos" / str(n % 2)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "photos" / str(n % 2) / f"{n}.png")
    encoder = keras.Sequential([keras.Input(shape), keras.layers.Flatten()])
    seen = sslzoo.embed(encoder, tmp_path / "photos").features.reshape(-1, *shape)
    found = labeled.read(tmp_path / "photos", shape)
    ours = np.concatenate([found.train_images, found.test_images])
    assert {image.tobytes() for image in ours} == {image.tobytes() for image in seen.astype("uint8")}
    name, (train, _), (test, _), _ = datasets.read(tmp_path / "photos", None, None, shape)
    assert name == "photos" and {image.tobytes() for image in (*train, *test)} == {image.tobytes() for image in ours}


def test_each_class_is_held_out_and_left():
    labels = np.repeat([0, 1, 2], [2, 10, 101])
    held = labeled.split_off(labels, 0.3, seed=0)
    assert np.bincount(labels[held]).tolist() == [1, 3, 30]
    assert np.bincount(labels[labeled.split_off(labels, 0.99, seed=0)]).tolist() == [1, 9, 100]


def test_classes_of_very_different_size_weigh_the_same():
    assert labeled.class_weights(np.repeat([0, 1], [10, 14])) is None
    weights = labeled.class_weights(np.repeat([0, 1], [10, 30]))
    assert weights == {0: 2.0, 1: pytest.approx(2 / 3)}
    images, labels = stripes(80, classes=2)
    rows = np.concatenate([np.flatnonzero(labels == 0)[:8], np.flatnonzero(labels == 1)])
    data = (images[rows], labels[rows]), stripes(20, classes=2, seed=1)
    _, report = sslzoo.finetune(make_encoder(), data, **QUICK)
    assert any("6 to 32 images" in remark for remark in report.remarks)


@pytest.mark.slow
def test_a_backbone_by_name(tmp_path):
    data = stripes(24, size=32), stripes(12, size=32, seed=1)
    model, report = sslzoo.finetune("keras:MobileNetV3Small", data, mode="probe", scratch=False, out=tmp_path / "m")
    assert model.input_shape == (None, 32, 32, 3) and report.encoder == "keras:MobileNetV3Small"
    assert any("random weights" in remark for remark in report.remarks)
    assert sslzoo.load(tmp_path / "m").output_shape == (None, 3)


# ---------------------------------------------------------------------- wrong ways


@pytest.mark.parametrize(
    "options,error,message",
    [
        ({"mode": "ful"}, UnknownNameError, "Did you mean 'full'"),
        ({"labels": 1}, InvalidInputError, "labels must be an integer >= 2"),
        ({"labels": 50}, InvalidInputError, "Received: labels=50, 10 of class '0'"),
        ({"labels": "folder"}, UnknownNameError, "'folders'"),
        ({"held_out": 0}, InvalidInputError, "held_out must be a number > 0"),
        ({"held_out": 1.0}, InvalidInputError, "held_out must be a number from 0 to 0.9"),
        ({"flip": 0}, InvalidInputError, "flip must be True or False. Received: flip=0"),
        ({"scratch": "no"}, InvalidInputError, "scratch must be True or False. Received: scratch='no'"),
        ({"overwrite": "x"}, InvalidInputError, "overwrite must be True or False"),
        ({"depth_decay": 2}, InvalidInputError, "depth_decay must be a number from 0 to 1"),
        ({"test_share": 0.5}, InvalidInputError, "test_share is for a set without test images"),
        ({"pretrained": True}, InvalidInputError, "pretrained is for backbones"),
        ({"out": "///"}, ArtifactError, "A model"),
        ({"license": "Mine!", "out": "x"}, InvalidInputError, "license must be"),
        ({"seeds": 0}, InvalidInputError, "seeds must be"),
        ({"stream": True}, InvalidInputError, "`stream` is for a folder"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_arguments_are_refused_before_any_work(monkeypatch, options, error, message):
    monkeypatch.setattr(finetuning, "_run", None)
    with pytest.raises(error, match=message):
        sslzoo.finetune(make_encoder(), (stripes(30), stripes(6)), **options)


@pytest.mark.parametrize("out", ["", "."])
def test_the_current_folder_is_not_replaced(out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(finetuning, "_run", None)
    with pytest.raises(ArtifactError, match="the current folder is this one"):
        sslzoo.finetune(make_encoder(), (stripes(30), stripes(6)), out=out)


def test_data_is_refused_before_any_work(monkeypatch, tmp_path):
    monkeypatch.setattr(finetuning, "_run", None)
    encoder, (images, labels) = make_encoder(), stripes(12)
    test = images, labels
    for given, message in [
        (((images, None), test), "needs the class of each image"),
        (((images, np.zeros(12, int)), test), "at least 2 classes. Received: 1 class"),
        (((images, np.append(labels[:-1], 9)), test), "at least 2 images.*Received: classes of 1 image: 9"),
        ((images, ["cat"] + ["dog"] * 11), "at least 3 images: one to learn from.*Received: 1 of cat"),
        ((stripes(12, size=10), stripes(12, size=10)), "fit the encoder's input"),
        (images, "dataset must be"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            sslzoo.finetune(encoder, given)
    with pytest.raises(InvalidInputError, match="at least two folders"):
        sslzoo.finetune(encoder, make_folder(tmp_path / "one", {"cat": 3}))
    with pytest.raises(InvalidInputError, match="Received: 1 of cat, 1 of emu"):
        sslzoo.finetune(encoder, make_folder(tmp_path / "single", {"cat": 1, "dog": 3, "emu": 1}))
    with pytest.raises(MissingDataError):
        sslzoo.finetune(encoder, tmp_path / "none")
    np.savez(tmp_path / "bare.npz", images=images)
    with pytest.raises(InvalidInputError, match="needs the class of each image"):
        sslzoo.finetune(encoder, tmp_path / "bare.npz")
    for wrong in (keras.layers.Flatten(), keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Conv2D(2, 3)])):
        with pytest.raises(InvalidInputError, match="encoder must"):
            sslzoo.finetune(wrong, (test, test))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda encoder: encoder.get_layer("last").quantize("int8"), "layer 'last' has quantization_mode='int8'"),
        (lambda encoder: encoder.get_layer("last").enable_lora(2), "layer 'last' has lora_rank=2"),
    ],
    ids=["quantized", "low-rank"],
)
def test_kernels_that_cannot_be_trained_are_told_before_any_work(monkeypatch, change, said):
    encoder, images = make_encoder(), (stripes(30), stripes(6))
    change(encoder)
    sslzoo.finetune(encoder, images, mode="probe", scratch=False)  # which leaves them as they are
    monkeypatch.setattr(finetuning, "_run", None)
    for options in ({"scratch": False}, {"mode": "lora", "scratch": False}, {"mode": "probe"}):
        with pytest.raises(InvalidInputError, match=f"plain kernels.*Received: .*{said}"):
            sslzoo.finetune(encoder, images, **options)


def test_an_encoder_that_measured_its_images_is_trained_from_scratch_too():
    """It was refused there, after the probe and the whole network had been trained."""
    images, keep = (stripes(60), stripes(30)), keras.layers.Normalization(axis=None)
    keep.adapt(images[0][0])
    network = [keep, keras.layers.Flatten(), keras.layers.Dense(5)]
    encoder = keras.Sequential([keras.Input((8, 8, 3)), *network], name="measured")
    assert list(sslzoo.finetune(encoder, images, epochs=1)[1]) == ["full", "probe", "scratch"]


def test_what_cannot_be_drawn_anew_is_told_before_any_work(monkeypatch):
    network = [keras.layers.Flatten(), keras.layers.Dense(5, kernel_initializer="identity")]
    encoder = keras.Sequential([keras.Input((8, 8, 3)), *network], name="odd")
    monkeypatch.setattr(finetuning, "_run", None)
    with pytest.raises(InvalidInputError, match="Received: initializer=Identity"):
        sslzoo.finetune(encoder, (stripes(30), stripes(6)))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"seed": 2**31 - 1, "seeds": 2}, "Received: seed=2147483648"), ({"learning_rate": 0}, "learning_rate must be")],
)
def test_numbers_that_would_end_a_later_part_are_refused_at_once(wrong, said):
    with pytest.raises(InvalidInputError, match=said):
        sslzoo.finetune(None, "nowhere", **wrong)


def test_a_folder_validation_stands_for_test(tmp_path):
    make_folder(tmp_path / "photos" / "train", {"cat": 12, "dog": 12})
    make_folder(tmp_path / "photos" / "val", {"cat": 5, "dog": 6})
    _, report = sslzoo.finetune(make_encoder(), tmp_path / "photos", mode="probe", **QUICK)
    assert report.data["train"] == 24 and report.data["test"] == 11
    measured = sslzoo.evaluate(make_encoder(), tmp_path / "photos", protocols="knn")
    assert measured.data["train"] == 24 and measured.data["test"] == 11
    for remarks in (report.remarks, measured.remarks):
        assert "There is no split test: the images of validation are tested with." in remarks


def test_held_out_classes_weigh_the_same_however_few_images_of_them_train(monkeypatch):
    kept, weighed = [], labeled.Weighed
    monkeypatch.setattr(labeled, "Weighed", lambda *arrays: kept.append(arrays) or weighed(*arrays))
    images, _ = stripes(60)
    labels = np.repeat([0, 1], [3, 57])  # 2 and 46 train
    sslzoo.finetune(make_encoder(), ((images, labels), stripes(30, seed=1)), mode="full", epochs=1, scratch=False)
    [(_, held, weights)] = kept
    sums = np.bincount(held, weights)
    assert len(sums) == 2 and sums[0] == pytest.approx(sums[1])


def test_a_classifier_that_cannot_be_written_is_left_elsewhere(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(finetuning.publishing, "write", full)
    monkeypatch.setattr(finetuning.tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ArtifactError, match=r"trained, and could not be written .*No space left.* left in"):
        sslzoo.finetune(make_encoder(), (stripes(30), stripes(30, seed=1)), mode="probe", out=tmp_path / "made")
    [spare] = tmp_path.glob("made-*.keras")  # beside it, where there is room for a file
    assert keras.models.load_model(spare).output_shape == (None, 3)


def test_a_classifier_for_which_there_is_no_room_anywhere_is_told_to_be_lost(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(finetuning.publishing, "write", full)
    monkeypatch.setattr(finetuning, "save", full)
    monkeypatch.setattr(finetuning.tempfile, "gettempdir", full)
    with pytest.raises(ArtifactError, match=r"trained, and could not be written .*No space left.*it is lost.*out="):
        sslzoo.finetune(make_encoder(), (stripes(30), stripes(30, seed=1)), mode="probe", out=tmp_path / "made")


@pytest.mark.parametrize(
    ("settings", "flips"), [({"policy": "xray", "flip": None}, False), ({"policy": "photos"}, True)]
)
def test_what_was_trained_unmirrored_for_its_kind_is_not_mirrored(settings, flips, tmp_path, monkeypatch):
    sslzoo.publishing.write(tmp_path / "mine", make_encoder(), settings=settings)
    kept, fit = [], finetuning._fit
    monkeypatch.setattr(finetuning, "_fit", lambda *args: kept.append(args[4].flip) or fit(*args))
    folder = make_folder(tmp_path / "photos", {"cat": 8, "dog": 8})
    sslzoo.finetune(tmp_path / "mine", folder, mode="full", epochs=1, scratch=False)
    assert kept == [flips]
