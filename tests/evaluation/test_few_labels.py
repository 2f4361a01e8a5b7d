"""Few labels: draws are of the classes they should be, and the same for all encoders."""

from pathlib import Path

import numpy as np
import pytest

from sslzoo.files import module_at

few_labels = module_at(Path(__file__).resolve().parents[2] / "benchmarks" / "few_labels.py")


def test_a_draw_has_so_many_labels_of_each_class_and_is_repeatable():
    labels = np.random.default_rng(0).integers(0, 3, 200)
    rows = few_labels.draw(labels, 4, seed=1)
    assert np.bincount(labels[rows]).tolist() == [4, 4, 4] and len(set(rows)) == 12
    np.testing.assert_array_equal(rows, few_labels.draw(labels, 4, seed=1))
    assert set(rows) != set(few_labels.draw(labels, 4, seed=2))


def test_more_labels_help_and_scale_does_not_matter():
    random = np.random.default_rng(0)
    labels = np.arange(600) % 3
    rows = 1.5 * np.eye(3, 6)[labels] + random.normal(size=(600, 6))
    split = rows[:300], labels[:300], rows[300:], labels[300:]
    one, many = (np.mean(few_labels.accuracies(*split, count), axis=1) for count in (1, 64))
    assert (many > one + 0.1).all() and (many > 0.7).all()
    moved = 1e3 * rows[:300] + 5, labels[:300], 1e3 * rows[300:] + 5, labels[300:]
    np.testing.assert_allclose(np.mean(few_labels.accuracies(*moved, 1), axis=1), one, atol=0.02)


def test_a_page_and_a_picture_are_written_of_what_was_measured(tmp_path, capsys):
    words = ["simvae-digits", "random-digits", "--out", str(tmp_path / "few.json"), "--docs", str(tmp_path)]
    assert few_labels.main(words) == 0
    assert "simvae-digits: " in capsys.readouterr().out
    page = (tmp_path / "few_labels.md").read_text("utf-8")
    best, floor = (line for line in page.splitlines() if line.startswith("| `"))
    assert best.startswith("| `simvae-digits` | ") and floor.startswith("| `random-digits` | ")
    assert (tmp_path / "pictures" / "few_labels_digits.png").is_file()
    assert few_labels.main(words[2:]) == 0  # writes the page of the numbers alone
    with pytest.raises(SystemExit):
        few_labels.main(["--out", str(tmp_path / "none.json"), "--docs", str(tmp_path)])
