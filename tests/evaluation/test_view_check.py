"""What a policy does to images, in numbers that are known beforehand."""

import dataclasses

import keras
import numpy as np
import pytest
from PIL import Image

from sslzoo import cli
from sslzoo.errors import InvalidInputError, UnknownNameError
from sslzoo.evaluation import check_views
from sslzoo.views import POLICIES

RAMP = np.broadcast_to(np.linspace(20, 235, 16)[None, :, None, None], (6, 16, 16, 3)).astype("uint8")


def test_views_that_lose_nothing(monkeypatch, tmp_path):
    monkeypatch.setitem(POLICIES, "nothing", {"flip": "horizontal"})
    check = check_views(RAMP, "nothing", 4)
    assert check.measures == {"clipped": 0.0, "dark": 0.0, "flat": 0.0} and not check.remarks()
    assert check.made.shape == (6, 4, 16, 16, 3)
    named = dataclasses.replace(check, policy="caf\udce9")
    assert "caf\\udce9" in named.page(tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (keras.layers.Rescaling(0.0), {"clipped": 1.0, "dark": 1.0, "flat": 1.0}),
        (keras.layers.Rescaling(0.05), {"clipped": 0.0, "dark": 1.0, "flat": 1.0}),
        (keras.layers.Rescaling(0.0, 0.5), {"clipped": 0.0, "dark": 0.0, "flat": 1.0}),
    ],
)
def test_what_is_lost_is_counted(step, expected, monkeypatch):
    monkeypatch.setattr("sslzoo.views._named_steps", lambda name: [step])
    check = check_views(RAMP, "photos", 2)
    assert check.measures == pytest.approx(expected)
    assert [remark.split()[1].rstrip(":") for remark in check.remarks()] == [k for k, v in expected.items() if v]


def test_values_of_sixteen_bits_have_a_range_of_their_own():
    check = check_views(RAMP.astype("uint16") * 200, "channels", 2, value_range=(0, 51_000))
    assert check.measures["dark"] == 0
    with pytest.raises(InvalidInputError, match=r"0\.\.255"):
        check_views(RAMP.astype("uint16") * 200, "channels")


def test_the_command_writes_a_page(tmp_path, capsys):
    np.savez(tmp_path / "tiles.npz", images=RAMP)
    words = ["views", str(tmp_path / "tiles.npz"), "--policy", "satellite", "--html", str(tmp_path / "page.html")]
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert "8 views of 16x16x3 of each of 6 images by satellite" in out and "flat" in out
    page = (tmp_path / "page.html").read_text()
    assert "data:image/png;base64," in page and "satellite" in page
    assert cli.main(words) == 2  # the page exists
    assert "--force" in capsys.readouterr().err


def test_wrong_ways():
    with pytest.raises(UnknownNameError, match="Did you mean 'satellite'"):
        check_views(RAMP, "sattelite")
    with pytest.raises(InvalidInputError, match=r"\(N, H, W, C\)"):
        check_views(RAMP[0], "photos")


def test_what_a_step_of_the_views_refuses_is_one_sentence(tmp_path, capsys):
    """Without Keras' words around it: which layer was called, and with which tensors."""
    for n in range(3):
        Image.new("RGB", (8, 8), (n, 0, 0)).save(tmp_path / f"{n}.png")
    assert cli.main(["views", str(tmp_path), "--policy", "photos", "--image-size", "1"]) == 2
    said = capsys.readouterr().err
    assert "above 6 pixels" in said and "Exception encountered" not in said and "Arguments received" not in said
