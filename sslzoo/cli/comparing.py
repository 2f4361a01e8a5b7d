"""`sslzoo compare`: which differences of encoders are more than chance."""

import sslzoo
from sslzoo.cli import shared
from sslzoo.cli.command import Answer, argument, command

PROTOCOLS = ("knn", "logistic")  # of `sslzoo.downstream.comparison`, which imports Keras


@command(
    argument("encoders", nargs="+", metavar="ENCODER", help="names, model folders, hf:// addresses or .onnx files"),
    argument("--dataset", required=True, metavar="D", help="a name, .npz or folder, with labels"),
    shared.DATA_DIR,
    argument(
        "--protocols",
        nargs="+",
        action="extend",
        choices=PROTOCOLS,
        metavar="P",
        help=f"of {', '.join(PROTOCOLS)} (both)",
    ),
    argument("--out", type="path", metavar="FOLDER", help="write comparison.json, .txt and .png into it"),
    shared.ATTRIBUTE,
    shared.IMAGE_SIZE,
    shared.SCALE,
    shared.LABELS,
    shared.TEST_SHARE,
    shared.BACKGROUND,
    shared.ON_ERROR,
    shared.LIMIT,
    shared.batch_size(500),
    shared.SEED,
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
        from sslzoo.data.sources import check_outside
        from sslzoo.evaluation import drawing

        drawing.check_folder(out, "--out")
        check_outside(out, dataset, "--out")
    found = sslzoo.compare(encoders, dataset, protocols=protocols or PROTOCOLS, **options)
    written = f"Wrote {found.save(out)}\n" if out else ""
    return Answer(found.to_dict(), f"{found}\n{written}")
