"""`sslzoo finetune, predict`: classifiers."""

from collections import Counter

import sslzoo
from sslzoo import progress
from sslzoo.cli import shared
from sslzoo.cli.command import Answer, argument, check_output, command, say
from sslzoo.cli.features import inputs_of
from sslzoo.errors import InvalidInputError
from sslzoo.files import write_beside
from sslzoo.zoo import layout

MODES = ("full", "probe", "lora")  # of `sslzoo.downstream.finetuning`, which imports Keras


@command(
    argument(
        "encoder", metavar="ENCODER", help="a name, folder, hf:// address, or a backbone (keras:MobileNetV3Small)"
    ),
    argument("--dataset", required=True, metavar="D", help="a name, .npz, or folder whose folders are classes"),
    argument("--out", required=True, type="path", metavar="F", help="folder to write the classifier to"),
    argument("--mode", choices=MODES, default="full", help="train all layers, the head alone, or LoRA (full)"),
    argument(
        "--labels-per-class",
        dest="labels",
        type="positive integer",
        metavar="N",
        help="labeled images of each class (all)",
    ),
    shared.TEST_SHARE,
    argument("--epochs", type="positive integer", default=50, metavar="N", help="most epochs (50)"),
    shared.batch_size(32),
    argument("--learning-rate", type="rate", metavar="R", help="learning rate of Adam (the mode's own)"),
    argument(
        "--depth-decay",
        type="rate",
        metavar="R",
        help="learning rate of the first layer, as a share of the last layer's (0.1)",
    ),
    argument("--rank", type="positive integer", metavar="N", help="rank of LoRA (4)"),
    argument("--no-flip", action="store_false", default=None, dest="flip", help="do not mirror images while training"),
    argument("--no-scratch", action="store_false", dest="scratch", help="do not also train the network from scratch"),
    argument("--seeds", type="positive integer", default=1, metavar="N", help="repetitions, for intervals (1)"),
    shared.SEED,
    shared.IMAGE_SIZE,
    argument(
        "--stream", action="store_const", const=True, default="auto", help="read a folder's images while training"
    ),
    argument("--pretrained", action="store_true", help="start a backbone from its supervised weights"),
    shared.ATTRIBUTE,
    shared.DATA_DIR,
    argument("--license", metavar="L", help="license of the classifier, as the Hub writes it (none)"),
    shared.BACKGROUND,
    shared.ON_ERROR,
    argument("--force", action="store_true", dest="overwrite", help="overwrite a model in F"),
)
def finetune(encoder, dataset, out, **options):
    """Train a classifier on top of an encoder.

    Fits a dense layer by logistic regression, then trains all layers at a small
    learning rate, smaller for earlier layers; held-out training images choose the
    epoch. Prints the test accuracy next to those of the dense layer alone and of the
    same network trained from scratch. F becomes a model folder for sslzoo predict,
    sslzoo.load and sslzoo publish.

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
    shared.MODEL,
    shared.REVISION,
    shared.IMAGES,
    argument(
        "-o", "--output", required=True, type="path", metavar="FILE", help=".csv to write, or - for standard output"
    ),
    argument("--html", type="path", metavar="FILE", help="also write a page of thumbnails"),
    argument("--force", action="store_true", help="overwrite these files"),
    shared.SPLIT,
    shared.BACKGROUND,
    shared.batch_size(256),
    shared.ON_ERROR,
)
def predict(name, inputs, output, html, force, **options):
    """Classify images.

    Writes a .csv of path, class and probability, a row for each image. --html writes
    a page of thumbnails, the least certain first. Images are resized as by `sslzoo
    embed`. Exits with 1 if --on-error skip left images out.

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
        write_beside(output, found.to_csv())
    if html:
        found.page(html, options["background"])
    said = say(found.remarks, found.skipped)
    labels = found.labels
    sizes = Counter(labels)
    counts = {each: sizes[each] for each in found.classes}
    lines = [f"Wrote {output}: {len(labels):,} images", *(f"  {count:,} {each}" for each, count in counts.items())]
    lines += [f"Wrote {html}"] if html else []
    record = {"output": str(output), "classes": counts, **said}
    text = found.to_csv() if to_stdout else "\n".join([*lines, ""])
    return Answer(record, text, int(bool(found.skipped)), raw=to_stdout)
