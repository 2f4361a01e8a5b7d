"""Transfer and corruption: damage is what it says, and a page is written of what was measured."""

from pathlib import Path

import numpy as np
import pytest

from sslzoo.files import module_at

transfer = module_at(Path(__file__).resolve().parents[2] / "benchmarks" / "transfer.py")


@pytest.mark.parametrize("name", transfer.CORRUPTIONS)
def test_damage_keeps_shape_and_range_and_is_repeatable(name):
    images = np.random.default_rng(0).integers(0, 256, (5, 20, 20, 3)).astype("uint8")
    damaged = transfer.corrupted(images, name)
    assert damaged.shape == images.shape and damaged.dtype == np.float32
    assert damaged.min() >= 0 and damaged.max() <= 255 and np.abs(damaged - images).mean() > 10
    np.testing.assert_array_equal(damaged, transfer.corrupted(images, name))


def test_a_shift_moves_and_contrast_halves():
    images = np.zeros((1, 20, 20, 1), "uint8")
    images[0, 5, 7] = 200
    assert np.argwhere(transfer.corrupted(images, "shift")[0, ..., 0]).tolist() == [[7, 9]]
    assert np.ptp(transfer.corrupted(images, "contrast")) == pytest.approx(100)


def test_a_page_is_written_of_what_was_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "ACROSS", ("digits",))  # other sets may not be at hand
    words = ["simvae-digits", "random-digits", "--out", str(tmp_path / "t.json"), "--docs", str(tmp_path)]
    assert transfer.main(words) == 0
    rows = [line for line in (tmp_path / "transfer.md").read_text("utf-8").splitlines() if line.startswith("| ")]
    assert rows[0] == "| encoder | clean | noise | blur | shift | contrast |"
    assert rows[1].startswith("| `simvae-digits` | 93.9 |") and rows[2].startswith("| `random-digits` | ")
    assert (tmp_path / "pictures" / "corruption_digits.png").is_file()
    with pytest.raises(SystemExit):
        transfer.main(["--out", str(tmp_path / "none.json"), "--docs", str(tmp_path)])
