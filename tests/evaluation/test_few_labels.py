"""Few labels: a page and a picture of what the protocol measured."""

from pathlib import Path

import pytest

from sslzoo.files import module_at

few_labels = module_at(Path(__file__).resolve().parents[2] / "benchmarks" / "few_labels.py")


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
