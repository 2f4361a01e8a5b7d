"""`sslzoo embed, search`: images to features, and features to images that are alike."""

import codecs
import contextlib
import os
import sys
from pathlib import Path

import sslzoo
from sslzoo import progress
from sslzoo.cli import shared
from sslzoo.cli.command import Answer, argument, check_output, check_page, command, say, without_picture
from sslzoo.environment import check_parquet
from sslzoo.errors import InvalidInputError, printable
from sslzoo.files import is_path, write_beside
from sslzoo.zoo.listing import table

EMBEDDINGS = ("encoder", "posterior", "projection")  # parts that turn images into features


@command(
    shared.MODEL,
    shared.REVISION,
    shared.IMAGES,
    argument(
        "-o",
        "--output",
        required=True,
        type="path",
        metavar="FILE",
        help=".npz, .csv or .parquet to write, or - for standard output",
    ),
    argument("--force", action="store_true", help="overwrite the file"),
    argument("--part", choices=EMBEDDINGS, default="encoder", help="part of the model to embed with (encoder)"),
    shared.SPLIT,
    shared.LABELS,
    shared.BACKGROUND,
    shared.batch_size(256),
    shared.ON_ERROR,
)
def embed(name, inputs, output, force, **options):
    """Turn images into features.

    An .npz has `features` (N, L), `paths` or `index` of the images (N,), and of
    labeled images `labels` (N,) and `classes`. A .csv has a row for each image. A
    .parquet has columns path, label and vector. Images of another size are
    center-cropped and resized, and converted to gray or color, as the encoder needs.

    Folders are read recursively. Subfolders train, validation and test are splits,
    and folders in them are classes; --labels folders makes classes of the subfolders
    themselves. Of an .npz the array `images` is read. --part posterior writes means
    as `features` (or `vector`), and `log_var`. Exits with 1 if --on-error skip left images out.

    examples:
      sslzoo embed simvae-mnist scans/ -o features.npz
      sslzoo embed simvae-mnist a.png b.png -o features.npz --on-error skip
      sslzoo embed simvae-mnist mnist.npz --split test -o features.npz --part posterior
      sslzoo embed simvae-mnist scans/ -o - | cut -d, -f1-3
    """
    to_stdout = str(output) == "-"
    if not to_stdout:
        if output.suffix not in (".npz", ".csv", ".parquet"):
            raise InvalidInputError(f"--output must end in .npz, .csv or .parquet, or be -. Received: '{output}'")
        check_output(output, force)
        if output.suffix == ".parquet":
            check_parquet()
    embedding = sslzoo.embed(name, inputs_of(inputs), progress=progress.line("embedded"), **options)
    if not to_stdout:
        write_beside(output, lambda file: _write(embedding, output, force, file))
    said = say(embedding.remarks, embedding.skipped)
    rows, width = embedding.shape
    left = f", {len(embedding.skipped):,} left out" if embedding.skipped else ""
    text = f"Wrote {output}: {rows:,} image{'s' * (rows != 1)}, {width:,} features each{left}\n"
    record = {
        "output": str(output),
        "arrays": {name: list(array.shape) for name, array in embedding.arrays().items()},
        **said,
    }
    return Answer(record, embedding.to_csv() if to_stdout else text, int(bool(embedding.skipped)), raw=to_stdout)


def inputs_of(inputs):
    """Paths of images, those of standard input for a dash, and those that match a pattern: some shells expand none."""
    if [str(each) for each in inputs] != ["-"]:
        return shared.matching(inputs)
    listed = _names(b"" if sys.stdin is None else sys.stdin.buffer.read())
    if not listed:
        raise InvalidInputError("Standard input must name folders or image files, one a line. Received: nothing")
    return [Path(os.fsdecode(name)) for name in listed]


def _names(content: bytes) -> list[bytes]:
    """Names in a list, ended by a NUL (`find -print0`) or by lines, as PowerShell writes them too."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            content = content.decode("utf-16").encode("utf-8")
        except UnicodeError as error:
            raise InvalidInputError(
                f"Standard input begins as UTF-16, and is none ({error}). Received: {content[:20]!r}"
            ) from error
    content = content.removeprefix(codecs.BOM_UTF8)
    names = content.split(b"\0") if b"\0" in content else [line.rstrip(b"\r") for line in content.split(b"\n")]
    return [name for name in names if name]


def _write(embedding, output, force, file):
    import numpy as np

    names = [*(() if embedding.paths is None else embedding.paths), *filter(is_path, [str(embedding.model)])]
    if not all(map(os.path.isabs, names)):
        with contextlib.suppress(ValueError):  # under Windows there is no way from one drive to another
            embedding.base = np.array(os.path.relpath(os.getcwd(), os.path.dirname(os.path.realpath(output))))
    if output.suffix == ".npz":
        np.savez(file, **embedding.arrays())
    elif output.suffix == ".parquet":
        embedding.to_parquet(file)
    else:
        file.writelines(line.encode("utf-8", "backslashreplace") for line in embedding.csv_lines())
    check_output(output, force)  # someone else may have written it since


@command(
    argument("features", type="path", metavar="FEATURES", help="the .npz or .parquet that `sslzoo embed` wrote"),
    argument("query", metavar="QUERY", help="an image file, or the number of a row of FEATURES, from 0"),
    argument("-k", type="positive integer", default=8, metavar="N", help="number of results (8)"),
    argument("--model", metavar="NAME", help="model to embed a query image with (the one that FEATURES names)"),
    shared.BACKGROUND,
    argument("--html", type="path", metavar="FILE", help="also write a page of thumbnails"),
    argument("--force", action="store_true", help="overwrite that page"),
)
def search(features, query, k, model, background, html, force):
    """Find the images most similar to one.

    Ranks the images that `sslzoo embed` turned into features by cosine similarity to
    the query, which is itself left out. --html writes the results as one page.

    examples:
      sslzoo search features.npz query.jpg
      sslzoo search features.npz query.jpg -k 20 --html found.html
      sslzoo search features.npz 17 --json
    """
    check_page(html, force)
    is_row = query.isdecimal() and len(query) < 19 and not os.path.exists(query)
    query = int(query) if is_row else query
    from sslzoo import evaluation
    from sslzoo.evaluation.search import row_of

    bank = evaluation.read_features(features)
    if not model and bank.model is not None and os.path.exists(str(query)) and row_of(bank, query) is None:
        print(printable(f"sslzoo: embedding the query with the model that the features name, {bank.model}"))
    matches = evaluation.search(bank, query, k, model, "white" if is_row and html else background)
    if html:
        shown = str(bank.paths[query]) if is_row and bank.paths is not None else query
        evaluation.page(shown, matches, html, background)
    labeled = any(match.label is not None for match in matches)
    rows = [["SIMILARITY", "IMAGE", *["CLASS"] * labeled]]
    rows += [[f"{match.similarity:.3f}", str(match.image), *[str(match.label)] * labeled] for match in matches]
    written = f"\nWrote {html}{without_picture(match.image for match in matches)}\n" if html else ""
    return Answer([vars(match) for match in matches], f"{table(rows, right={0})}\n{written}")
