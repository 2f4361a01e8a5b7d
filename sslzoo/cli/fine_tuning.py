"""`sslzoo finetune, predict`: classifiers."""

import sys

import sslzoo
from sslzoo import progress
from sslzoo.cli.command import (
    MODEL,
    ON_ERROR,
    REVISION,
    TEST_SHARE,
    Answer,
    argument,
    batch_size,
    check_output,
    command,
)
from sslzoo.cli.features import inputs_of
from sslzoo.errors import InvalidInputError, printable
from sslzoo.files import write_beside
from sslzoo.zoo import layout

MODES = ("full", "probe", "lora")  # of `sslzoo.downstream.finetuning`, which imports Keras


@command(
    argument(
        "encoder", metavar="ENCODER", help="a name, folder, hf:// address, or a backbone (keras:MobileNetV3Small)"
    ),
    argument("--dataset", required=True, metavar="D", help="a name, .npz, or folder whose folders are classes"),
    argument("--out", required=True, type="path", metavar="F", help="the folder to write the classifier to"),
    argument("--mode", choices=MODES, default="full", help="all layers, the head alone, or low-rank terms (full)"),
    argument("--labels-per-class", dest="labels", type="positive integer", metavar="N", help="images of each (all)"),
    TEST_SHARE,
    argument("--epochs", type="positive integer", default=50, metavar="N", help="at most (50)"),
    batch_size(32),
    argument("--learning-rate", type="rate", metavar="R", help="of Adam (that of the mode)"),
    argument(
        "--depth-decay", type="rate", default=0.1, metavar="R", help="rate of the first layer to the last's (0.1)"
    ),
    argument("--rank", type="positive integer", default=4, metavar="N", help="of low-rank terms (4)"),
    argument("--no-flip", action="store_false", default=None, dest="flip", help="mirror no images while training"),
    argument("--no-scratch", action="store_false", dest="scratch", help="leave out the same network from scratch"),
    argument("--seeds", type="positive integer", default=1, metavar="N", help="repetitions, for intervals (1)"),
    argument("--seed", type="seed", default=0, help="of draws, batches and weights (0)"),
    argument(
        "--image-size", type="positive integer", metavar="N", help="of a folder's images, if the encoder asks none"
    ),
    argument(
        "--stream", action="store_const", const=True, default="auto", help="leave a folder's images in their files"
    ),
    argument("--pretrained", action="store_true", help="begin a backbone with its supervised weights"),
    argument("--attribute", default="Male", metavar="A", help="of CelebA: an attribute, or hair or gender (Male)"),
    argument("--data-dir", help="folder of prepared TFDS data sets"),
    argument("--license", metavar="L", help="of the classifier, as the Hub writes it (none is stated)"),
    ON_ERROR,
    argument("--force", action="store_true", dest="overwrite", help="replace a model that F holds"),
)
def finetune(encoder, dataset, out, **options):
    """Make a classifier of an encoder and labeled images.

    Fits a dense layer by logistic regression, then trains all layers at a small
    rate, lower for earlier ones; images that are held out choose what stays. Prints
    test accuracy beside that of the dense layer alone and of the same network from
    scratch. F is a model folder: sslzoo predict, sslzoo.load and sslzoo publish
    take it. Without test images a fifth of each class is set aside for them.

    examples:
      sslzoo finetune simclr-cifar10 --dataset photos/ --out runs/photos
      sslzoo finetune simclr-cifar10 --dataset cifar10 --labels-per-class 50 --out runs/few --seeds 3
      sslzoo finetune keras:MobileNetV3Small --pretrained --dataset photos/ --image-size 96 --out runs/mobile
      sslzoo predict runs/photos new-photos/ -o labels.csv --html page.html
    """
    if layout.parts(out) and not options["overwrite"]:
        raise InvalidInputError(f"The folder holds a model; --force replaces it. Received: --out='{out}'")
    _, report = sslzoo.finetune(encoder, dataset, out=out, **options)
    return Answer({"folder": str(out), "report": report.to_dict()}, f"{report}\n\nWrote {out}\n")


@command(
    MODEL,
    REVISION,
    argument("inputs", nargs="+", type="path", metavar="IMAGES", help="folders, files or one .npz; - reads paths"),
    argument("-o", "--output", required=True, type="path", metavar="FILE", help="the .csv to write, or -"),
    argument("--html", type="path", metavar="FILE", help="write a page of thumbnails, too"),
    argument("--force", action="store_true", help="replace these files if they exist"),
    argument("--split", help="split of a folder or .npz that has several"),
    argument("--background", default="white", metavar="COLOR", help="what transparent images are laid on (white)"),
    batch_size(256),
    ON_ERROR,
)
def predict(name, inputs, output, html, force, **options):
    """Give images their classes, by a classifier.

    Writes a .csv of path, class and probability, a row for each image; - writes it
    to standard output. --html writes a page of thumbnails, the least certain first.
    Images are made to fit as `sslzoo embed` does.
    Exits with 1 if --on-error skip left images out.

    examples:
      sslzoo predict runs/photos new-photos/ -o labels.csv
      sslzoo predict runs/photos new-photos/ -o labels.csv --html page.html
      sslzoo predict hf://someone/their-classifier a.png b.png -o -
    """
    to_stdout = str(output) == "-"
    if not to_stdout:
        if output.suffix != ".csv":
            raise InvalidInputError(f"--output must end in .csv, or be -. Received: '{output}'")
        check_output(output, force)
    if html:
        check_output(html, force, "--html")
    from sslzoo.downstream import prediction

    found = prediction.predict(name, inputs_of(inputs), progress=progress.line("predicted"), **options)
    if not to_stdout:
        write_beside(output, found.to_csv().encode("utf-8", "backslashreplace"))
    if html:
        found.page(html)
    left_out = [f"left out {image}: {reason}" for image, reason in found.skipped]
    for remark in left_out + found.remarks:
        print(printable(f"sslzoo: {remark}"), file=sys.stderr)
    labels = found.labels
    counts = {each: labels.count(each) for each in found.classes}
    lines = [f"Wrote {output}: {len(labels):,} images", *(f"  {count:,} {each}" for each, count in counts.items())]
    lines += [f"Wrote {html}"] if html else []
    record = {
        "output": str(output),
        "classes": counts,
        "skipped": [{"path": image, "reason": reason} for image, reason in found.skipped],
        "remarks": found.remarks,
    }
    text = found.to_csv() if to_stdout else "\n".join([*lines, ""])
    return Answer(record, text, int(bool(found.skipped)), raw=to_stdout)
