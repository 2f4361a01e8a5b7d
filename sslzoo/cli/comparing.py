"""`sslzoo compare`: which differences of encoders are more than chance."""

import sslzoo
from sslzoo.cli.command import LABELS, ON_ERROR, TEST_SHARE, Answer, argument, batch_size, command

PROTOCOLS = ("knn", "logistic")  # of `sslzoo.downstream.comparison`, which imports Keras


@command(
    argument("encoders", nargs="+", metavar="ENCODER", help="names, model folders, hf:// addresses or .onnx files"),
    argument("--dataset", required=True, metavar="D", help="a name, .npz or folder, with labels"),
    argument("--data-dir", help="folder of prepared TFDS data sets"),
    argument(
        "--protocols",
        nargs="+",
        action="extend",
        choices=PROTOCOLS,
        metavar="P",
        help=f"of {', '.join(PROTOCOLS)} (both)",
    ),
    argument("--out", type="path", metavar="FOLDER", help="write comparison.json, .txt and .png into it"),
    argument("--attribute", default="Male", metavar="A", help="of CelebA: an attribute, or hair or gender (Male)"),
    argument(
        "--image-size", type="positive integer", metavar="N", help="side of a folder's images, for encoders of any size"
    ),
    argument("--scale", type="rate", metavar="S", help="factor for values 0..255 before an .onnx gets them (1/255)"),
    LABELS,
    TEST_SHARE,
    ON_ERROR,
    argument(
        "--limit", dest="max_train", type="positive integer", metavar="N", help="most training images, drawn at random"
    ),
    batch_size(500),
    argument("--seed", type="seed", default=0, help="random seed (0)"),
)
def compare(encoders, dataset, out, protocols, **options):
    """Test which encoders differ by more than chance.

    Each encoder classifies every test image. Accuracies have 95 % intervals. Pairs of
    encoders are compared on the images that only one of the two classifies right
    (exact McNemar test), with p-values adjusted for the number of pairs (Holm). --out
    writes comparison.json, which has every answer, comparison.txt and comparison.png.

    examples:
      sslzoo compare simclr-digits simvae-digits --dataset digits
      sslzoo compare simclr-mnist runs/mine hf://someone/theirs --dataset mnist --out compared/
      sslzoo compare simvae-mnist other.onnx --dataset photos/
    """
    if out:
        from sslzoo.evaluation import drawing

        drawing.check_folder(out, "--out")
    found = sslzoo.compare(encoders, dataset, protocols=protocols or PROTOCOLS, **options)
    written = f"Wrote {found.save(out)}\n" if out else ""
    return Answer(found.to_dict(), f"{found}\n{written}")
