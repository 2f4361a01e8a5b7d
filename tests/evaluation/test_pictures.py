"""Pictures: that they show the pixels they were given, stay small, and are written whole or not at all."""

import io
import os

import numpy as np
import pytest
from PIL import Image

from sslzoo.errors import InvalidInputError
from sslzoo.evaluation import pictures


def noise(rows, size=8, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (rows, size, size, channels), dtype=np.uint8)


def pixels(path):
    return np.asarray(Image.open(path).convert("RGB"))


def contains(picture, image, scale):
    """Whether `image`, each pixel repeated `scale` times, lies somewhere in `picture`."""
    wanted = np.broadcast_to(image, (*image.shape[:2], 3)).repeat(scale, 0).repeat(scale, 1)
    height, width = wanted.shape[:2]
    corners = np.argwhere((picture[: 1 - height or None, : 1 - width or None] == wanted[0, 0]).all(axis=-1))
    return any((picture[y : y + height, x : x + width] == wanted).all() for y, x in corners)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("rows", [1, 3, 12])
def test_reconstructions_show_every_pixel(tmp_path, channels, rows):
    above, below = noise(rows, channels=channels), noise(rows, channels=channels, seed=1)
    path = pictures.reconstructions(above, below, tmp_path / "r.png")
    assert path == tmp_path / "r.png"
    shown = pixels(path)
    assert all(contains(shown, image, 9) for image in (*above, *below))
    assert shown[0, 0].tolist() == [255, 255, 255]


def test_samples_show_every_pixel_in_every_range(tmp_path):
    images = noise(13)
    images[:, 0, 0] = [0, 255, 0]  # so that the whole range is in use
    paths = [
        pictures.samples(given, tmp_path / f"{i}.png")
        for i, given in enumerate(
            [images, images.astype(int), images / 255, images / 127.5 - 1, images.astype("float32")]
        )
    ]
    assert len({path.read_bytes() for path in paths}) == 1
    shown = pixels(paths[0])
    assert all(contains(shown, image, 9) for image in images)


def test_values_a_little_outside_their_range_are_clipped(tmp_path):
    images = noise(2) / 255
    images[:, 0, 0], images[:, 0, 1] = 1.0, 0.0
    outside = images.copy()
    outside[:, 0, 0], outside[:, 0, 1] = 1.2, -0.1  # a decoder without sigmoid
    one, other = (pictures.samples(given, tmp_path / name) for given, name in ((images, "1.png"), (outside, "2.png")))
    assert one.read_bytes() == other.read_bytes()


def test_the_worst_pictures_stay_small(tmp_path):
    for path in (
        pictures.samples(noise(40, 64), tmp_path / "s.png"),
        pictures.reconstructions(noise(11, 64), noise(11, 64), tmp_path / "r.png"),
        pictures.embedding(np.random.default_rng(0).normal(size=(2500, 2)), np.arange(2500) % 10, tmp_path / "e.png"),
    ):
        assert os.path.getsize(path) < 150 * 1024
        assert min(Image.open(path).size) > 200


@pytest.mark.parametrize(
    "images",
    [noise(2)[0], noise(2)[..., :0], noise(0), np.full((2, 8, 8, 3), "x")],
    ids=["rank", "channels", "none", "dtype"],
)
def test_what_is_no_image_is_refused(tmp_path, images):
    for draw in (
        lambda: pictures.samples(images, tmp_path / "x.png"),
        lambda: pictures.reconstructions(images, images, tmp_path / "x.png"),
    ):
        with pytest.raises(InvalidInputError, match="Received"):
            draw()
    assert not os.listdir(tmp_path)


def test_reconstructions_of_another_shape_are_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="same shape"):
        pictures.reconstructions(noise(3), noise(2), tmp_path / "x.png")


# ---------------------------------------------------------------------- embedding


def test_principal_components_equal_scikit_learn():
    from sklearn.decomposition import PCA

    rows = np.random.default_rng(0).normal(size=(9, 5)) * [5, 3, 1, 1, 1]
    points, _, _ = pictures._in_the_plane(rows, 0)
    theirs = PCA(2).fit(rows)
    np.testing.assert_allclose(np.abs(points), np.abs(theirs.transform(rows)), atol=1e-9)


def test_narrow_features_are_drawn_as_they_are():
    rows = np.random.default_rng(0).normal(size=(20, 2))
    np.testing.assert_array_equal(pictures._in_the_plane(rows, 0)[0], rows)
    line = pictures._in_the_plane(rows[:, :1], 0)[0]
    np.testing.assert_array_equal(line[:, 0], rows[:, 0])
    assert (line[:, 1] == 0).all()


def test_neighbors_stay_neighbors_under_tsne():
    labels = np.arange(90) % 3
    rows = 8 * np.eye(3, 6)[labels] + np.random.default_rng(0).normal(size=(90, 6))
    points = pictures._in_the_plane(rows, 0)[0]
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1) + 1e9 * np.eye(90)
    assert (labels[distances.argmin(axis=1)] == labels).mean() > 0.95
    np.testing.assert_array_equal(points, pictures._in_the_plane(rows, 0)[0])


@pytest.mark.parametrize("classes", [2, 10, 15, 40])
def test_embedding_of_few_and_many_classes(tmp_path, classes):
    random = np.random.default_rng(0)
    labels = np.arange(120) % classes
    path = pictures.embedding(random.normal(size=(120, 2)), labels, tmp_path / "e.png")
    assert Image.open(path).size[0] > 500
    assert len(np.unique(pixels(path).reshape(-1, 3), axis=0)) > classes


@pytest.mark.parametrize("rows", [np.ones((30, 4)), np.random.default_rng(0).normal(size=(3, 4))], ids=["equal", "few"])
def test_embedding_of_degenerate_features(tmp_path, rows):
    assert pictures.embedding(rows, np.arange(len(rows)) % 2, tmp_path / "e.png").exists()


def test_bad_embeddings_are_refused(tmp_path):
    rows, labels, path = np.zeros((5, 3)), np.arange(5), tmp_path / "e.png"
    with pytest.raises(InvalidInputError, match="labels of shape"):
        pictures.embedding(rows, labels[:4], path)
    with pytest.raises(InvalidInputError, match="1 of 5 rows"):
        pictures.embedding(np.vstack([rows[:4], np.full((1, 3), np.nan)]), labels, path)
    with pytest.raises(InvalidInputError, match="2 names"):
        pictures.embedding(rows, labels, path, names=["a", "b"])
    assert not os.listdir(tmp_path)


# ---------------------------------------------------------------------- curves

ROWS = [{"epoch": i, "loss": 10 / i, "prior": 3.0, "knn": 1 - 0.5 / i, "seconds": 9.0} for i in range(1, 6)]


def test_history_may_come_in_three_forms(tmp_path):
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}

    class History:
        history = columns

    drawn = [pictures.curves(given, tmp_path / f"{i}.png") for i, given in enumerate((ROWS, columns, History()))]
    assert len({path.read_bytes() for path in drawn}) == 1


def test_series_leave_out_what_is_missing_or_not_finite():
    rows = [dict(row) for row in ROWS]
    del rows[1]["knn"]
    rows[2]["loss"], rows[3]["prior"] = float("nan"), None
    found = pictures._series(rows)
    assert list(found) == ["loss", "prior", "knn"]
    np.testing.assert_array_equal(found["knn"][0], [1, 3, 4, 5])
    np.testing.assert_array_equal(found["loss"], [[1, 2, 4, 5], [10, 5, 2.5, 2]])
    np.testing.assert_array_equal(found["prior"][0], [1, 2, 3, 5])


@pytest.mark.parametrize(
    "history",
    [ROWS[:1], {"loss": [3.0, 2.0], "val_loss": [3.0, 2.5]}, {"val_loss": [1.0]}, {"loss": list(range(100))}],
    ids=["one epoch", "validation", "validation alone", "long"],
)
def test_curves_are_drawn(tmp_path, history):
    path = pictures.curves(history, tmp_path / "c.png", title="A title")
    picture = pixels(path)
    blue = np.array([0x00, 0x72, 0xB2])
    assert (np.abs(picture.astype(int) - blue).sum(axis=-1) < 30).any()


def test_chance_shares_the_panel_of_the_loss(tmp_path):
    without = pixels(pictures.curves(ROWS, tmp_path / "without.png"))
    beside = pixels(pictures.curves([{**row, "chance": 5.5} for row in ROWS], tmp_path / "beside.png"))
    assert beside.shape == without.shape and (beside != without).any()
    by_itself = pixels(pictures.curves([{"epoch": 1, "chance": 5.5}], tmp_path / "itself.png"))
    assert (by_itself < 250).any()


@pytest.mark.parametrize("history", [[], {}, [{"epoch": 1, "loss": float("nan")}]])
def test_nothing_to_draw_is_refused(tmp_path, history):
    with pytest.raises(InvalidInputError, match="at least one epoch"):
        pictures.curves(history, tmp_path / "c.png")


# ---------------------------------------------------------------------- files


def test_failure_leaves_the_old_picture(tmp_path, monkeypatch):
    path = pictures.curves(ROWS, tmp_path / "c.png")
    before = path.read_bytes()

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        pictures.curves(ROWS[:2], path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["c.png"]
    Image.open(io.BytesIO(before)).verify()


def test_views_stand_beside_their_image(tmp_path):
    images = noise(3)
    made = np.stack([images, 255 - images], axis=1) / 255
    made[0, 0, 0, 0] = [0, 1, 0]
    shown = pixels(pictures.views(images, made, tmp_path / "v.png"))
    assert all(contains(shown, image, 9) for image in images)
    assert all(contains(shown, 255 - image, 9) for image in images)
    for bad in (made[:2], made[:, 0]):
        with pytest.raises(InvalidInputError, match="Views must be"):
            pictures.views(images, bad, tmp_path / "bad.png")


def test_normalised_views_are_spread_to_be_seen(tmp_path):
    images = noise(2)
    made = images[:, None] / 255 * 5 - 2.2  # about what ImageNet's mean and deviation give
    made[:, :, 0, 0], made[:, :, 0, 1] = -2.2, 2.8
    expected = np.rint(255 * (made[:, 0] + 2.2) / 5).astype("uint8")
    assert all(contains(pixels(pictures.views(images, made, tmp_path / "v.png")), image, 9) for image in expected)


def test_neighbors_show_each_query_and_what_lies_nearest(tmp_path):
    images, angles = noise(12, seed=3), np.arange(12) ** 2 * 0.01  # all distances differ
    features = np.stack([np.cos(angles), np.sin(angles)], axis=1) * np.linspace(1, 9, 12)[:, None]
    shown = pixels(pictures.neighbors(images, features, tmp_path / "n.png", k=2, queries=1, seed=1))
    query = np.random.default_rng(1).permutation(12)[0]
    nearest = set(np.argsort(np.abs(angles - angles[query]))[:3])
    assert {row for row in range(12) if contains(shown, images[row], 9)} == nearest


def test_large_images_become_thumbnails(tmp_path):
    images = noise(4, size=300)
    path = pictures.neighbors(images, np.eye(4), tmp_path / "n.png")
    assert path.stat().st_size < pictures.PHOTO_BYTES and pixels(path).shape[1] < 700
    assert len(np.unique(pixels(path).reshape(-1, 3), axis=0)) > 1000  # no bands where colors run into each other


def test_a_palette_where_nothing_is_lost(tmp_path):
    rng = np.random.default_rng(0)
    drawing = pictures.embedding(rng.normal(size=(300, 2)), np.arange(300) % 10, tmp_path / "e.png")
    gray = pictures.samples(noise(8, channels=1) / 255, tmp_path / "g.png")
    color = pictures.samples(noise(8) / 255, tmp_path / "c.png")
    assert [Image.open(path).mode for path in (drawing, gray, color)] == ["P", "P", "RGB"]
    assert all(contains(pixels(gray), image, 9) for image in noise(8, channels=1))


def test_a_legend_has_the_colors_of_the_points(tmp_path):
    """Its few pixels once got the colors of others: the eighth and ninth class had one."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 2000)
    rows = rng.normal(size=(2000, 16)) + 4 * np.eye(10, 16)[labels] * rng.random((2000, 1))
    names = [f"class {label}" for label in range(10)]
    shown = pixels(pictures.embedding(rows, labels, tmp_path / "e.png", names=names)).astype(int)
    legend = shown[:, -shown.shape[1] // 5 :].reshape(-1, 3)
    for color in pictures.CLASS_COLORS[:10]:
        wanted = np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)])
        assert np.abs(legend - wanted).max(axis=1).min() <= 16, color


def test_confusion(tmp_path):
    counts = np.eye(3, dtype=int) * 9 + 1
    with Image.open(pictures.confusion(counts, tmp_path / "confusion.png", names="abc")) as picture:
        assert picture.format == "PNG" and min(picture.size) > 300
    with pytest.raises(InvalidInputError, match="K, K"):
        pictures.confusion(counts[:2], tmp_path / "no.png")


def test_a_confusion_matrix_is_in_percent_of_the_images_of_a_class(monkeypatch):
    monkeypatch.setattr(pictures, "save_figure", lambda figure, path: figure)
    figure = pictures.confusion(np.array([[3, 1], [0, 4]]))
    assert sorted(text.get_text() for text in figure.axes[0].texts) == ["100", "25", "75"]


def test_a_name_of_dollars_is_no_formula(tmp_path):
    names = ["$1_$5", "$\\frac$"]
    shown = pictures.confusion(np.eye(2), tmp_path / "c.png", names, title="$\\frac$")
    assert shown.stat().st_size > 1000
    assert pictures.curves({"loss": [2.0, 1.0]}, tmp_path / "t.png", title="$\\frac$").stat().st_size > 1000
