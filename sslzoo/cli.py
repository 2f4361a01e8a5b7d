"""The command line: `sslzoo list, info, embed, search, evaluate, train, publish, seal, manifest, verify`.

Results go to standard output, everything else (progress, remarks, errors) to standard error. Exit codes: 0, all went
well; 1, a check failed or not all images were embedded; 2, wrong usage, or an error that the message explains.

Nothing here imports Keras before a command needs it: `--help`, `list` and `info` answer at once.
"""

import argparse
import contextlib
import json
import os
import sys
import textwrap
from pathlib import Path

import sslzoo
from sslzoo import progress, zoo
from sslzoo.checks import SEED_LIMIT
from sslzoo.environment import check_environment, in_a_line, quiet_backends
from sslzoo.errors import InvalidInputError, SSLZooError, choose, printable
from sslzoo.files import module_at, write_beside
from sslzoo.zoo.listing import label, shape, shown

# What `sslzoo.evaluation` calls so, which imports Keras.
PROTOCOLS = ("linear", "mlp", "knn", "gmm")
ALL_PROTOCOLS = (*PROTOCOLS, "style", "reconstruction", "generation", "likelihood", "outliers", "attributes")
# Parts that turn images into features.
EMBEDDINGS = ("encoder", "posterior", "projection")


def main(argv: "list[str] | None" = None) -> int:
    """Runs one command.

    Args:
        argv: words of the command line after the program's name; None for those of this process.

    Returns:
        int, the exit code, as the head of this module says; 130 after Ctrl-C, 141 if whoever reads the output stopped.

    Raises:
        SystemExit: with 2 on wrong usage, with 0 after --help or --version.
    """
    parser = _parser()
    if not (sys.argv[1:] if argv is None else argv):
        parser.print_help()
        return 2
    arguments = parser.parse_args(argv)
    for stream in (sys.stdout, sys.stderr):  # names of files may hold bytes that are no text
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        check_environment()
        quiet_backends()
        code, answer = arguments.run(arguments)
        if answer is not None:  # the answer went to standard output already
            print(json.dumps(answer, indent=1, allow_nan=False) if arguments.json else printable(answer), flush=True)
        return code
    except KeyboardInterrupt:
        print("sslzoo: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        return 141
    except (SSLZooError, OSError, ImportError) as error:
        print("sslzoo: " + in_a_line(error), file=sys.stderr)
        return 2


@contextlib.contextmanager
def _working():
    """Libraries that print (Keras' progress bars) do so on standard error: standard output is for the answer."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


# ------------------------------------------------------------------ words


def _parser():
    parser = argparse.ArgumentParser(
        prog="sslzoo",
        description="Trained self-supervised image encoders: find them, use them, measure them, publish your own.",
        epilog="""\
exit codes: 0 all went well; 1 a check failed, or not all images were embedded; 2 wrong usage, or an explained error

environment:
  KERAS_BACKEND      tensorflow, jax or torch
  SSLZOO_WEIGHTS     a folder of model folders, looked at first
  SSLZOO_MANIFEST    another weights_manifest.json
  TFDS_DATA_DIR      a folder of prepared TFDS data sets
  HF_TOKEN, HF_HOME, HF_HUB_OFFLINE, HF_ENDPOINT    as the Hugging Face Hub's client reads them

`sslzoo COMMAND --help` says more about each command.""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sslzoo {sslzoo.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (
        _add_list,
        _add_info,
        _add_embed,
        _add_search,
        _add_evaluate,
        _add_train,
        _add_publish,
        _add_seal,
        _add_manifest,
        _add_verify,
    ):
        add(commands)
    return parser


def _add(commands, name, run, summary, details, example):
    parser = commands.add_parser(
        name,
        help=summary,
        description=textwrap.fill(f"{summary[0].upper()}{summary[1:]}. {details}", 79),
        epilog="examples:\n" + "\n".join(f"  {line}" for line in example),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else, on standard output")

    def add(*names, **options):
        if not {"action", "choices", "type"} & set(options) and options.get("nargs") != argparse.REMAINDER:
            options["type"] = _text
        parser.add_argument(*names, **options)

    return add


def _text(text):
    """An argument that says something. Empty ones, most likely of a variable that is not set, would mean "." or all."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def _path(text):
    return Path(_text(text))


def _positive(text):
    value = int(text)
    if not 1 <= value < SEED_LIMIT:
        raise argparse.ArgumentTypeError(f"must be at least 1 and less than {SEED_LIMIT}, not {value}")
    return value


def _seed(text):
    value = int(text)
    if not 0 <= value < SEED_LIMIT:
        raise argparse.ArgumentTypeError(f"must be from 0 to {SEED_LIMIT - 1}, not {value}")
    return value


def _share(text):
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 0 and less than 1, not {value}")
    return value


def _add_model(add, what="model"):
    add("name", metavar="NAME", help=f"{what}: a name of `sslzoo list`, a model folder, or hf://organisation/name")
    add("--revision", help="commit, tag or branch of its repository on the Hub (the one that is pinned)")


# ------------------------------------------------------------------ list, info


def _add_list(commands):
    add = _add(
        commands,
        "list",
        _list,
        "show the models of the zoo",
        "The numbers are the first of each protocol: fixed beforehand, not the best on the test set.",
        ["sslzoo list", "sslzoo list --dataset mnist --tag default", "sslzoo list --method simvae --json"],
    )
    add("--method", metavar="M", help="only models of this method (SimVAE)")
    add("--dataset", metavar="D", help="only models trained on this data set (fashion_mnist)")
    add("--tag", metavar="T", help="only models of this recipe (strong, seed1), or of the default one (default)")


def _list(arguments):
    models = zoo.list_models(arguments.method, arguments.dataset, arguments.tag)
    return 0, models if arguments.json else _listing(models)


# What few encoders have, or each in a space of its own: `sslzoo info` shows it.
_APART = ("reconstruction", "generation", "likelihood", "outliers", "attributes", "clusters", "bank", "views")


def _listing(models):
    headlines = {model["name"]: _headlines(model) for model in models}
    measured = dict.fromkeys(protocol for metrics in headlines.values() for protocol in metrics)
    protocols = [protocol for protocol in measured if protocol not in _APART]
    rows = [["NAME", "METHOD", "DATASET", "IMAGES", "FEATURES", "SIZE", *map(str.upper, protocols), "HERE"]]
    for model in models:
        metrics = headlines[model["name"]]
        rows.append(
            [
                model["name"],
                model["method"] or "-",
                model["dataset"] or "-",
                shape(model),
                str(model["features"] or "-"),
                _size(model["bytes"]),
                *(shown(metrics[protocol]) if protocol in metrics else "-" for protocol in protocols),
                "yes" if model["local"] else "no",
            ]
        )
    lines = [_table(rows, right={3, 4, 5, *range(6, 6 + len(protocols))}), ""]
    for protocol in protocols:
        described = {label(metrics[protocol]) for metrics in headlines.values() if protocol in metrics}
        lines.append(f"{protocol.upper()}: {'; '.join(sorted(described))}")
    lines.append("HERE: whether it loads without a network. `sslzoo info NAME` has every number with its protocol.")
    return "\n".join(lines)


def _headlines(model):
    first = {}
    for metric in model["metrics"]:
        first.setdefault(metric["name"].partition(".")[0], metric)
    return first


def _add_info(commands):
    add = _add(
        commands,
        "info",
        _info,
        "show all that is known about one model",
        "Size, parts, every number with its protocol, the paper's beside it, and how to train it again.",
        ["sslzoo info simvae-mnist", "sslzoo info runs/mine --json", "sslzoo info hf://someone/their-model"],
    )
    _add_model(add)


def _info(arguments):
    with _working():
        model = zoo.info(arguments.name, arguments.revision)
    return 0, model if arguments.json else _sheet(model)


def _sheet(model):
    revision = model["revision"] or "not published yet"
    facts = [
        *([["method", model["method"]]] if model["method"] else []),
        *([["trained on", f"{model['dataset']}, without labels"]] if model["dataset"] else []),
        *([["recipe", f"{model['tag']}, not the default"]] if model["tag"] else []),
        ["takes", f"raw images {shape(model)} (height x width x channels), values 0..255"],
        ["gives", f"{model['features']} features"],
        ["parts", ", ".join(model["parts"])],
        ["parameters", f"{model['parameters']:,} in the encoder"],
        ["size", _size(model["bytes"])],
        ["repository", f"{model['repository']} ({revision})" if model["repository"] else "none"],
        ["on this machine", "yes" if model["local"] else "no"],
        ["license", model["license"] or "not stated"],
        *([["trained by", model["recipe"]]] if model["recipe"] else []),
        *(["paper", " ".join([paper["title"], paper.get("url", "")]).strip()] for paper in model.get("papers", [])),
    ]
    lines = [model["name"], "", _table(facts), ""]
    if model["metrics"]:
        rows = [["NUMBER", "OURS", "PAPER", "HOW"]]
        for metric in model["metrics"]:
            paper = "" if metric.get("paper") is None else shown({**metric, "value": metric["paper"], "error": None})
            rows.append([label(metric), shown(metric), paper, metric.get("protocol", "")])
        lines += [_table(rows, right={1, 2}), ""]
    lines.append(f'encoder = sslzoo.load("{model["name"]}")')
    return "\n".join(lines)


def _table(rows, right=()):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    )


def _size(count):
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


# ------------------------------------------------------------------ embed


def _add_embed(commands):
    add = _add(
        commands,
        "embed",
        _embed,
        "turn images into features",
        "Writes an .npz with `features` (N, L), `paths` or `index` of the images (N,), and `labels` (N,) if there were "
        "any, with the names of the `classes`; or a .csv of the same, a row for each image; - writes that to standard "
        "output. Images of another size are cropped around their middle and resized, "
        "colour is turned to grey or grey to colour, as the encoder needs it. A folder is read with all folders below "
        "it; its sub-folders train, validation and test are splits, and theirs are classes; --labels folders takes the "
        "folders in it for classes.",
        [
            "sslzoo embed simvae-mnist scans/ -o features.npz",
            "sslzoo embed simvae-mnist a.png b.png -o features.npz --on-error skip",
            "sslzoo embed simvae-mnist mnist.npz --split test -o features.npz --part posterior",
            "sslzoo embed simvae-mnist scans/ -o - | cut -d, -f1-3",
        ],
    )
    _add_model(add)
    add(
        "inputs",
        nargs="+",
        type=_path,
        metavar="IMAGES",
        help="folders and image files, or one .npz with `images`; - reads paths from standard input",
    )
    add("-o", "--output", required=True, type=_path, metavar="FILE", help="the .npz or .csv to write, or -")
    add("--force", action="store_true", help="replace the file if it exists")
    add(
        "--part",
        choices=EMBEDDINGS,
        default="encoder",
        help="what to embed with (encoder); posterior writes means as `features`, and `log_var`",
    )
    add("--split", help="split of a folder or .npz that has several")
    add("--labels", choices=("folders",), help="the folders in a folder of images are classes")
    add("--background", default="white", metavar="COLOUR", help="what transparent images are laid on (white)")
    add("--batch-size", type=_positive, default=256, metavar="N", help="images per call of the encoder (256)")
    add(
        "--on-error",
        choices=("fail", "skip"),
        default="fail",
        help="if an image cannot be read, write nothing; or leave it out and exit with 1 (fail)",
    )


def _embed(arguments):
    to_output = str(arguments.output) == "-"
    if to_output and arguments.json:
        raise InvalidInputError("Standard output takes the features or JSON, not both. Received: --output=- --json")
    if not to_output:
        if arguments.output.suffix not in (".npz", ".csv"):
            raise InvalidInputError(f"--output must end in .npz or .csv, or be -. Received: '{arguments.output}'")
        _check_output(arguments.output, arguments.force)
    inputs = arguments.inputs
    if [str(path) for path in inputs] == ["-"]:
        inputs = [Path(line) for line in sys.stdin.read().splitlines() if line]
        if not inputs:
            raise InvalidInputError("Standard input must name folders or image files, one a line. Received: nothing")
    with _working():
        embedding = sslzoo.embed(
            arguments.name,
            inputs,
            arguments.split,
            arguments.part,
            arguments.revision,
            arguments.batch_size,
            arguments.on_error,
            progress.line("embedded"),
            arguments.labels,
            arguments.background,
        )
        arrays = embedding.arrays()
        if arguments.output.suffix == ".npz":
            _write_npz(arguments.output, arrays, arguments.force)
        elif not to_output:
            text = embedding.to_csv().encode("utf-8", "backslashreplace")
            _check_output(arguments.output, arguments.force)  # someone else may have written it since
            write_beside(arguments.output, text)
    for path, reason in embedding.skipped:
        print(printable(f"sslzoo: left out {path}: {reason}"), file=sys.stderr)
    for remark in embedding.remarks:
        print(printable(f"sslzoo: {remark}"), file=sys.stderr)
    code = 1 if embedding.skipped else 0
    if arguments.json:
        return code, {
            "output": str(arguments.output),
            "arrays": {name: list(array.shape) for name, array in arrays.items()},
            "skipped": [{"path": path, "reason": reason} for path, reason in embedding.skipped],
            "remarks": embedding.remarks,
        }
    rows, width = embedding.shape
    if to_output:
        sys.stdout.write(embedding.to_csv())
        sys.stdout.flush()
        return code, None
    left = f", {len(embedding.skipped):,} left out" if embedding.skipped else ""
    return code, f"Wrote {arguments.output}: {rows:,} image{'s' * (rows != 1)}, {width:,} features each{left}"


def _check_output(path, force, flag="--output"):
    if path.is_dir() or not path.parent.is_dir():
        raise InvalidInputError(f"{flag} must be a file in a folder that exists. Received: '{path}'")
    if path.exists() and not force:
        raise InvalidInputError(f"The file exists; --force replaces it. Received: '{path}'")


def _write_npz(path, arrays, force):
    """Writes beside the file and renames, so that there is never half of one."""
    import numpy as np

    def save(file):
        np.savez(file, **arrays)
        _check_output(path, force)  # someone else may have written it since

    write_beside(path, save)


# ------------------------------------------------------------------ search


def _add_search(commands):
    add = _add(
        commands,
        "search",
        _search,
        "find the images most like one, by their features",
        "Compares the query with the features that `sslzoo embed` wrote, by the cosine of the angle between them. A "
        "query that is among those images is left out of what is found. --html writes a page of thumbnails that needs "
        "no other file.",
        [
            "sslzoo search features.npz query.jpg",
            "sslzoo search features.npz query.jpg -k 20 --html found.html",
            "sslzoo search features.npz 17 --json",
        ],
    )
    add("features", type=_path, metavar="FEATURES", help="the .npz that `sslzoo embed` wrote")
    add("query", metavar="QUERY", help="an image file, or the number of a row of FEATURES, from 0")
    add("-k", type=_positive, default=8, metavar="N", help="how many to find (8)")
    add("--model", metavar="NAME", help="the model that made the features (the one that they name)")
    add("--html", type=_path, metavar="FILE", help="write a page of thumbnails, too")
    add("--force", action="store_true", help="replace that page if it exists")


def _search(arguments):
    if arguments.html:
        _check_output(arguments.html, arguments.force, "--html")
    is_row = arguments.query.isdecimal() and not os.path.exists(arguments.query)
    query = int(arguments.query) if is_row else arguments.query
    with _working():
        from sslzoo import evaluation

        bank = evaluation.read_features(arguments.features)
        if not is_row and not arguments.model and bank.model is not None:
            print(printable(f"sslzoo: embedding the query with the model that the features name, {bank.model}"))
        matches = evaluation.search(bank, query, arguments.k, arguments.model)
        if arguments.html:
            if is_row and bank.paths is not None:
                query = str(bank.paths[query])
            evaluation.page(query, matches, arguments.html)
    if arguments.json:
        return 0, [vars(match) for match in matches]
    labelled = any(match.label is not None for match in matches)
    rows = [["SIMILARITY", "IMAGE", *(["CLASS"] if labelled else [])]]
    rows += [[f"{m.similarity:.3f}", str(m.image), *([str(m.label)] if labelled else [])] for m in matches]
    return 0, _table(rows, right={0}) + (f"\n\nWrote {arguments.html}" if arguments.html else "")


# ------------------------------------------------------------------ evaluate


def _add_evaluate(commands):
    add = _add(
        commands,
        "evaluate",
        _evaluate,
        "measure what features tell about the classes of a data set",
        "The encoder stays frozen: a hash of its weights before and after proves it. --protocols all also measures "
        "style, reconstruction, generation, likelihood and outliers, as far as they apply; --out writes report.json, "
        "report.md and pictures/ into a folder, in place of those of an earlier evaluation.",
        [
            "sslzoo evaluate simvae-digits",
            "sslzoo evaluate simvae-mnist --protocols all --out measured/",
            "sslzoo evaluate simvae-mnist --dataset digits            # transfer: images are made to fit",
            "sslzoo evaluate simvae-mnist --dataset mnist --data-dir ~/tensorflow_datasets --protocols knn linear",
            "sslzoo evaluate runs/mine --dataset mine.npz --json > report.json",
        ],
    )
    _add_model(add, "encoder")
    add(
        "--dataset",
        "--probe-data",
        metavar="D",
        help="digits, mnist, fashion_mnist, cifar10, cifar100, svhn_cropped, celeb_a, .npz, or folder (the set that it "
        "was trained on)",
    )
    add("--data-dir", help="folder of prepared TFDS data sets")
    add(
        "--protocols",
        nargs="+",
        action="extend",
        choices=("all", *ALL_PROTOCOLS),
        metavar="P",
        help=f"some of {', '.join(ALL_PROTOCOLS)}, or all that apply ({' '.join(PROTOCOLS)})",
    )
    add("--out", type=_path, metavar="FOLDER", help="write report.json, report.md and pictures/ into it")
    add(
        "--extractor",
        default="inception",
        metavar="E",
        help="of the Fréchet distance: inception, or an encoder's name or folder (inception)",
    )
    add("--outside", nargs="+", action="extend", metavar="D", help="sets that outliers are taken from (those at hand)")
    add("--attribute", default="Male", metavar="A", help="of CelebA: an attribute, or hair or gender (Male)")
    add("--image-size", type=_positive, metavar="N", help="of a folder's images, for an encoder of any size")
    add("--labels", choices=("folders",), help="the folders in a folder of images are classes")
    add(
        "--test-share",
        type=_share,
        default=0.0,
        metavar="S",
        help="with --labels folders: share of each class held out",
    )
    add("--on-error", choices=("fail", "skip"), default="fail", help="images of a folder that cannot be read (fail)")
    add("--limit", type=_positive, metavar="N", help="at most that many train images, chosen at random")
    add("--epochs", type=_positive, default=200, metavar="N", help="of the probes (200)")
    add("--gmm-restarts", type=_positive, default=20, metavar="N", help="of the mixture (20)")
    add("--batch-size", type=_positive, default=500, metavar="N", help="images per call of the encoder (500)")
    add("--seed", type=_seed, default=0, help="of probes and mixtures (0)")


def _evaluate(arguments):
    dataset = arguments.dataset or _trained_on(arguments.name)
    asked = arguments.protocols or PROTOCOLS
    protocols = "all" if "all" in asked else asked

    def keep(report):
        report.encoder = arguments.name
        if arguments.out:
            _write_report(report, arguments.out)

    with _working():
        if arguments.out:
            _check_report(arguments.out)
        encoder = _at(arguments.name, arguments.revision)
        report = sslzoo.evaluate(
            encoder,
            dataset,
            protocols,
            arguments.data_dir,
            batch_size=arguments.batch_size,
            extractor=arguments.extractor,
            outside=arguments.outside,
            attribute=arguments.attribute,
            pictures=arguments.out and arguments.out / "pictures",
            seed=arguments.seed,
            epochs=arguments.epochs,
            max_train=arguments.limit,
            image_size=arguments.image_size,
            gmm_restarts=arguments.gmm_restarts,
            labels=arguments.labels,
            test_share=arguments.test_share,
            on_error=arguments.on_error,
            keep=keep,
        )
    return 0, report.to_dict() if arguments.json else str(report)


def _at(name, revision):
    """A name by which `sslzoo.load` finds a model at a revision, and its other parts too."""
    if revision is None:
        return name
    zoo.load(name, revision=revision)  # which refuses what has no revisions, and two that differ
    if name.startswith("hf://"):
        return f"{name.partition('@')[0]}@{revision}"
    return f"hf://{zoo.info(name)['repository']}@{revision}"


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
    # A picture without a report beside it may be anyone's; one that this report has is drawn next.
    again = _is_report(out / "report.json")
    report.save(out / "report.json")
    write_beside(out / "report.md", f"# {report.encoder}\n\n{report.to_markdown()}".encode())
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

    results = zoo.results_of(name)
    entries = {model["name"]: model["dataset"] for model in zoo.list_models()}
    dataset = results.get("dataset") or entries.get(name)
    if dataset in KNOWN:
        return dataset
    if dataset is not None:
        why = f"only its owner has those that {name!r} was trained on. Received: no --dataset, trained on {dataset!r}"
    elif name.startswith("hf://"):
        why = f"a repository is not asked which it was trained on. Received: no --dataset, {name!r}"
    elif Path(name).is_file():
        why = f"a .keras file does not say which it was trained on. Received: no --dataset, {name!r}"
    else:
        zoo.load(name)  # which says more of a folder that holds no model
        why = f"results.json, which would say so of {name!r}, is missing. Received: no --dataset"
    raise InvalidInputError(f"--dataset names the images to measure on; {why}")


# ------------------------------------------------------------------ train


def _add_train(commands):
    add = _add(
        commands,
        "train",
        _train,
        "train an encoder by a method's recipe",
        "Whatever follows METHOD is the recipe's: `sslzoo train METHOD --help` lists its flags. Progress goes to "
        "standard error; the answer is the model folder that was written. "
        f"Methods: {', '.join(_recipes())}.",
        [
            "sslzoo train simvae",
            "KERAS_BACKEND=jax sslzoo train simclr --dataset mnist --max-minutes 30",
            "sslzoo train simvae --dataset mnist --resume",
        ],
    )
    add("method", metavar="METHOD", help="one of the methods above")
    add("flags", nargs=argparse.REMAINDER, metavar="...", help="flags of the recipe")


def _recipes():
    """Recipes by name: those inside an installed package, else those of the checkout."""
    from sslzoo.zoo import index

    return {path.stem.replace("_", "-"): path for path in sorted(index.beside("recipes").glob("[a-z]*.py"))}


def _train(arguments):
    recipes = _recipes()
    recipe = recipes[choose("method", arguments.method.replace("_", "-"), recipes)]
    sys.argv[0] = f"sslzoo train {arguments.method}"  # what the recipe's parser calls itself
    asks = {"-h", "--help", "--show"} & set(arguments.flags)  # answers that the recipe prints
    with contextlib.nullcontext() if asks else _working():
        folder = str(module_at(recipe).main(arguments.flags))
    return 0, {"folder": folder} if arguments.json else folder


# ------------------------------------------------------------------ publish, manifest, verify


def _add_publish(commands):
    add = _add(
        commands,
        "publish",
        _publish,
        "put a model folder on the Hugging Face Hub",
        "Everything is checked first, and sent in one commit; files that are there already are not sent again. The "
        "card is made from results.json. The commit is pinned in weights_manifest.json. The token is HF_TOKEN, or the "
        "one that this machine is logged in with (hf auth login).",
        [
            "sslzoo publish runs/simvae-mnist/simvae-mnist my-organisation/simvae-mnist",
            "sslzoo publish weights/simvae-mnist sslzoo/simvae-mnist --create-pr",
        ],
    )
    add("folder", type=_path, metavar="FOLDER", help="a model folder")
    add("repository", metavar="REPO", help="organisation/name on the Hub; made if need be")
    add("--private", action="store_true", default=None, help="make a repository that only you may see")
    add("--public", action="store_false", dest="private", help="make a repository that everyone may see")
    add("--create-pr", action="store_true", help="open a pull request instead of a commit")
    add("--overwrite-card", action="store_true", help="replace the card also if a person edited it")
    add("--manifest", type=_path, metavar="FILE", help="the manifest to pin the commit in (the checkout's)")
    add("--no-manifest", action="store_const", const=False, dest="manifest", help="pin it nowhere")


def _publish(arguments):
    from sslzoo import publishing

    with _working():
        done = publishing.publish(
            arguments.folder,
            arguments.repository,
            private=arguments.private,
            create_pr=arguments.create_pr,
            manifest=arguments.manifest,
            overwrite_card=arguments.overwrite_card,
        )
    if arguments.json:
        return 0, done
    changed = len(done["changed"]) + len(done["removed"])
    lines = [f"{done['name']}: {done['url']} at {done['revision']}"]
    lines.append(f"{changed} files changed" if changed else "Nothing changed: these files are there already")
    if done["pull_request"]:
        lines.append(f"Pull request: {done['pull_request']}")
    if done["manifest"]:
        lines.append(f"Pinned in {done['manifest']}")
    return 0, "\n".join([*lines, *done["notes"]])


def _add_seal(commands):
    add = _add(
        commands,
        "seal",
        _seal,
        "write the hashes of model folders' files into their results.json",
        "Afterwards loading a folder refuses a file that changed. For folders written before there were such hashes, "
        "or whose files were changed on purpose; the card is made again. Models of the manifest are entered anew "
        "afterwards: sslzoo manifest FOLDER.",
        ["sslzoo seal weights/*", "sslzoo seal runs/mine/mine"],
    )
    add("folders", nargs="+", type=Path, metavar="FOLDER", help="model folders")


def _seal(arguments):
    from sslzoo.publishing import artefact

    with _working():
        changed = {str(folder): artefact.seal(folder) for folder in arguments.folders}
    if arguments.json:
        return 0, {"changed": changed}
    return 0, "\n".join(f"{folder}: {'sealed' if new else 'unchanged'}" for folder, new in changed.items())


def _add_manifest(commands):
    add = _add(
        commands,
        "manifest",
        _manifest,
        "enter model folders in the manifest of published models",
        "Enters the numbers and the hashes of each folder's files under its name, after it was trained again. A pinned "
        "commit stays if it holds these very files.",
        ["sslzoo manifest weights/*", "sslzoo manifest weights/simvae-mnist --organisation me"],
    )
    add("folders", nargs="+", type=_path, metavar="FOLDER", help="model folders")
    add("--organisation", default="sslzoo", metavar="O", help="on the Hub, for models that are new (sslzoo)")
    add("--manifest", type=_path, metavar="FILE", help="the manifest to change (the checkout's)")


def _manifest(arguments):
    from sslzoo.publishing import manifest
    from sslzoo.zoo import index

    file = arguments.manifest or index.path()
    if index.is_installed(file):
        raise InvalidInputError(
            "An installed package's manifest is not changed: name another by --manifest or SSLZOO_MANIFEST. "
            f"Received: '{file}'"
        )
    changed = {str(folder): manifest.refresh(folder, arguments.organisation, file) for folder in arguments.folders}
    if arguments.json:
        return 0, {"manifest": str(file), "changed": changed}
    return 0, "\n".join(f"{folder}: {'entered' if new else 'unchanged'}" for folder, new in changed.items())


def _add_verify(commands):
    add = _add(
        commands,
        "verify",
        _verify,
        "compare models with the hashes in the manifest",
        "Exits with 1 if a file differs, or if there was nothing to compare at all.",
        ["sslzoo verify", "sslzoo verify simvae-mnist --hub", "sslzoo verify --json"],
    )
    add("name", nargs="?", metavar="NAME", help="a name of `sslzoo list` (all)")
    add("--hub", action="store_true", help="look at the Hub, too")


def _verify(arguments):
    with _working():
        findings = zoo.verify(arguments.name, hub=arguments.hub)
    verdicts = [finding["ok"] for finding in findings]
    code = 0 if True in verdicts and False not in verdicts else 1
    if arguments.json:
        return code, findings
    words = {True: "ok", False: "FAILED", None: "not checked"}
    lines = []
    for finding in findings:
        files = f"{finding['files']} files, " if finding["ok"] else ""
        lines.append(f"{words[finding['ok']]}: {finding['name']}, {finding['where']}: {files}{finding['place']}")
        lines += [f"    {problem}" for problem in finding["problems"]]
    return code, "\n".join(lines)
