"""Every example runs, draws what it says it draws, and prints numbers that can be true."""

import importlib.util
import itertools
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image
from sklearn.mixture import GaussianMixture

import sslzoo
from sslzoo import evaluation

pytestmark = pytest.mark.slow

EXAMPLES = Path(sslzoo.__file__).parent.parent / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def pixels(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype("int64")


def share_of(image, color, tolerance=12):
    wanted = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])
    return np.mean(np.abs(image - wanted).max(axis=-1) <= tolerance)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_says_how_to_run_it(path, capsys):
    module = example(path.stem)
    assert f"python examples/{path.name}" in module.__doc__
    with pytest.raises(SystemExit) as stop:
        module.main(["--help"])
    assert stop.value.code == 0 and module.__doc__.splitlines()[0] in capsys.readouterr().out


def test_embed_and_search(capsys):
    module = example("embed_and_search")
    precision = module.main(["--k", "5", "--queries", "60", "--out", "found.png"])
    images, labels = sslzoo.data.load("digits", "train")
    queries, wanted = (part[:60] for part in sslzoo.data.load("digits", "test"))
    encoder = sslzoo.load("simvae-digits")
    bank = evaluation.features(encoder, images)
    unit = bank / np.linalg.norm(bank, axis=1, keepdims=True)
    right = 0
    for feature, label in zip(evaluation.features(encoder, queries), wanted):
        right += np.sum(labels[np.argsort(-unit @ feature)[:5]] == label)
    assert precision["simvae-digits"] == pytest.approx(right / 300, abs=1 / 300)
    assert 0.8 < precision["simvae-digits"] < 1 and 0.8 < precision["raw pixels"] < 1
    out = capsys.readouterr().out
    assert f"precision@5 by simvae-digits, 10 numbers per image: {100 * precision['simvae-digits']:.1f} %" in out
    picture = pixels("found.png")
    assert share_of(picture, module.RIGHT) > 5 * share_of(picture, module.WRONG) > 0


def test_own_images(capsys):
    module = example("own_images")
    rows = module.main(["--tiles", "60", "--epochs", "1", "--networks", "vit-tiny", "--out", "tiles.png"])
    assert set(rows) == {"raw pixels", "vit-tiny"} and len(rows["vit-tiny"]) == 2
    assert all(0 <= share <= 1 for shares in rows.values() for share in shares)
    left, _ = module.tiles(module.photographs(), 8, False)
    assert left.shape == (8, 96, 96, 3) and left.dtype == "uint8"
    assert np.ptp(pixels("tiles.png")) > 100 and "guessing: 0.25" in capsys.readouterr().out


def test_frames_tell_right_from_wrong(tmp_path):
    module = example("embed_and_search")
    images = np.full((2, 3, 8, 8, 1), 128, "uint8")
    shares = []
    for right in (True, False):
        module.draw(images[:, 0], images, np.full((2, 3), right), tmp_path / "grid.png")
        shares.append([share_of(pixels(tmp_path / "grid.png"), color) for color in (module.RIGHT, module.WRONG)])
    assert shares[0][0] > 0.005 and shares[0][1] == 0
    assert shares[1][1] > 0.002 and shares[1][0] == 0


def test_finetune(capsys):
    module = example("finetune")
    small = ["--encoder", "simvae-digits", "--dataset", "digits", "--per-class", "6", "--epochs", "1"]
    report = module.main([*small, "--out", "bars.png"])
    out = capsys.readouterr().out
    for way in module.WAYS:
        assert f"{way:<8} {100 * report[way]['accuracy']:5.1f} %" in out
    assert all(share_of(pixels("bars.png"), color) > 5e-4 for color in module.WAYS.values())


def test_reconstruct_and_sample(capsys):
    module = example("reconstruct_and_sample")
    errors = module.main(["--components", "3", "--limit", "300", "--out", "drawn"])
    test, _ = sslzoo.data.load("digits", "test")
    rebuilt = sslzoo.load("simvae-digits", "decoder").predict(
        sslzoo.load("simvae-digits").predict(test, verbose=0), verbose=0
    )
    assert errors["error"] == pytest.approx(np.mean((rebuilt - test / 255) ** 2), rel=1e-4)
    assert errors["error"] < 0.3 * errors["constant"]
    assert f"{errors['error']:.4f}" in capsys.readouterr().out
    names = {"reconstructions.png", "samples.png", "interpolations.png"}
    assert {path.name for path in Path("drawn").iterdir()} == names
    for name in names:
        assert pixels(Path("drawn") / name)[60:].std() > 30


def test_samples_follow_the_mixture():
    module = example("reconstruct_and_sample")
    rng = np.random.default_rng(0)
    latents = np.concatenate([rng.normal(-5, 0.1, (100, 2)), rng.normal(5, 0.5, (300, 2))])
    mixture = GaussianMixture(2, random_state=0).fit(latents)
    drawn = module.draw_from(mixture, 2000, rng)
    left = drawn[:, 0] < 0
    assert drawn.shape == (2000, 2) and abs(left.mean() - 0.25) < 0.04
    assert drawn[left].std(axis=0).max() < 0.15 < 0.4 < drawn[~left].std(axis=0).min()


def test_pairs_are_of_different_classes():
    module = example("reconstruct_and_sample")
    labels, rng = np.array([0, 0, 0, 1]), np.random.default_rng(0)
    for _ in range(20):
        first, second = module.different(labels, rng)
        assert labels[first] != labels[second]


# ---------------------------------------------------------------- mutual information


def test_toy_mutual_information(capsys):
    module = example("toy_mutual_information")
    assert pytest.approx(0.020411, abs=1e-6) == module.TRUE
    small = ["--epochs", "1", "--points", "2000", "--fresh", "10000", "--seeds", "2"]
    estimates, exact, blind = module.main([*small, "--out", "toy.png"])
    assert estimates.shape == (7, 2) and np.isfinite(estimates).all()
    assert all(first > second for first, second in itertools.pairwise(exact))  # the best critic: ever looser
    np.testing.assert_allclose(exact, [0.0206, 0.0163, 0.0112, 0.0058, 0.0023, 0.0008, 0.0004], atol=2.5e-3)
    assert blind[0] < 0.001 and blind[3] > 5 * module.TRUE  # InfoNCE is not fooled; VINCE at 50 % is
    out = capsys.readouterr().out
    assert "true 0.02041" in out and f"{exact[-1]:.5f}" in out and "VINCE (5%)" in out
    assert pixels("toy.png").std() > 10


def test_two_spirals(capsys):
    module = example("two_spirals")
    points, labels = module.spirals(4000, np.random.default_rng(0))
    flat = points.reshape(-1, 2)
    assert np.abs(flat).max() <= 2 and 0.45 < labels.mean() < 0.55
    apart = np.linalg.norm(flat[labels == 0][:300, None] - flat[labels == 1][None], axis=2)
    assert apart.min() > 0.15  # they never meet
    mirrored = module.spirals(4000, np.random.default_rng(0), mirrored=True)[0].reshape(-1, 2)
    np.testing.assert_array_equal(mirrored[labels == 0], flat[labels == 0])
    np.testing.assert_allclose(mirrored[labels == 1], flat[labels == 1] * [1, -1], atol=1e-6)
    by_hand = {eta: module.by_hand(points, labels, eta) for eta in (0, 0.4, 2)}
    assert abs(by_hand[0][0] - by_hand[0][1]) < 0.01  # nothing to choose
    assert by_hand[0.4][0] < by_hand[0.4][1] - 0.05 and by_hand[2][0] > by_hand[2][1] + 1
    noisy = keras.ops.convert_to_numpy(module.Noisy(0.4, 0)(points, training=True))[:, 0]
    moved = (noisy - points).reshape(-1, 2)
    assert moved.min() >= 0 and 0.39 < moved.max() <= 0.4 and abs(moved.mean() - 0.2) < 0.01
    kernels = [keras.ops.convert_to_numpy(module.perceptron(0, he).weights[2]) for he in (True, False)]
    np.testing.assert_allclose([kernel.std() for kernel in kernels], [(2 / 128) ** 0.5, (1 / 128) ** 0.5], rtol=0.03)
    few = ["--steps", "3", "--points", "384", "--seeds", "2", "--out", "spirals.png"]
    assert list(module.main([*few, "--paper", "--seeds", "1", "--noise"])) == [0.0, 0.4, 5.0]
    accuracy = module.main([*few, "--noise", "1"])
    assert list(accuracy) == [0.0, 0.4, 1.0, 5.0]
    assert all(len(values) == 2 and min(values) >= 0 and max(values) <= 1 for values in accuracy.values())
    assert f"{100 * np.mean(accuracy[0.4]):.1f}%" in capsys.readouterr().out
    assert pixels("spirals.png").std() > 10


def test_views_and_information(capsys, monkeypatch):
    module = example("views_and_information")
    kept = {"none": module.VIEWS["none"], "crops of little": {"[0.02, 0.3]": module.crop(0.02, 0.3)}}
    monkeypatch.setattr(module, "VIEWS", kept)
    found = module.main(["--epochs", "30", "--limit", "220", "--out", "views.png"])
    (everything, _), (little, _) = found["none"]["no views"], found["crops of little"]["[0.02, 0.3]"]
    assert little < everything < np.log(220)  # what views hide, they cannot share
    assert f"{everything:.2f}" in capsys.readouterr().out
    assert pixels("views.png").std() > 10


def test_compare(capsys):
    module = example("compare")
    found = module.main(["--out", "comparison.png"])
    assert len(found.pairs) == 6 and {pair.differs for pair in found.pairs if "random" in pair.second} == {True}
    out = capsys.readouterr().out
    assert "simclr-digits - simvae-digits" in out and "Holm" in out
    assert pixels("comparison.png").std() > 10


def test_doctor(capsys):
    module = example("doctor")
    ill, *well = module.main(["--out", "doctor.html"])
    assert not ill.healthy and "likely the rate" in ill.verdict and all(diagnosis.healthy for diagnosis in well)
    out = capsys.readouterr().out
    assert "rate 10: unhealthy: " in out and "LiDAR, the best first" in out
    assert ill.verdict in Path("doctor.html").read_text()
