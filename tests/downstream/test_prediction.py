"""predict: classes of images as a table and a page, by the shell too."""

import csv
import io
import json

import fake_hub
import numpy as np
import pytest
from PIL import Image
from test_finetuning import make_encoder, make_folder, stripes

import sslzoo
from sslzoo import cli
from sslzoo.downstream.prediction import Prediction, predict
from sslzoo.errors import InvalidInputError
from sslzoo.training.beginning import Beginning


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A classifier of stripes, and a folder of images."""
    root = tmp_path_factory.mktemp("predict")
    photos = make_folder(root / "photos", {"=up": 12, "middle": 12, "down": 12})
    arguments = ["finetune", write_encoder(root), "--dataset", photos, "--out", root / "found", "--mode", "probe"]
    assert cli.main([*map(str, arguments), "--no-scratch"]) == 0
    return root


def write_encoder(root):
    return sslzoo.publishing.write(root / "tiny", make_encoder())


@pytest.mark.parametrize(
    "use",
    [
        sslzoo.diagnose,
        sslzoo.embed,
        sslzoo.finetune,
        lambda encoder, images: sslzoo.Embedder(encoder).fit(images),
        lambda encoder, images: sslzoo.evaluate(encoder, images, "knn", labels="folders"),
        lambda encoder, images: sslzoo.compare([encoder, "simclr-digits"], images, labels="folders"),
        lambda encoder, images: Beginning(str(encoder), encoder.parent / "begun"),
    ],
)
def test_a_classifier_is_not_taken_for_an_encoder(use, folder):
    with pytest.raises(InvalidInputError, match="a classifier gives probabilities"):
        use(folder / "found", folder / "photos")


def test_the_shell_writes_a_table_and_a_page(folder, tmp_path, capsys):
    words = ["predict", folder / "found", folder / "photos", "-o", tmp_path / "l.csv", "--html", tmp_path / "p.html"]
    assert cli.main([*map(str, words)]) == 0
    assert "36 images" in capsys.readouterr().out
    rows = list(csv.reader(io.StringIO((tmp_path / "l.csv").read_text())))
    assert rows[0] == ["path", "class", "probability"] and len(rows) == 37
    assert {row[1] for row in rows[1:]} <= {"./=up", "middle", "down"}
    found = predict(folder / "found", folder / "photos")
    assert [row[0] for row in rows[1:]] == found.images.tolist()
    page = (tmp_path / "p.html").read_text()
    least = sorted(found.rows(), key=lambda row: row[2])[0]
    assert page.count("<figure") == 36 and page.index("<figure") < page.index(f"{least[1]} {least[2]:.2f}")
    assert cli.main([*map(str, words)]) == 2 and "--force replaces it" in capsys.readouterr().err
    assert cli.main([*map(str, words), "--force", "--json"]) == 0
    assert sum(json.loads(capsys.readouterr().out)["classes"].values()) == 36
    assert cli.main(["predict", str(folder / "found"), str(folder / "photos"), "-o", "-"]) == 0
    assert capsys.readouterr().out == (tmp_path / "l.csv").read_text()


def test_arrays_and_images_that_cannot_be_read(folder, tmp_path, capsys):
    found = predict(folder / "found", stripes(5)[0])
    assert found.to_csv().startswith("index,class,probability\n0,") and found.probabilities.shape == (5, 3)
    Image.new("RGB", (9, 9)).save(tmp_path / "good.png")
    (tmp_path / "bad.png").write_bytes(b"no image")
    words = ["predict", str(folder / "found"), str(tmp_path), "-o", str(tmp_path / "l.csv")]
    assert cli.main(words) == 2
    assert cli.main([*words, "--on-error", "skip"]) == 1 and "left out" in capsys.readouterr().err


def test_the_least_certain_come_first_and_a_page_has_an_end(tmp_path):
    certain = np.linspace(0.5, 1, 300, dtype="float32")
    found = Prediction(np.arange(300), np.stack([1 - certain, certain], axis=1), ["a", "<b>"], [], [])
    page = found.page(tmp_path / "page.html").read_text()
    assert page.count("<figure") == 200 and "300 images" in page and "&lt;b&gt; 0.50" in page and "<b> 0" not in page


def test_it_is_published_and_used_from_the_hub(folder, tmp_path, monkeypatch):
    with fake_hub.FakeHub() as hub:
        fake_hub.direct(monkeypatch, hub, tmp_path / "home", token=fake_hub.TOKEN)
        sslzoo.publish(folder / "found", "me/found", manifest=False)
        here, there = (predict(classifier, folder / "photos") for classifier in (folder / "found", "hf://me/found"))
        assert there.to_csv() == here.to_csv()
        for use in (sslzoo.diagnose, sslzoo.embed, sslzoo.finetune):
            with pytest.raises(InvalidInputError, match="a classifier gives probabilities"):
                use("hf://me/found", folder / "photos")
        assert "sslzoo predict hf://me/found" in hub.files("me/found")["README.md"].decode()
        fake_hub.close_connections()


def test_wrong_ways(folder, tmp_path, capsys):
    with pytest.raises(InvalidInputError, match="an encoder has no classes"):
        predict(folder / "tiny", folder / "photos")
    for words, said in [
        (["predict", folder / "found", folder / "photos", "-o", "l.txt"], "must end in .csv"),
        (["predict", folder / "nowhere", folder / "photos", "-o", "-"], "No such folder"),
        (["predict", "simvae-digits", folder / "photos", "-o", "-"], "no classes"),
        (["finetune", folder / "tiny", "--dataset", folder / "photos", "--out", folder / "found"], "--force"),
        (["finetune", "no-such", "--dataset", folder / "photos", "--out", tmp_path / "x"], "Unknown model"),
        (["finetune", folder / "tiny", "--dataset", tmp_path, "--out", folder / "x"], "found none"),
        (["finetune", folder / "tiny", "--dataset", tmp_path, "--out", tmp_path / "x"], "outside the folder"),
    ]:
        assert cli.main([*map(str, words)]) == 2
        assert said.lower() in capsys.readouterr().err.lower()
