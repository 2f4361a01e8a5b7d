"""Other people's models and labels: PyTorch modules, methods in training, names and one-hot rows, transfer."""

from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

import sslzoo
from sslzoo import methods, networks
from sslzoo.errors import InvalidInputError
from sslzoo.evaluation import TorchEncoder, features, weights_sha256
from sslzoo.views import Views

QUICK = {"protocols": ("knn",)}


@pytest.fixture(scope="module")
def digits():
    return sslzoo.data.load("digits", "train"), sslzoo.data.load("digits", "test")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def module(torch):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Flatten()
    )


def test_a_torch_module_is_measured_in_eval_mode_and_left_in_its_own(torch, digits):
    """Under every backend of Keras."""
    net = module(torch)
    net[3].eval()  # one part is frozen already
    modes, before = [part.training for part in net.modules()], weights_sha256(TorchEncoder(net))
    report = sslzoo.evaluate(net, digits, **QUICK)
    assert report["knn"]["euclidean_best_accuracy"] > 0.9
    assert report.encoder == "Sequential" and any(
        "(B, C, H, W), values 0..1, in eval mode" in r for r in report.remarks
    )
    assert [part.training for part in net.modules()] == modes
    assert report.frozen[0]["before"] == report.frozen[0]["after"] == before == weights_sha256(TorchEncoder(net))

    images = digits[1][0][:30]
    net.eval()
    with torch.no_grad():
        expected = net(torch.from_numpy(images.transpose(0, 3, 1, 2) / 255.0).float()).numpy()
    np.testing.assert_allclose(features(net, images, batch_size=7), expected, atol=1e-6)
    last = TorchEncoder(torch.nn.Flatten(), channels_first=False, scale=1.0)
    np.testing.assert_array_equal(features(last, images), images.reshape(30, -1))
    embedding = sslzoo.embed(net, images)
    assert embedding.shape == expected.shape == np.stack(list(embedding)).shape
    assert repr(embedding) == "<Embedding: features float32 (30, 144), index int64 (30,)>"


def test_threads_leave_a_torch_module_in_its_own_mode(torch, digits):
    net, images = module(torch), digits[1][0][:4]
    expected = features(TorchEncoder(net), images)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: features(TorchEncoder(net), images), range(200)):
            np.testing.assert_allclose(found, expected, atol=1e-6)
    assert all(part.training for part in net.modules())


def test_tensors_of_pytorch_are_images_too(torch, digits):
    """In bfloat16, which NumPy does not have, and with gradients."""
    images = digits[1][0][:10]
    tensors = torch.tensor(images).to(torch.bfloat16), torch.tensor(images).float().requires_grad_()
    net = module(torch).eval()
    for tensor in tensors:
        np.testing.assert_allclose(features(net, tensor), features(net, images), atol=0.02)
        np.testing.assert_allclose(sslzoo.embed(net, tensor), features(net, images), atol=0.02)
    pair = (tensors[1], torch.tensor(digits[1][1][:10]))
    assert sslzoo.evaluate(net, (pair, pair), "linear", epochs=1).data["train"] == 10


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_a_torch_module_gets_images_of_its_own_precision(torch, digits, dtype):
    """Its weights are hashed bit for bit, though NumPy has no bfloat16."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4))
    images = digits[1][0][:30]
    expected = features(net, images)
    net = net.to(getattr(torch, dtype))
    rows = features(net, images, batch_size=7)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, expected, atol=0.03)
    np.testing.assert_array_equal(sslzoo.embed(net, images), rows)
    report = sslzoo.evaluate(net, digits, **QUICK)
    before = report.frozen[0]["before"]
    assert report["knn"]["euclidean_best_accuracy"] > 0.5 and before == report.frozen[0]["after"]
    with torch.no_grad():
        net[1].bias[0].nextafter_(torch.tensor(9.0, dtype=net[1].bias.dtype))
    assert weights_sha256(TorchEncoder(net)) != before


def test_images_that_an_encoder_cannot_tell_apart_get_a_remark(torch):
    images = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1), "uint8")
    blind = torch.nn.Sequential(
        torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.AdaptiveMaxPool1d(1), torch.nn.Threshold(2, 1)
    )
    assert "All 5 images got the same features" in sslzoo.embed(blind, images).remarks[-1]


def test_a_torch_module_that_fails_gets_its_mode_back(torch, digits):
    net = module(torch).train()
    with pytest.raises(RuntimeError):
        features(net, np.zeros((2, 8, 8, 3), "uint8"))
    assert all(part.training for part in net.modules())


def test_a_torch_module_that_has_no_shapes_yet_is_refused(torch, digits):
    with pytest.raises(InvalidInputError, match=r"call it once.*Received: Sequential with lazy parameters"):
        sslzoo.evaluate(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(4)), digits, **QUICK)


def test_a_pretrainer_stands_for_its_encoder(digits):
    model = methods.SimCLR(networks.encoder("mlp-small", (8, 8, 1), 4, seed=1), views=Views("simvae-digits", 2, seed=0))
    images = digits[1][0][:20]
    np.testing.assert_allclose(features(model, images), keras.ops.convert_to_numpy(model.encode(images)), atol=1e-5)
    report = sslzoo.evaluate(model, digits, **QUICK)
    assert report.encoder == model.name and report.data["features"] == 4


def test_labels_that_are_names_or_one_hot_get_their_cure(digits):
    rows, labels = digits[1][0].reshape(360, -1), digits[1][1]
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])[labels]
    with pytest.raises(InvalidInputError, match=r"below 2\*\*63, or they would become negative"):
        sslzoo.evaluate_features((rows, labels.astype("uint64") + 2**63), (rows, labels), **QUICK)
    with pytest.raises(InvalidInputError, match="return_inverse=True"):
        sslzoo.evaluate_features((rows, names), (rows, names), **QUICK)
    with pytest.raises(InvalidInputError, match=r"argmax\(axis=1\)"):
        sslzoo.evaluate("simvae-digits", ((digits[1][0], np.eye(10)[labels]), (digits[1][0], labels)), **QUICK)
    cured = np.unique(names, return_inverse=True)[1]
    one, other = (sslzoo.evaluate_features((rows, y), (rows, y), **QUICK) for y in (cured, labels))
    assert one["knn"]["euclidean_k1_accuracy"] == other["knn"]["euclidean_k1_accuracy"] == 1


def test_transfer_to_images_of_another_size_and_color(digits, tmp_path):
    report = sslzoo.evaluate("simvae-mnist", "digits", **QUICK)
    assert report["knn"]["euclidean_best_accuracy"] > 0.5
    assert any("1,437 of 1,437 images were resized to 28 x 28 pixels" in remark for remark in report.remarks)
    color = [(images.repeat(3, axis=-1)[:100], labels[:100]) for images, labels in digits]
    names = ("train_images", "train_labels", "test_images", "test_labels")
    np.savez(tmp_path / "c.npz", **dict(zip(names, (*color[0], *color[1]))))
    told = sslzoo.evaluate("simvae-digits", tmp_path / "c.npz", **QUICK).remarks
    assert any("from color to gray" in remark for remark in told)
    with pytest.raises(InvalidInputError, match=r"sslzoo.data.fit_images\(images, \(28, 28, 1\)\)"):
        sslzoo.evaluate("simvae-mnist", digits, **QUICK)  # arrays are taken as they are
    fitted, remarks = sslzoo.data.fit_images(digits[1][0], (28, 28, 1))
    assert fitted.shape == (360, 28, 28, 1) and fitted.dtype == "uint8" and len(remarks) == 1
    assert sslzoo.data.fit_images(fitted, (28, 28, None))[0] is fitted
