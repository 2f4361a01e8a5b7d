"""A stranger's folder of photographs, from the first look to a published classifier, by the command line."""

import json
import re

import numpy as np
import pytest
from PIL import Image

from sslzoo import cli

CLASSES = ("circles", "squares")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Images of mixed sizes and kinds in two folders, a broken one among them; a run on them; and its features."""
    root, random = tmp_path_factory.mktemp("world"), np.random.default_rng(0)
    for label, name in enumerate(CLASSES):
        (root / "photos" / name).mkdir(parents=True)
        for n in range(12):
            height, width = random.integers(8, 30, 2)
            image = Image.fromarray(random.integers(90 * label, 90 * label + 150, (height, width, 3), "uint8"))
            exif = Image.Exif()
            exif[0x0112] = 6 if n == 2 else 1
            image = image.convert({0: "L", 1: "RGBA"}.get(n, "RGB"))
            image.save(root / "photos" / name / f"{n:02}.{'png' if n < 2 else 'jpg'}", exif=exif)
    (root / "photos" / "circles" / "broken.png").write_bytes(b"broken")
    (root / "photos" / "notes.txt").write_text("notes")
    (root / "new").mkdir()
    for n in range(3):
        Image.new("RGB", (20, 10), (80 * n, 0, 0)).save(root / "new" / f"{n}.png")
    before = pytest.MonkeyPatch()
    before.chdir(root)
    small = "--image-size 8 --network mlp-small --epochs 1 --on-error skip --protocols knn"
    assert cli.main(f"train simclr --dataset photos {small} --labels folders --test-share 0.25".split()) == 0
    assert (
        cli.main(
            ["embed", "runs/simclr-photos", "photos", "--labels", "folders", "-o", "features.npz", "--on-error", "skip"]
        )
        == 1
    )
    yield root
    before.undo()


@pytest.fixture
def sslzoo_(world, monkeypatch, capsys):
    monkeypatch.chdir(world)

    def run(words):
        capsys.readouterr()
        code = cli.main(words.split())
        said = capsys.readouterr()
        return code, said.out, " ".join(said.err.split())

    return run


def test_the_way_from_photographs_to_a_classifier(sslzoo_, world):
    run, skip = "runs/simclr-photos", "--on-error skip"
    ways = [
        f"views photos --policy simvae-cifar10 --html views.html {skip}",
        f"doctor {run} photos --html health.html {skip}",
        f"evaluate {run} --dataset photos --protocols knn --out measured {skip}",
        f"finetune {run} --dataset photos --epochs 1 --no-scratch --out classifier {skip}",
        "predict classifier new -o labels.csv --html labels.html",
        "search features.npz new/0.png --html found.html",
        f"compare {run} simclr-digits --dataset photos --protocols knn --out compared {skip}",
        "explore features.npz --html map.html",
        f"seal {run}",
        f"manifest {run} --manifest manifest.json",
    ]
    for words in ways:
        code, out, err = sslzoo_(words)
        assert code in (0, 1) and out and "Traceback" not in err, (words, err)
    for file in ("views.html", "health.html", "labels.html", "found.html", "map.html", "measured/report.md"):
        assert (world / file).stat().st_size
    assert "simclr-photos" in json.loads((world / "manifest.json").read_text())["models"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("search features.npz new", "query must be one image, its file"),
        ("search features.npz features.npz", "query must be one image, its file"),
        ("search features.npz labels.txt", "Repair it. Received"),  # nothing is left where the only image is left out
        ("search labels.txt new/0.png", "it is no zip archive of arrays"),
        ("explore labels.txt --html other.html", "it is no zip archive of arrays"),
        (
            "train simclr --dataset photos --on-error skip --out photos/run",
            "--out must be outside the folder of images",
        ),
        (
            "evaluate runs/simclr-photos --dataset photos --out photos/measured",
            "pictures must be outside the folder of",
        ),
        (
            "compare runs/simclr-photos random-cifar10 --dataset photos --out photos/compared",
            "--out must be outside the folder of",
        ),
        ("finetune simclr-cifar10 --dataset photos --out photos/classifier", "out must be outside the folder of"),
        ("explore features.npz --html other.html --images photos", "images must be those of the features, 24 files"),
        ("verify runs/simclr-photos", "A model is verified by its name"),
        ("evaluate runs/simclr-photos --dataset new", "There are no test images"),
        ("views ./photo", "found nothing"),
        ("doctor ./nope photos", "No such folder or file"),
    ],
)
def test_wrong_ways_are_one_clear_sentence(sslzoo_, world, words, said):
    (world / "labels.txt").write_text("a,b")
    code, out, err = sslzoo_(words)
    assert code == 2 and not out and said in err and "pickle" not in err and "Did you mean" not in err
    assert not (world / "photos" / "run").exists() and not (world / "other.html").exists()


@pytest.mark.parametrize("change", ["policy=photo", "schedule=cos", "optimizer=adm", "polcy=photos"])
def test_a_setting_is_refused_before_all_images_are_read(sslzoo_, world, change):
    code, out, err = sslzoo_(f"train simclr --dataset photos --set {change}")
    assert code == 2 and "Unknown" in err and "Did you mean" in err and "Reading" not in out


def test_a_remark_on_a_folder_is_made_once(sslzoo_):
    code, out, _ = sslzoo_("compare runs/simclr-photos simclr-digits --dataset photos --protocols knn --on-error skip")
    assert code == 0 and len(re.findall("passed over", out)) == 1
    code, out, _ = sslzoo_(
        "evaluate runs/simclr-photos --dataset photos --protocols knn --test-share 0.5 --on-error skip"
    )
    assert code == 0 and len(re.findall("passed over", out)) == 1 and "50% of each class" in out
