"""Model cards: README.md of a model folder, made from its results.json and from nothing else.

card.md, beside this file, is the template, classifier.md that of a classifier; what results hold is described in
`sslzoo.zoo.results`.
"""

import hashlib
import html as markup
import json
import re
import shlex
import string
import textwrap
from pathlib import Path

from sslzoo.data.catalogue import KNOWN
from sslzoo.errors import printable
from sslzoo.evaluation.protocols import REGISTRY
from sslzoo.evaluation.report import options_of
from sslzoo.progress import duration
from sslzoo.publishing import citations
from sslzoo.zoo.index import headlines

# Where the Hub keeps a data set; the front matter of a card links to it.
HUB_DATASETS = {
    "mnist": "ylecun/mnist",
    "fashion_mnist": "zalando-datasets/fashion_mnist",
    "cifar10": "uoft-cs/cifar10",
    "cifar100": "uoft-cs/cifar100",
    "svhn_cropped": "ufldl-stanford/svhn",
    "celeb_a": "flwrlabs/celeba",
}
UNSTATED = "unknown"  # license of a model of somebody's own images, until they state one
_KINDS = {"nmi": "nmi", "ari": "ari", "mse": "mse", "fid": "fid", "auroc": "roc_auc", "nll": "nll"}
_KINDS |= {"r2": "r_squared", "kept": "r_squared"}  # style.kept is a mean of R2
_LAST = ", with the encoder as it is after the last epoch"
_PART_LINES = {
    "encoder": "raw images `(B, {shape})`, values {low}..{high} → representations `(B, {features})`",
    "posterior": "raw images → `[mean, log_var]` of the posterior, `(B, {features})` each",
    "projection": "raw images → the output of the projection head, which the training loss saw",
    "decoder": "latents `(B, {features})` → images in [0, 1]",
    "model": "the whole training method, for going on with training (needs sslzoo)",
}


def render(results: dict, repository: str | None = None) -> str:
    """Model card of a trained model.

    Args:
        results: dict as `sslzoo.zoo.results` describes it.
        repository: str, `organization/name` on the Hub, if that is where the card will be read.

    Returns:
        Markdown with the front matter that the Hub reads: library, license, tags, data set, `model-index` metrics.
    """
    name, dataset, shape = results["name"], results.get("dataset"), results.get("input_shape")
    low, high = results.get("input_range", (0, 255))
    # A model of somebody's own images is known by no name.
    local = name if dataset in KNOWN and "classes" not in results else f"path/to/{name}"
    where = f"hf://{repository}" if repository else local
    values = {
        "name": name,
        "introduction": "\n\n".join(_introduction(results)),
        "where": where,
        "direct": where if repository else f"path/to/{name}",
        "shape": ", ".join(map(str, shape or ("H", "W", "C"))),
        "features": results.get("features", "L"),
        "images": _in_prose(dataset),
        "terms": _terms(results),
        "numbers": "\n".join(_numbers(results, f"hf://{repository}" if repository else name)),
        "training": _section("Training", _training(results)),
        "pictures": _section("Pictures", _pictures(results)),
        "packages": " and ".join(["core Keras", *results.get("requires", ())]),
        "imports": ", ".join(["keras", *(package.replace("-", "_") for package in results.get("requires", ()))]),
        "low": f"{low:g}",
        "high": f"{high:g}",
        "size": f"of shape {'x'.join(map(str, shape))}" if shape else "of one size",
        "trained": "Its weights are random: it is a baseline."
        if results.get("views_seen") == 0
        else f"It was trained on {_in_prose(dataset)} only: features of other images may say little.",
        "remarks": "".join(f"- {' '.join(remark.split())}\n" for remark in _remarks(results)),
        "citations": "\n\n".join([*map(citations.bibtex, results.get("papers", [])), citations.SSLZOO]),
    }
    values["parts"] = "\n".join(_parts(results, values))
    values["classes"] = ", ".join(map(_as_code, results.get("classes", [])))
    kind = "classifier" if "classes" in results else "card"
    template = string.Template(Path(__file__).with_name(f"{kind}.md").read_text("utf-8"))
    return f"{_front_matter(results)}\n{printable(template.substitute(values))}"


def _section(title, lines):
    return "\n".join([f"## {title}", *lines, "", ""]) if lines else ""


_SIGNATURE = "\n<!-- Written by sslzoo from results.json; publish keeps a card that was edited. {} -->\n"


def sign(text: str) -> str:
    """The card with a last line, unseen by readers, that says whether it is still as it was written."""
    return text + _SIGNATURE.format(hashlib.sha256(text.encode("utf-8")).hexdigest())


def is_as_written(text: str) -> bool:
    """Whether a card ends in the line of `sign`, and nothing was changed since."""
    text = text.replace("\r\n", "\n").rstrip() + "\n"
    return text == sign(text[: max(text.rfind("\n<!--"), 0)])


def _front_matter(results):
    from huggingface_hub import EvalResult, ModelCardData

    dataset, method = results.get("dataset"), results.get("method")
    measured = _measured_on(results)
    numbers = [
        EvalResult(
            task_type="image-classification",
            task_name=_label(metric),
            dataset_type=HUB_DATASETS.get(measured, measured or "unknown"),
            dataset_name=_title(measured),
            dataset_split="test",
            metric_type=_kind(metric),
            metric_name=_label(metric),
            metric_value=_standard(metric),
        )
        for metric in headlines(_own_metrics(results))
    ]
    license = results.get("license", UNSTATED)
    data = ModelCardData(
        model_name=results["name"],
        library_name="keras",
        license=None if license == UNSTATED else license,
        pipeline_tag="image-classification" if "classes" in results else "image-feature-extraction",
        tags=["sslzoo", "self-supervised-learning", "representation-learning", *([method.lower()] if method else [])],
        datasets=[HUB_DATASETS[dataset]] if dataset in HUB_DATASETS else None,
        eval_results=numbers or None,
    )
    return f"---\n{data.to_yaml()}\n---\n"


def _own_metrics(results):
    """Metrics of this model: beside a classifier's stand those of others."""
    metrics, mode = results.get("metrics", []), results.get("settings", {}).get("mode")
    return [each for each in metrics if "classes" not in results or each["name"].startswith(f"{mode}.")]


def _introduction(results):
    papers = results.get("papers", [])
    if "classes" in results:
        yield (
            f"An image classifier of {len(results['classes'])} classes of {_in_prose(results.get('dataset'))}. "
            f"{results.get('description', '')}".rstrip()
        )
        return
    size = f" with {results['features']} features" if "features" in results else ""
    yield f"An image encoder{size}{_origin(results, papers)}. {results.get('description', '')}".rstrip()
    plain, _, tag = results["name"].partition(".")
    if tag:
        yield f"`{tag}` is the tag of its recipe or seed; `{plain}` is what the default recipe trains."
    for paper in papers:
        yield f"Paper: *{paper['title']}*" + (f" ({paper['url']})" if "url" in paper else "")


def _origin(results, papers):
    method, dataset = results.get("method"), results.get("dataset")
    if results.get("views_seen") == 0:
        return f", made for images of {_in_prose(dataset)} and not trained"
    if method and papers and "url" in papers[0]:
        method = f"[{method}]({papers[0]['url']})"
    how = (f" with {method}" if method else "") + (f" on {_in_prose(dataset)}" if dataset else "")
    return f", trained{how} without labels" if how else ""


def _parts(results, values):
    parts = results.get("parts", {"encoder": None})
    for part, parameters in parts.items():
        if part not in _PART_LINES:  # one of a later version
            continue
        count = "" if parameters is None else f"{parameters:,}"
        yield f"| `{part}` | {count} | {_PART_LINES[part].format(**values)} |"
    if len(parts) > 1:
        yield f'\nParts other than the encoder: `sslzoo.load("{values["where"]}", part="{list(parts)[1]}")`.'
    if results.get("weights") == "float16":
        yield "\nKernels are stored in half precision; the loaded model computes in float32."


def _terms(results):
    dataset, license = results.get("dataset"), results.get("license", UNSTATED)
    if license == UNSTATED:
        return (
            "No license is stated for this model: whoever publishes it states one, in `license` of results.json, that "
            "the terms of the images allow."
        )
    known = KNOWN.get(dataset)
    terms = f"Terms of {known.title}: {known.license} ({known.reference})" if known else None
    return f"License of the model: {license}. {terms or f'{_in_prose(dataset)} has terms of its own'}."


def _numbers(results, where):
    metrics = results.get("metrics", [])
    if not metrics:
        return ["Nothing was measured."]
    columns = ["paper", "chance"] if any(metric.get("chance") is not None for metric in metrics) else ["paper"]
    lines = [
        f"On the test images of {_in_prose(_measured_on(results))}{'' if 'classes' in results else _LAST}.",
        "",
        f"| | ours | {' | '.join(columns)} | protocol |",
        f"|---|---:|{'---:|' * len(columns)}---|",
    ]
    for metric in metrics:
        unit = metric.get("unit", "%")
        cells = [_label(metric), _with_unit(metric["value"], unit, metric.get("error"))]
        cells += [_with_unit(metric.get(column), unit) for column in columns]
        lines.append(f"| {' | '.join(map(_cell, [*cells, metric['protocol']]))} |")
    if command := _evaluation_command(results, where):
        lost = _lost(results)
        outdated = [name for name in results.get("outdated", []) if name not in lost]
        words = [
            f"{how}: {', '.join(REGISTRY[name].title for name in names if name in REGISTRY)}."
            for how, names in (
                ("Measured with more of the method than the command below has", lost),
                ("Of an earlier measurement, and not of these files", outdated),
            )
            if names
        ]
        words += [f"{'All else was m' if words else 'M'}easured on the files as they are here, and again by"]
        lines += ["", " ".join(words), "", "```sh", command, "```"]
    return lines


def _lost(results):
    """Protocols whose numbers these files cannot give again: a bank, a posterior or a decoder that is not here."""
    record, left_out = results.get("evaluation") or {}, results.get("left_out", ())
    ways = record.get("protocols", {})
    own = [name for name, way in ways.items() if "decoder" in left_out and way.get("decoder") == "its own"]
    return [name for name in record.get("numbers", {}) if name not in ways or name in own]


def _measured_on(results):
    """The data set that the numbers are of: it may be another than the training images'."""
    name = ((results.get("evaluation") or {}).get("data") or {}).get("name")
    return name if name in KNOWN else results.get("dataset")


def _evaluation_command(results, where):
    """The command that measures again what these files can; None where the card cannot know it."""
    record = results.get("evaluation") or {}
    protocols, measured = record.get("protocols"), record.get("data", {}).get("name")
    if (
        "classes" in results
        or not isinstance(protocols, dict)
        or results.get("dataset") not in KNOWN
        or measured not in KNOWN
    ):
        return None  # a classifier, or measured on arrays, or on images that only their owner has
    kept = [name for name in protocols if name not in _lost(results)]
    words = ["sslzoo", "evaluate", where, "--dataset", measured, "--protocols", *kept]
    for option, value in options_of(record, kept).items():
        values = value if isinstance(value, list) else [value]
        words += [f"--{option.replace('_', '-')}", *map(str, values)]
    return shlex.join(words)


def _training(results):
    seeds, ended = results.get("seeds", []), results.get("ended", "epochs")
    versions = ", ".join(f"{software} {version}" for software, version in results.get("versions", {}).items())
    facts = {
        "seed" if len(seeds) == 1 else "seeds": ", ".join(map(str, seeds)),
        "views seen": f"{results['views_seen']:,}" if "views_seen" in results else "",
        "wall time": duration(round(results["wall_seconds"])) if "wall_seconds" in results else "",
        "ended by": ended if ended != "epochs" else "",
        "versions": versions,
        **{key: f"`{json.dumps(value, ensure_ascii=False)}`" for key, value in results.get("settings", {}).items()},
    }
    rows = [f"| {_cell(fact)} | {_cell(value)} |" for fact, value in facts.items() if value]
    lines = ["", "```sh", results["recipe"], "```"] if "recipe" in results else []
    return lines + (["", "| | |", "|---|---|", *rows] if rows else [])


def _pictures(results):
    lines = []
    for picture in results.get("pictures", []):
        lines += ["", f"![{picture['caption']}]({picture['file'].replace(' ', '%20')})", "", f"*{picture['caption']}.*"]
    return lines


def _remarks(results):
    if parts := results.get("left_out"):
        yield f"Left out here for size, and written by the recipe: {', '.join(parts)}."
    yield from results.get("remarks", [])


def _title(dataset):
    return KNOWN[dataset].title if dataset in KNOWN else dataset or "images that are not named"


def _in_prose(dataset):
    """The title in Markdown, of which it can be no more than a part of a line."""
    return markup.escape(" ".join(_title(dataset).split()), quote=False)


def _as_code(name):
    """A name in Markdown that nothing in it can end."""
    name = " ".join(name.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", name)), default=0))
    return f"{fence} {name} {fence}" if "`" in name else f"{fence}{name}{fence}"


def _label(metric):
    return metric.get("label", metric["name"])


def _kind(metric):
    return _KINDS.get(metric["name"].replace("_", ".").split(".")[-1], "accuracy")


def _standard(metric):
    """A metric's value as the Hub's model indices have it: R2 is a share, where results.json has it in percent."""
    percent = metric.get("unit", "%") == "%"
    return round(metric["value"] / 100, 6) if percent and _kind(metric) == "r_squared" else metric["value"]


def _with_unit(value, unit, error=None):
    if value is None:
        return ""
    shown = f"{value:.4g}" + (f" ± {error:.2g}" if error is not None else "")
    return f"{shown} {unit}".rstrip()


def _cell(text):
    return textwrap.shorten(" ".join(str(text).split()), 1000, placeholder=" ...").replace("|", "\\|")
