"""`sslzoo evaluate` and `sslzoo views`: what an encoder and a policy of views make of images."""

import sslzoo
from sslzoo import zoo
from sslzoo.cli import shared
from sslzoo.cli.command import Answer, argument, check_page, command, say
from sslzoo.errors import InvalidInputError, choose
from sslzoo.files import as_path, write_beside
from sslzoo.zoo.loading import address

# What `sslzoo.evaluation` calls so, which imports Keras.
PROTOCOLS = ("linear", "mlp", "knn", "gmm")
ALL_PROTOCOLS = (
    *PROTOCOLS,
    "few_shot",
    "style",
    "reconstruction",
    "generation",
    "likelihood",
    "outliers",
    "attributes",
)


@command(
    shared.MODEL,
    shared.REVISION,
    argument("--dataset", metavar="D", help="a name, .npz or folder (what the model was trained on)"),
    shared.DATA_DIR,
    argument(
        "--protocols",
        nargs="+",
        action="extend",
        choices=("all", *ALL_PROTOCOLS),
        metavar="P",
        help=f"of {', '.join(ALL_PROTOCOLS)}, or all that apply ({' '.join(PROTOCOLS)})",
    ),
    argument("--out", type="path", metavar="FOLDER", help="write report.json, report.md and pictures/ into it"),
    argument("--extractor", metavar="E", help="network of the Fréchet distance: inception, or an encoder (inception)"),
    argument("--outside", nargs="+", action="extend", metavar="D", help="data sets of the outliers (those at hand)"),
    shared.ATTRIBUTE,
    shared.IMAGE_SIZE,
    shared.LABELS,
    shared.TEST_SHARE,
    shared.BACKGROUND,
    shared.ON_ERROR,
    shared.LIMIT,
    argument("--epochs", type="positive integer", metavar="N", help="epochs of the probes (200)"),
    argument("--gmm-restarts", type="positive integer", metavar="N", help="restarts of the mixture (20)"),
    shared.batch_size(500),
    shared.SEED,
)
def evaluate(name, revision, dataset, protocols, out, **options):
    """Measure how well features predict the classes of a data set.

    Data sets: digits, mnist, fashion_mnist, cifar10, cifar100, svhn_cropped, celeb_a.
    The encoder stays frozen: a hash of its weights before and after proves it. In a
    folder without splits each subfolder is a class. --protocols all adds few labels,
    style, attributes, reconstruction, generation, likelihood and outliers, where they
    apply.
    --out writes report.json, report.md and pictures/, over those of an earlier
    evaluation.

    examples:
      sslzoo evaluate simvae-digits
      sslzoo evaluate simvae-mnist --protocols all --out measured/
      sslzoo evaluate simvae-mnist --dataset digits            # transfer: images are made to fit
      sslzoo evaluate simvae-mnist --dataset mnist --data-dir ~/tensorflow_datasets --protocols knn linear
      sslzoo evaluate runs/mine --dataset mine.npz --json > report.json
    """

    def keep(report):
        report.encoder = name
        if out:
            _write_report(report, out)

    dataset, protocols = dataset or _trained_on(name), protocols or PROTOCOLS
    options = {option: value for option, value in options.items() if value is not None}
    if out:
        _check_report(out)
    report = sslzoo.evaluate(
        _at(name, revision),
        dataset,
        "all" if "all" in protocols else protocols,
        pictures=out and out / "pictures",
        keep=keep,
        **options,
    )
    return Answer(report.to_dict(), f"{report}\n")


def _at(name, revision):
    """A name by which `sslzoo.load` finds a model at a revision, and its other parts too."""
    if revision is None:
        return name
    zoo.load(name, revision=revision)  # which refuses what has no revisions, and two that differ
    return address(name, revision)


def _check_report(out):
    """Raise `InvalidInputError` unless a report can be written into the folder, before it is measured."""
    from sslzoo.evaluation import drawing

    drawing.check_folder(out, "--out")
    for file in (out / "report.json", out / "report.md"):
        if file.is_dir():
            raise InvalidInputError(f"--out must have room for the file {file.name}. Received: the folder '{file}'")


def _write_report(report, out):
    """Writes report.json and report.md, and takes away the pictures of the report that was there."""
    from sslzoo.evaluation import drawing

    out.mkdir(parents=True, exist_ok=True)
    # A picture without a report of ours beside it may be anyone's; one that this report has is drawn next.
    again = _is_report(out / "report.json")
    report.save(out / "report.json")
    write_beside(out / "report.md", f"# {report.encoder}\n\n{report.to_markdown()}")
    if again:
        drawing.remove_pictures(out / "pictures")


def _is_report(file):
    from sslzoo.evaluation import Report

    try:
        Report.from_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def _trained_on(name):
    """The data set that a model was trained on, where anyone has it."""
    from sslzoo.data.catalogue import KNOWN

    is_ours = not name.startswith("hf://") and not as_path(name).is_file()
    dataset = zoo.info(name)["dataset"] if is_ours else None
    if dataset in KNOWN:
        return dataset
    raise InvalidInputError(
        "--dataset names the images to measure on, where nothing here says which the model was trained on, or only "
        f"their owner has them. Received: no --dataset, {name!r} trained on {dataset!r}"
    )


@command(
    argument("dataset", metavar="IMAGES", help="a folder of images, an .npz, or a data set's name"),
    argument("--policy", default="photos", metavar="P", help="policy of the views (photos)"),
    argument("--num-views", type="positive integer", default=8, metavar="N", help="views of each image (8)"),
    argument(
        "--image-size",
        type="positive integer",
        metavar="N",
        help="side of images and views (their own up to 256, or 64)",
    ),
    argument(
        "--images", type="positive integer", default=256, metavar="N", help="number of images, drawn at random (256)"
    ),
    shared.DATA_DIR,
    argument("--html", type="path", metavar="FILE", help="also write a page of images and their views"),
    argument("--force", action="store_true", help="overwrite that page"),
    shared.BACKGROUND,
    shared.ON_ERROR,
    shared.SEED,
)
def views(dataset, policy, num_views, image_size, images, data_dir, html, force, background, on_error, seed):
    """Show random views of images by a policy. A recipe's --show prints its own.

    Prints the shares of clipped values and of dark or empty views: a policy that
    destroys much of the images teaches little.

    examples:
      sslzoo views photos/ --policy photos --image-size 96 --html views.html
      sslzoo views tiles.npz --policy satellite --html views.html
      sslzoo views cifar10 --policy simclr-cifar10 --data-dir ~/tensorflow_datasets
    """
    from sslzoo.views import POLICIES

    choose("policy", policy, POLICIES)
    check_page(html, force)
    import numpy as np

    from sslzoo import data, evaluation
    from sslzoo.data.catalogue import KNOWN
    from sslzoo.data.sources import is_folder

    if is_folder(dataset):  # of which only what is shown is read
        folder = data.ImageFolder(dataset, background=background)
        chosen, _, remarks = folder.load("train", image_size or "auto", on_error, most=images, seed=seed)
    else:
        reading, remarks = {"data_dir": data_dir} if dataset in KNOWN else {}, []
        every, _ = data.load(dataset, "train", background=background, on_error=on_error, remarks=remarks, **reading)
        chosen = every[np.sort(np.random.default_rng(seed).permutation(len(every))[:images])]
    say(remarks)
    check = evaluation.check_views(chosen, policy, num_views, image_size, data.value_range(chosen), seed)
    if html:
        check.page(html)
    written = f"Wrote {html}\n" if html else ""
    record = {"policy": policy, "images": len(chosen), "views": num_views, **check.measures}
    record["remarks"] = remarks + check.remarks()
    return Answer(record, f"{check}\n{written}")
