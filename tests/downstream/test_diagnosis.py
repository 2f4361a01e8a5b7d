"""Diagnoses: each way to be ill is found by its number, healthy encoders pass, encoders of any library are read."""

import json
import math
import sys

import keras
import numpy as np
import pytest
from PIL import Image

import sslzoo
from sslzoo import cli, methods, views
from sslzoo.downstream import diagnosis, encoders, images, ranking
from sslzoo.errors import BackendError, InvalidInputError, MissingDataError, UnknownNameError

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(300, 16))
IMAGES = rng.integers(0, 256, (60, 8, 8, 1)).astype("uint8")


def signs(*given, **options):
    return [finding.sign for finding in sslzoo.diagnose(*given, **options).findings]


def pixels(name="pixels", scale=1.0):
    layers = [keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Rescaling(scale)]
    return keras.Sequential(layers, name=name)


# ---------------------------------------------------------------- findings


def test_isotropic_features_are_healthy():
    found = sslzoo.diagnose(ROWS, name="mine")
    assert found.healthy and found.findings == [] and found.tries == []
    assert found.verdict.startswith("healthy: 15.") and "of 16 directions" in found.verdict
    assert "alignment" not in found.measures and found.viewed is None
    assert repr(found) == f"<Diagnosis of mine: {found.verdict}>"


def test_what_is_healthy_but_for_a_few_dead_features_needs_no_advice():
    rows = np.random.default_rng(0).normal(size=(300, 32))
    rows[:, :2] = 0
    found = diagnosis.diagnose(rows)
    assert found.healthy and found.findings[0].tries and found.tries == []
    assert "Also: 2 of 32 features are dead." in str(found) and "Try:" not in str(found)


@pytest.mark.parametrize(
    ("rows", "sign"),
    [
        (np.ones((50, 8)), "equal"),
        (1 + 1e-4 * rng.normal(size=(50, 1)) * np.ones(8), "complete"),
        (rng.normal(size=(50, 1)) * np.arange(1, 9), "dimensional"),
        (np.repeat(ROWS[:20], 5, axis=0), "equal"),
        (np.hstack([ROWS[:, :4], np.zeros((300, 12))]), "dead"),
        (np.hstack([ROWS[:, :4]] * 4), "repeated"),
    ],
)
def test_each_illness_is_found(rows, sign):
    found = sslzoo.diagnose(rows)
    assert not found.healthy and found.tries
    assert found.findings[0].sign == sign and found.verdict == f"unhealthy: {found.findings[0].what}"


def test_a_cone_is_collapse_unless_images_are_distinguished_in_it():
    center = 1000 * np.ones(16)
    tight = ROWS[:100, None] + 0.1 * rng.normal(size=(100, 3, 16))
    found = sslzoo.diagnose(ROWS + center, views=tight + center)
    assert found.healthy and found.findings[0].sign == "cone" and found.measures["mean_cosine"] > 0.999
    blurred = 0.1 * ROWS[:100, None] + rng.normal(size=(100, 3, 16))
    assert signs(ROWS + center, views=blurred + center) == ["complete", "blind"]


def test_large_features_point_to_the_rate():
    line = 1e6 * rng.normal(size=(100, 1)) * np.arange(1, 9)
    assert "likely the rate" in sslzoo.diagnose(line).verdict
    assert "likely the rate" not in sslzoo.diagnose(1e-6 * line).verdict
    for size, healthy in ((1e4, True), (1e7, False)):
        found = sslzoo.diagnose(size * ROWS)
        assert found.findings[0].sign == "large" and found.healthy == healthy
    dead = np.concatenate([1e7 * ROWS[:, 1:], np.zeros_like(ROWS[:, :1])], axis=1)
    assert signs(dead) == ["large", "dead"]  # the grave one first


def test_views_of_nothing_are_blind():
    seen = rng.normal(size=(50, 4, 16))
    found = sslzoo.diagnose(ROWS, views=seen)
    assert found.findings[0].sign == "blind" and found.measures["separation"] == pytest.approx(1, abs=0.1)
    assert found.policy == "views given" and found.viewed == (50, 4)


def test_images_in_0_1_are_a_fault_of_range():
    found = sslzoo.diagnose("simclr-digits", (sslzoo.data.load("digits", "train")[0][:100] / 255).astype("float32"))
    assert found.findings[0].sign == "range" and "images in 0..1 look black" in found.verdict
    assert sslzoo.diagnose(pixels(), IMAGES).findings == []


def test_json_has_no_infinity():
    record = json.loads(sslzoo.diagnose(rng.normal(size=(50, 1)) * np.ones(4)).to_json())
    assert record["measures"]["alpha_req"] is None and record["healthy"] is False and record["features"] == 4


# ---------------------------------------------------------------- measures and views


def test_measures_are_those_of_features_and_views():
    seen = ROWS[:40, None] + 0.3 * rng.normal(size=(40, 3, 16))
    found, of = sslzoo.diagnose(ROWS, views=seen).measures, sslzoo.evaluation.measures
    assert list(found) == list(diagnosis.MEASURES)
    assert found["effective_rank"] == pytest.approx(of.effective_rank(ROWS), rel=1e-5)
    assert found["lidar"] == pytest.approx(of.lidar(seen), rel=1e-5)
    assert found["separation"] == pytest.approx(
        of.distance(seen[:, 0]) / of.alignment(seen[:, 0], seen[:, 1]), rel=1e-5
    )
    assert found["magnitude"] == pytest.approx(np.sqrt(np.mean(ROWS**2)), rel=1e-5)


@pytest.mark.parametrize("value_range", [(0.0, 255.0), (-1.0, 3.0)])
def test_views_are_raw_images_again(value_range):
    low, high = value_range
    raw = (low + (high - low) * IMAGES[:8] / 255.0).astype("float32")
    made = images.views_of(raw, "simvae-mnist", 3, value_range=value_range)
    assert made.shape == (8, 3, 8, 8, 1) and made.dtype == np.float32
    assert low <= made.min() < made.max() <= high
    assert np.unique(made).size > 50  # the threshold of that policy is the encoder's
    again = images.views_of(raw, "simvae-mnist", 3, value_range=value_range)
    np.testing.assert_array_equal(made, again)


def test_the_policy_is_the_encoders_or_fits_the_images():
    assert sslzoo.diagnose("simclr-digits", "digits", most=40, num_views=2).policy == "simvae-digits"
    assert sslzoo.diagnose(pixels(), IMAGES, num_views=2).policy == "simvae-digits"
    assert sslzoo.diagnose(pixels(), IMAGES, views=False).policy is None
    assert sslzoo.diagnose(pixels(), IMAGES, views="channels").policy == "channels"
    shapes = {(224, 224, 3): "photos", (32, 32, 3): "simvae-cifar10", (28, 28, 1): "simvae-mnist"}
    shapes |= {(300, 200, 1): "xray", (64, 64, 6): "channels"}
    assert {shape: images.default_policy(shape) for shape in shapes} == shapes
    assert set(shapes.values()) <= set(views.POLICIES)


def test_views_that_are_given_are_embedded():
    given = np.repeat(IMAGES[:10, None], 3, axis=1)
    found = sslzoo.diagnose(pixels(), IMAGES, views=given)
    assert found.measures["alignment"] == 0 and found.to_dict()["measures"]["separation"] is None


# ---------------------------------------------------------------- encoders of any library


def test_a_function_an_embedding_and_its_file_are_measured_alike(tmp_path):
    flat = IMAGES.reshape(60, -1).astype("float32")
    embedding = sslzoo.embed(pixels(), IMAGES)
    np.savez(tmp_path / "features.npz", **embedding.arrays())
    expected = sslzoo.diagnose(flat).measures
    for given in (embedding, tmp_path / "features.npz", flat.tolist()):
        assert sslzoo.diagnose(given).measures == expected
    for encoder in (pixels(), lambda batch: batch.reshape(len(batch), -1)):
        assert sslzoo.diagnose(encoder, IMAGES, views=False).measures == pytest.approx(expected, rel=1e-5)


def test_a_torch_module_is_given_what_it_takes():
    torch = pytest.importorskip("torch")
    module = torch.nn.Flatten()
    for scale in (None, 1.0):
        encoder = encoders.as_encoder(module, scale)
        rows = encoders.features_of(encoder, IMAGES)
        np.testing.assert_allclose(rows, IMAGES.reshape(60, -1) * (scale or 1 / 255), rtol=1e-6)
    assert sslzoo.diagnose(module, IMAGES).name == "Flatten"


def test_a_function_of_other_axes_and_batches():
    encoder = encoders.FunctionEncoder(lambda batch: batch[:, 0, 0], scale=2.0, channels_first=True)
    rows = encoders.features_of(encoder, IMAGES, batch_size=7)
    np.testing.assert_array_equal(rows, 2.0 * IMAGES[:, 0, :, 0])


@pytest.mark.parametrize("batch", ["B", 4])
def test_an_onnx_file_is_run(tmp_path, batch):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    axes = onnx.helper.make_tensor_value_info
    taken, given = axes("images", 1, [batch, 1, 8, 8]), axes("features", 1, [batch, 64])
    node = onnx.helper.make_node("Flatten", ["images"], ["features"])
    graph = onnx.helper.make_graph([node], "flat", [taken], [given])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "flat.onnx")
    encoder = encoders.as_encoder(tmp_path / "flat.onnx")
    assert encoder.input_shape == (None, 8, 8, 1)
    rows = encoders.features_of(encoder, IMAGES, batch_size=11)
    np.testing.assert_allclose(rows, IMAGES.reshape(60, -1) / 255, rtol=1e-6)


@pytest.mark.parametrize(("kind", "scale"), [(10, 1 / 255), (2, 1), (7, None)])
def test_onnx_files_of_other_dtypes(tmp_path, kind, scale):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    axes = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("Flatten", ["x"], ["flat"])]
    nodes += [onnx.helper.make_node("Cast", ["flat"], ["features"], to=1)]
    graph = onnx.helper.make_graph(nodes, "flat", [axes("x", kind, ["B", 8, 8, 1])], [axes("features", 1, ["B", 64])])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "flat.onnx")
    if scale is None:
        with pytest.raises(InvalidInputError, match=r"float32 or float16 or uint8. Received: input of tensor\(int64\)"):
            encoders.as_encoder(tmp_path / "flat.onnx")
        return
    encoder = encoders.as_encoder(tmp_path / "flat.onnx")
    rows = encoders.features_of(encoder, IMAGES, batch_size=11)
    np.testing.assert_allclose(rows, IMAGES.reshape(60, -1) * scale, rtol=1e-3, atol=1e-6)
    if scale == 1:
        views = np.float32([-3.0, 0.6, 254.6, 300.0] * 16).reshape(1, 8, 8, 1)
        assert encoders.features_of(encoder, views)[0, :4].tolist() == [0, 1, 255, 255]
        with pytest.raises(InvalidInputError, match="takes uint8 scales images itself"):
            encoders.as_encoder(tmp_path / "flat.onnx", 1 / 255)
        spared = encoders.as_encoder(tmp_path / "flat.onnx", 1 / 255, needed=False)  # as `compare --scale` asks for all
        np.testing.assert_array_equal(encoders.features_of(spared, IMAGES), encoders.features_of(encoder, IMAGES))


def test_a_method_for_images_of_any_size_is_no_function():
    encoder = keras.Sequential([keras.Input((None, None, 1)), keras.layers.GlobalAveragePooling2D()])
    method = methods.SimCLR(encoder, None, views.Views("simvae-digits", 2))
    with pytest.raises(InvalidInputError, match="pass the part"):
        sslzoo.diagnose(method, IMAGES)


def test_views_are_those_of_training_and_what_it_changed(monkeypatch):
    seen, make = [], images.views_of
    monkeypatch.setattr(diagnosis, "views_of", lambda *given: seen.append(given[-1]) or make(*given))
    some = rng.integers(0, 256, (12, 32, 32, 3)).astype("uint8")
    said = "simclr-cifar10, crop={'scale': [0.2, 1.0]}, blur=None"
    assert sslzoo.diagnose("simclr-cifar10", some).policy == said
    assert sslzoo.diagnose("simclr-cifar10", some, views="simclr-cifar10").policy == "simclr-cifar10"
    assert seen == [{"crop": {"scale": [0.2, 1.0]}, "blur": None}, {}]
    for unknown in [1], {"crop": {"min_area": 0.2}}, {"crop": 3}:  # of another version
        monkeypatch.setattr(
            diagnosis.zoo,
            "results_of",
            lambda _, changes=unknown: {"settings": {"policy": "simclr-cifar10", "policy_changes": changes}},
        )
        assert sslzoo.diagnose("simclr-cifar10", some).policy == "simclr-cifar10"
    with pytest.raises(UnknownNameError, match="setting of crop"):
        make(some, "simclr-cifar10", 2, changes={"crop": {"scales": (0.2, 1)}})


def test_images_are_taken_as_embed_takes_them(tmp_path):
    for n in range(3):
        Image.fromarray(IMAGES[n, ..., 0]).save(tmp_path / f"{n}.png")
    paths = np.array([str(tmp_path / f"{n}.png") for n in range(3)])
    listed, given = (sslzoo.diagnose("random-digits", some).features for some in (paths, IMAGES[:3]))
    np.testing.assert_allclose(listed, given, atol=1e-6)


def test_onnxruntime_that_is_missing_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(BackendError, match="pip install onnxruntime"):
        sslzoo.diagnose(tmp_path / "a.onnx", IMAGES)
    with pytest.raises(MissingDataError, match="no such file"):
        sslzoo.diagnose("b.onnx", IMAGES)


# ---------------------------------------------------------------- order


def some():
    return [sslzoo.diagnose(ROWS * scale, name=name) for name, scale in (("few", 2.0 ** -np.arange(16)), ("all", 1))]


def test_encoders_are_put_in_order_by_each_measure():
    found = ranking.rank(some())
    assert found.by == "effective_rank" and found.orders["effective_rank"] == ["all", "few"]
    assert found.orders["alpha_req"] == ["all", "few"] and "lidar" not in found.orders
    text = str(found)
    assert text.index("all ") < text.index("few ") and "Spearman" in text
    assert json.loads(found.to_json())["by"] == "effective_rank"
    with pytest.raises(UnknownNameError, match="Unknown measure"):
        ranking.rank(some(), by="lidar")
    with pytest.raises(InvalidInputError, match="at least two"):
        ranking.rank(some()[:1])


def test_alpha_req_prefers_one_as_its_paper_does():
    rows = np.random.default_rng(0).normal(size=(2000, 64))
    place = np.arange(1, 65)
    found = ranking.rank(
        [sslzoo.diagnose(rows * place ** (-power / 2), name=name) for name, power in (("0", 0), ("3", 3), ("1", 1.0))]
    )
    assert found.orders["alpha_req"] == ["1", "0", "3"]
    assert diagnosis.MEASURES["alpha_req"].preference(math.inf) == -math.inf


def test_few_encoders_get_a_correlation_and_no_interval():
    rows = [row for row in ranking.correlations() if row["encoders"] < 7]
    assert rows and all(row["low"] is None and row["high"] is None for row in rows)


def test_correlations_are_those_of_the_benchmark():
    rows = ranking.correlations()
    assert {row["dataset"] for row in rows} == {"mnist", "digits", "cifar10", "fashion_mnist"}
    assert {row["measure"] for row in rows} == {
        name for name, each in diagnosis.MEASURES.items() if each.best is not None
    }
    assert all(-1 <= row["low"] <= row["spearman"] <= row["high"] <= 1 for row in rows if row["family"] == ranking.ALL)


# ---------------------------------------------------------------- wrong ways, pages, the shell


@pytest.mark.parametrize(
    ("given", "options", "error", "message"),
    [
        (("simclr-digits",), {}, InvalidInputError, "images=None"),
        ((ROWS[:1],), {}, InvalidInputError, "at least two images"),
        ((np.where(ROWS > 3, np.nan, ROWS),), {}, InvalidInputError, "must be finite"),
        ((ROWS,), {"views": "photos"}, InvalidInputError, "not a policy"),
        ((ROWS,), {"views": "fotos"}, UnknownNameError, "Did you mean 'photos'"),
        ((ROWS,), {"views": np.ones((4, 2, 3))}, InvalidInputError, r"\(M, J, 16\)"),
        ((ROWS, IMAGES), {}, InvalidInputError, "those of the 300 rows"),
        ((pixels(), IMAGES[:1]), {}, InvalidInputError, "at least two. Received: 1 image"),
        ((pixels(), IMAGES), {"views": "gedi-toy"}, InvalidInputError, "a policy for images"),
        (("simclr-digits", IMAGES * 2.0), {}, InvalidInputError, "values 0..255"),
        ((pixels(), IMAGES.astype("float32") * np.nan), {}, InvalidInputError, "finite numbers"),
        ((pixels(), IMAGES), {"scale": 0.5}, InvalidInputError, "scales images itself"),
        ((pixels(), "nowhere"), {}, MissingDataError, "no such folder"),
        ((3, IMAGES), {}, InvalidInputError, "encoder of type int"),
    ],
)
def test_what_cannot_be_diagnosed_is_refused(given, options, error, message):
    with pytest.raises(error, match=message):
        sslzoo.diagnose(*given, **options)


def test_the_page_needs_no_other_file(tmp_path):
    found = sslzoo.diagnose(pixels("plain"), IMAGES)
    found.name = "<b>"
    page = found.page(tmp_path / "health.html").read_text()
    assert found.verdict in page and "data:image/png" in page and "<b>" not in page and 'src="http' not in page


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (["simvae-digits", "simclr-digts"], "simclr-digits"),
        (["simvae-digits", "simclr-digits"], "different names. Received: 'simclr-digits' twice"),
        (["none.onnx"], "none.onnx"),
        (["none.npz"], "none.npz"),
        (["runs/none"], "runs/none"),
    ],
)
def test_the_shell_measures_none_before_all_are_there(others, message, monkeypatch, capsys):
    monkeypatch.setattr(sslzoo, "diagnose", lambda *_, **__: pytest.fail("one was measured"), raising=False)
    assert cli.main(["doctor", "simclr-digits", "digits", "--compare", *others]) == 2
    assert message in capsys.readouterr().err


def test_the_shell_exits_with_1_for_an_ill_encoder(tmp_path, capsys):
    np.savez(tmp_path / "ill.npz", features=np.ones((20, 4), "float32"), index=np.arange(20))
    np.savez(tmp_path / "well.npz", features=ROWS.astype("float32"), index=np.arange(300))
    assert cli.main(["doctor", str(tmp_path / "well.npz")]) == 0
    assert cli.main(["doctor", str(tmp_path / "ill.npz"), "--json"]) == 1
    out = capsys.readouterr().out
    assert "healthy: 15." in out and '"healthy": false' in out
    arguments = ["doctor", "simclr-digits", "digits", "--limit", "80", "--compare", "simvae-digits"]
    assert cli.main([*arguments, "--html", str(tmp_path / "page.html")]) == 0
    assert (
        "LiDAR, the best first" in capsys.readouterr().out and "Beside others" in (tmp_path / "page.html").read_text()
    )
    assert cli.main(["doctor", "simclr-digits", "digits", "--policy", "fotos"]) == 2


def test_an_encoder_that_says_no_range_is_looked_at_in_that_of_the_images():
    deep = rng.integers(100, 3900, (60, 8, 8, 1)).astype("uint16")
    plain = sslzoo.diagnose(pixels(scale=1 / 4000), deep, views="channels", num_views=3)
    low, high = float(deep.min()), float(deep.max())
    layers = [keras.Input((8, 8, 1)), keras.layers.Rescaling(1 / (high - low), -low / (high - low), name="unit_range")]
    back = keras.layers.Rescaling((high - low) / 4000, low / 4000)
    said = keras.Sequential([*layers, back, keras.layers.Flatten()], name="pixels")
    again = sslzoo.diagnose(keras.Model(said.inputs, said.outputs), deep, views="channels", num_views=3)
    for name, value in plain.measures.items():
        assert again.measures[name] == pytest.approx(value, rel=1e-3, abs=1e-4), name
