"""`sslzoo explore`: a map of images by their features."""

import sslzoo
from sslzoo.cli import shared
from sslzoo.cli.command import Answer, argument, check_output, command, without_picture


@command(
    argument("features", type="path", metavar="FEATURES", help="the .npz or .parquet that `sslzoo embed` wrote"),
    argument("--html", required=True, type="path", metavar="FILE", help="page to write"),
    argument(
        "--images", metavar="IMAGES", help="the embedded images, if they were no files: an .npz or a data set's name"
    ),
    argument("--split", help="split of IMAGES that was embedded (train of a data set)"),
    shared.DATA_DIR,
    argument("--clusters", type="positive integer", metavar="N", help="number of clusters (as many as classes, or 10)"),
    argument("--neighbors", type="positive integer", default=12, metavar="N", help="number of neighbors to show (12)"),
    argument("--title", help="title of the page (the name of FEATURES)"),
    shared.SEED,
    argument("--force", action="store_true", help="overwrite the page"),
)
def explore(features, html, title, force, **options):
    """Write a page with a map of all images.

    Images with similar features lie close together. Hovering shows a thumbnail, a
    click the nearest images; colors show classes or clusters. The page is one file.
    The map is t-SNE of 50 principal components of 5,000 images (half a minute); each
    other image is placed between its three nearest of those.

    examples:
      sslzoo embed simvae-mnist scans/ -o features.npz && sslzoo explore features.npz --html map.html
      sslzoo explore features.npz --html map.html --images mnist.npz --split test
      sslzoo explore features.npz --html map.html --images cifar10 --split test --clusters 20
    """
    check_output(html, force, "--html")
    bank = sslzoo.evaluation.read_features(features)
    sslzoo.explore(bank, html, title=title or features.name, **options)
    size, paths = html.stat().st_size, [] if bank.paths is None or options["images"] else map(str, bank.paths)
    return Answer({"html": str(html), "bytes": size}, f"Wrote {html}: {size / 2**20:.1f} MiB{without_picture(paths)}\n")
