"""Features as a .parquet: path, label, vector."""

import sys

import numpy as np
import pytest
from PIL import Image

import sslzoo
from sslzoo import cli, environment
from sslzoo.errors import BackendError

parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def digits(tmp_path):
    for number in range(4):
        (tmp_path / "scans" / f"class {number % 2}").mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 60 * number).save(tmp_path / "scans" / f"class {number % 2}" / f"{number}.png")
    return tmp_path / "scans"


def test_a_row_for_each_image(digits, tmp_path, capsys):
    file = tmp_path / "features.parquet"
    assert cli.main(["embed", "simvae-digits", str(digits), "--labels", "folders", "-o", str(file)]) == 0
    table, expected = parquet.read_table(file), sslzoo.embed("simvae-digits", digits, labels="folders")
    assert table.column_names == ["path", "label", "vector"]
    assert table["path"].to_pylist() == expected.paths.tolist()
    assert table["label"].to_pylist() == ["class 0", "class 0", "class 1", "class 1"]
    np.testing.assert_array_equal(np.float32(table["vector"].to_pylist()), expected.features)
    sslzoo.embed("simvae-digits", np.zeros((3, 8, 8, 1), "uint8")).to_parquet(file)
    assert parquet.read_table(file).column_names == ["index", "vector"]


def test_without_pyarrow_it_says_so_before_any_work(digits, tmp_path, capsys, monkeypatch):
    find = environment.importlib.util.find_spec
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: None if name == "pyarrow" else find(name))
    assert cli.main(["embed", "simvae-digits", str(digits), "-o", str(tmp_path / "f.parquet")]) == 2
    assert "sslzoo[parquet]" in capsys.readouterr().err
    with pytest.raises(BackendError):
        sslzoo.embed("simvae-digits", digits).to_parquet(tmp_path / "f.parquet")
    assert "pyarrow" in sys.modules and not (tmp_path / "f.parquet").exists()
