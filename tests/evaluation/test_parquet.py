"""Features as a .parquet: path, label, vector."""

import json
import os
import re
import sys

import numpy as np
import pytest
from PIL import Image

import sslzoo
from sslzoo import cli, environment, evaluation
from sslzoo.errors import BackendError, InvalidInputError

pyarrow = pytest.importorskip("pyarrow")
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


def test_paths_in_a_table_are_those_of_files(digits, tmp_path):
    """Also with what no terminal shows, a mark of direction for one."""
    place = digits / "class 0" / "\u200eIMG\u2028-1.png"
    Image.new("L", (8, 8)).save(place)
    sslzoo.embed("simvae-digits", digits).to_parquet(tmp_path / "a.parquet")
    paths = parquet.read_table(tmp_path / "a.parquet")["path"].to_pylist()
    assert str(place) in paths and all(map(os.path.exists, paths))


def test_a_map_and_a_search_read_it(digits, tmp_path, capsys):
    file, page = tmp_path / "features.parquet", tmp_path / "map.html"
    assert cli.main(["embed", "simvae-digits", str(digits), "--labels", "folders", "-o", str(file)]) == 0
    found, expected = evaluation.read_features(file), sslzoo.embed("simvae-digits", digits, labels="folders")
    for name in ("features", "paths", "labels", "classes"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert cli.main(["explore", str(file), "--html", str(page)]) == 0
    shown = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)[1])
    assert shown["groups"][0]["names"] == ["class 0", "class 1"] and shown["names"] == [
        "0.png",
        "2.png",
        "1.png",
        "3.png",
    ]
    assert shown["sprite"]["uri"].startswith("data:image/jpeg")  # thumbnails, of the files that it names
    assert [match.label for match in sslzoo.search(file, 0, k=3)].count("class 0") == 1
    expected.paths, expected.labels, expected.index = None, np.array([7, 7, 8, 8]), np.arange(4)
    evaluation.Embedding(expected.features, index=expected.index, labels=expected.labels).to_parquet(file)
    np.testing.assert_array_equal(evaluation.read_features(file).labels, expected.labels)


def test_a_posterior_keeps_its_variance(digits, tmp_path, capsys):
    file, model = tmp_path / "features.parquet", ("embed", "simvae-digits", str(digits), "--part", "posterior")
    assert cli.main([*model, "-o", str(file)]) == 0
    expected, found = sslzoo.embed("simvae-digits", digits, part="posterior"), evaluation.read_features(file)
    assert expected.log_var is not None and parquet.read_table(file).column_names == ["path", "vector", "log_var"]
    for name in ("features", "log_var"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_tables_that_are_no_features_are_refused(tmp_path):
    file, rows = tmp_path / "table.parquet", [[1.0, 2.0]] * 3
    for columns, message in [
        ({"path": ["a", "b", "c"]}, r"columns `vector` and `path` or `index`\. Received: '"),
        ({"vector": rows}, "columns `vector` and"),
        ({"index": [0, 1, 2], "vector": [*rows[:2], [1.0]]}, r"must be a \.parquet file"),
        ({"index": [0, 1, 2], "vector": [*rows[:2], None]}, r"must be a \.parquet file"),
        ({"index": [0, 1, 2], "vector": [*rows[:2], [1.0, float("nan")]]}, "NaN"),
        ({"index": ["a", "b", "c"], "vector": rows}, "index does not belong"),
        ({"index": [0, 1, 2], "vector": ["a", "b", "c"]}, "features must be"),
    ]:
        parquet.write_table(pyarrow.table(columns), file)
        with pytest.raises(InvalidInputError, match=message):
            evaluation.read_features(file)
    file.write_bytes(b"no table")
    with pytest.raises(InvalidInputError, match=r"must be a \.parquet file"):
        sslzoo.explore(file, tmp_path / "map.html")


def test_without_pyarrow_it_says_so_before_any_work(digits, tmp_path, capsys, monkeypatch):
    find = environment.importlib.util.find_spec
    monkeypatch.setattr(environment.importlib.util, "find_spec", lambda name: None if name == "pyarrow" else find(name))
    assert cli.main(["embed", "simvae-digits", str(digits), "-o", str(tmp_path / "f.parquet")]) == 2
    assert "pip install pyarrow" in capsys.readouterr().err
    with pytest.raises(BackendError):
        sslzoo.embed("simvae-digits", digits).to_parquet(tmp_path / "f.parquet")
    (tmp_path / "g.parquet").touch()
    with pytest.raises(BackendError, match=r"pip install pyarrow"):
        evaluation.read_features(tmp_path / "g.parquet")
    assert "pyarrow" in sys.modules and not (tmp_path / "f.parquet").exists()
