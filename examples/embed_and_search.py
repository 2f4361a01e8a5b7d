"""Embed images with a trained encoder, and find the nearest images to some queries.

    python examples/embed_and_search.py
    python examples/embed_and_search.py --encoder simvae-mnist --dataset mnist --data-dir ~/tensorflow_datasets

Every test image is searched for among the train images. Prints the precision at k, the share of the k nearest images
that are of the query's class, by the encoder's features and by raw pixels, and draws one query per class with what was
found: frames say which neighbors are of the query's class.
"""

import argparse

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import sslzoo
from sslzoo.evaluation import features, nearest

RIGHT, WRONG = "#0072B2", "#D55E00"  # told apart under every color blindness


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="simvae-digits", help="name, folder or hf:// address (simvae-digits)")
    parser.add_argument("--dataset", default="digits", help="labeled data set of that image size (digits)")
    parser.add_argument("--data-dir", help="folder of prepared TFDS data sets")
    parser.add_argument("--k", type=int, default=10, help="neighbors of each query (10)")
    parser.add_argument("--queries", type=int, default=2000, help="search for at most that many test images (2000)")
    parser.add_argument("--seed", type=int, default=0, help="which queries are drawn (0)")
    parser.add_argument("--out", default="embed_and_search.png", help="picture to write (embed_and_search.png)")
    arguments = parser.parse_args(argv)

    images, labels = sslzoo.data.load(arguments.dataset, "train", data_dir=arguments.data_dir)
    queries, query_labels = sslzoo.data.load(arguments.dataset, "test", data_dir=arguments.data_dir)
    queries, query_labels = queries[: arguments.queries], query_labels[: arguments.queries]

    encoder = sslzoo.load(arguments.encoder)  # raw images in, features out
    bank, wanted = features(encoder, images), features(encoder, queries)
    found, _ = nearest(bank, wanted, arguments.k, "cosine")
    by_pixels, _ = nearest(images.reshape(len(images), -1), queries.reshape(len(queries), -1), arguments.k, "cosine")

    print(f"{len(queries):,} queries among {len(images):,} images, {arguments.k} neighbors by cosine similarity")
    precision = {}
    for name, neighbors, width in (
        (arguments.encoder, found, bank.shape[1]),
        ("raw pixels", by_pixels, images[0].size),
    ):
        precision[name] = np.mean(labels[neighbors] == query_labels[:, None])
        print(f"precision@{arguments.k} by {name}, {width:,} numbers per image: {100 * precision[name]:.1f} %")

    random = np.random.default_rng(arguments.seed)
    shown = [random.choice(np.flatnonzero(query_labels == label)) for label in np.unique(query_labels)[:10]]
    draw(queries[shown], images[found[shown]], labels[found[shown]] == query_labels[shown, None], arguments.out)
    print(f"Wrote {arguments.out}")
    return precision


def draw(queries, neighbors, right, path):
    """One row per query: the query, then its neighbors (rows, k, H, W, C), framed by whether they are right."""
    rows, columns = right.shape
    figure = Figure(figsize=(0.62 * (columns + 1.4), 0.62 * rows + 0.7), dpi=120, layout="constrained")
    ratios = {"width_ratios": [1, 0.25, *[1] * columns]}
    grid = figure.subplots(rows, columns + 2, squeeze=False, gridspec_kw=ratios)
    for row in range(rows):
        grid[row, 1].set_axis_off()
        for axes, image in zip(grid[row, [0, *range(2, columns + 2)]], [queries[row], *neighbors[row]]):
            axes.imshow(image.squeeze(), cmap="gray", vmin=0, vmax=255)
            axes.set(xticks=[], yticks=[])
        grid[row, 0].spines[:].set_visible(False)
        for axes, is_right in zip(grid[row, 2:], right[row]):
            axes.spines[:].set(color=RIGHT if is_right else WRONG, linewidth=2, linestyle="-" if is_right else "--")
    grid[0, 0].set_title("query", fontsize=9)
    grid[0, 2].set_title("nearest first", fontsize=9, loc="left")
    figure.supxlabel("solid blue: same class as the query      dashed orange: another class", fontsize=9)
    FigureCanvasAgg(figure).print_png(path)


if __name__ == "__main__":
    main()
