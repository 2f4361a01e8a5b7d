"""Model cards: README.md of a model folder, made from its results.json and from nothing else.

What results hold is described in `sslzoo.zoo.results`.
"""

import hashlib
import json
import shlex
import textwrap

from sslzoo.data.catalogue import KNOWN
from sslzoo.errors import printable
from sslzoo.publishing import citations
from sslzoo.zoo.index import headlines
from sslzoo.zoo.results import tag_of

# Where the Hub keeps a data set; the front matter of a card links to it.
HUB_DATASETS = {
    "mnist": "ylecun/mnist",
    "fashion_mnist": "zalando-datasets/fashion_mnist",
    "cifar10": "uoft-cs/cifar10",
    "cifar100": "uoft-cs/cifar100",
    "svhn_cropped": "ufldl-stanford/svhn",
    "celeb_a": "flwrlabs/celeba",
}
UNSTATED = "unknown"  # licence of a model of somebody's own images, until they state one
_KINDS = {"nmi": "nmi", "ari": "ari", "mse": "mse", "fid": "fid", "auroc": "roc_auc", "r2": "r_squared", "nll": "nll"}
_PART_LINES = {
    "encoder": "raw images `(B, {shape})`, values {low:g}..{high:g} → representations `(B, {features})`",
    "posterior": "raw images → `[mean, log_var]` of the posterior, `(B, {features})` each",
    "projection": "raw images → the output of the projection head, which the training loss saw",
    "decoder": "latents `(B, {features})` → images in [0, 1]",
    "model": "the whole training method, for going on with training (needs sslzoo)",
}


def render(results: dict, repository: str | None = None) -> str:
    """Model card of a trained model.

    Args:
        results: dict as `sslzoo.zoo.results` describes it.
        repository: str, `organisation/name` on the Hub, if that is where the card will be read.

    Returns:
        Markdown with the front matter that the Hub reads: library, licence, tags, data set, `model-index` metrics.
    """
    sections = [
        _front_matter(results),
        _introduction(results),
        _use(results, repository),
        _intended_use(results),
        _numbers(results, repository),
        _training(results),
        _pictures(results),
        _limits(results),
        _citation(results),
    ]
    front, *rest = (section for section in sections if section)
    return "\n".join([front, *map(printable, rest)])


_SIGNATURE = "\n<!-- Written by sslzoo from results.json; publish keeps a card that was edited. {} -->\n"


def sign(text: str) -> str:
    """The card with a last line, unseen by readers, that tells whether it is still as it was written."""
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
            metric_value=_in_own_scale(metric)[0],
        )
        for metric in headlines(results.get("metrics", []))
    ]
    license = results.get("license", UNSTATED)
    data = ModelCardData(
        model_name=results["name"],
        library_name="keras",
        license=None if license == UNSTATED else license,
        pipeline_tag="image-feature-extraction",
        tags=["sslzoo", "self-supervised-learning", "representation-learning", *([method.lower()] if method else [])],
        datasets=[HUB_DATASETS[dataset]] if dataset in HUB_DATASETS else None,
        eval_results=numbers or None,
    )
    return f"---\n{data.to_yaml()}\n---\n"


def _introduction(results):
    papers = results.get("papers", [])
    size = f" with {results['features']} features" if "features" in results else ""
    text = f"An image encoder{size}{_origin(results, papers)}."
    if "description" in results:
        text += f" {results['description']}"
    lines = [f"# {results['name']}", "", text]
    if tag_of(results["name"]):
        plain, _, tag = results["name"].partition(".")
        lines += ["", f"`{tag}` is the tag of its recipe or seed; `{plain}` is what the default recipe trains."]
    for entry in papers:
        link = f" ({entry['url']})" if "url" in entry else ""
        lines += ["", f"Paper: *{entry['title']}*{link}"]
    return "\n".join(lines) + "\n"


def _origin(results, papers):
    method, dataset = results.get("method"), results.get("dataset")
    if results.get("views_seen") == 0:
        return f", made for images of {_title(dataset)} and not trained"
    if method and papers and "url" in papers[0]:
        method = f"[{method}]({papers[0]['url']})"
    how = (f" with {method}" if method else "") + (f" on {_title(dataset)}" if dataset else "")
    return f", trained{how} without labels" if how else ""


def _use(results, repository):
    name = results["name"]
    shape, (low, high) = results.get("input_shape"), results.get("input_range", (0, 255))
    size = f"(B, {', '.join(map(str, shape))})" if shape else "(B, H, W, C)"
    # A model of somebody's own images is known by no name.
    local = name if results.get("dataset") in KNOWN else f"path/to/{name}"
    where, direct = (f"hf://{repository}", f"hf://{repository}") if repository else (local, f"path/to/{name}")
    parts = results.get("parts", {"encoder": None})
    values = {"shape": ", ".join(map(str, shape or ("H", "W", "C"))), "features": results.get("features", "L")}
    values |= {"low": low, "high": high}
    lines = [
        "## Use",
        "",
        "```python",
        "import sslzoo",
        "",
        f'encoder = sslzoo.load("{where}")',
        f"features = encoder.predict(images)  # uint8 {size} -> float32 (B, {values['features']})",
        "```",
        "",
        "Without sslzoo, on TensorFlow, JAX or PyTorch (the model consists of core Keras layers):",
        "",
        "```python",
        "import keras",
        "",
        f'encoder = keras.saving.load_model("{direct}", compile=False)',
        "```",
        "",
        "It is trainable: put a layer on top and call `fit`.",
        "",
        "| part | parameters | |",
        "|---|---:|---|",
    ]
    for part, parameters in parts.items():
        count = "" if parameters is None else f"{parameters:,}"
        lines.append(f"| `{part}` | {count} | {_PART_LINES[part].format(**values)} |")
    if len(parts) > 1:
        lines += ["", f'Parts other than the encoder: `sslzoo.load("{where}", part="{list(parts)[1]}")`.']
    if results.get("weights") == "float16":
        lines += ["", "Kernels are stored in half precision; the loaded model computes in float32."]
    return "\n".join(lines) + "\n"


def _intended_use(results):
    dataset = _title(results.get("dataset"))
    license = results.get("license", UNSTATED)
    if license == UNSTATED:
        terms = (
            "No license is stated for this model: whoever publishes it states one, in `license` of results.json, that "
            "the terms of the images allow."
        )
    else:
        terms = f"License of the model: {license}. {_terms(results.get('dataset'))}"
    return "\n".join(
        [
            "## Intended use",
            "",
            f"Research and teaching: features of {dataset} images, or of images like them, to probe, cluster, search, "
            "fine-tune, or compare methods by.",
            "",
            terms,
            "",
        ]
    )


def _terms(dataset):
    if dataset not in KNOWN:
        return f"{_title(dataset)} has terms of its own."
    return f"Terms of {_title(dataset)}: {KNOWN[dataset].licence} ({KNOWN[dataset].reference})."


def _numbers(results, repository):
    lines = ["## Numbers", ""]
    metrics = results.get("metrics", [])
    if not metrics:
        return "\n".join([*lines, "Nothing was measured."]) + "\n"
    chance = any(metric.get("chance") is not None for metric in metrics)
    lines += [
        f"On the test images of {_title(_measured_on(results))}, with the encoder as it is after the last epoch.",
        "",
        f"| | ours | paper | {'chance | ' if chance else ''}protocol |",
        f"|---|---:|---:|{'---:|' if chance else ''}---|",
    ]
    for metric in metrics:
        value, scale, unit = _in_own_scale(metric)
        values = {key: _scaled(metric.get(key), scale) for key in ("error", "paper", "chance")}
        cells = [_label(metric), _with_unit(value, unit, values["error"])]
        cells += [_with_unit(values[key], unit) for key in (("paper", "chance") if chance else ("paper",))]
        lines.append(f"| {' | '.join(map(_cell, [*cells, metric['protocol']]))} |")
    if command := _evaluation_command(results, repository):
        lines += ["", "Measured again, to the last digit on the same machine, by", "", "```sh", command, "```"]
    return "\n".join(lines) + "\n"


def _measured_on(results):
    """The data set that the numbers are of: another than the training images', where --probe-data said so."""
    name = ((results.get("evaluation") or {}).get("data") or {}).get("name")
    return name if name in KNOWN else results.get("dataset")


def _evaluation_command(results, repository):
    """The command that measures all numbers again; None where the card cannot know it."""
    record = results.get("evaluation") or {}
    protocols = record.get("protocols")
    measured = record.get("data", {}).get("name")
    known = results.get("dataset") in KNOWN and measured in KNOWN
    if not isinstance(protocols, dict) or not known:
        return None  # measured on arrays, or on images that only their owner has
    words = [
        "sslzoo",
        "evaluate",
        f"hf://{repository}" if repository else results["name"],
        "--dataset",
        measured,
        "--protocols",
        *protocols,
    ]
    told = {
        "--seed": (record.get("seeds") or [0])[0],
        "--epochs": next((protocols[name]["epochs"] for name in ("linear", "mlp") if name in protocols), 200),
        "--gmm-restarts": protocols.get("gmm", {}).get("restarts", 20),
    }
    usual = {"--seed": 0, "--epochs": 200, "--gmm-restarts": 20}
    for flag, value in told.items():
        words += [flag, str(value)] if value != usual[flag] else []
    return shlex.join(words)


def _training(results):
    facts = {}
    if seeds := results.get("seeds"):
        facts["seed" if len(seeds) == 1 else "seeds"] = ", ".join(map(str, seeds))
    if "views_seen" in results:
        facts["views seen"] = f"{results['views_seen']:,}"
    if "wall_seconds" in results:
        facts["wall time"] = _duration(results["wall_seconds"])
    if results.get("ended", "epochs") != "epochs":
        facts["ended by"] = results["ended"]
    if versions := results.get("versions"):
        facts["versions"] = ", ".join(f"{software} {version}" for software, version in versions.items())
    for key, value in results.get("settings", {}).items():
        facts[key] = f"`{json.dumps(value, ensure_ascii=False)}`"
    lines = ["## Training"]
    if "recipe" in results:
        lines += ["", "```sh", results["recipe"], "```"]
    if facts:
        lines += ["", "| | |", "|---|---|", *(f"| {_cell(key)} | {_cell(value)} |" for key, value in facts.items())]
    return "\n".join(lines) + "\n" if len(lines) > 1 else ""


def _pictures(results):
    if not results.get("pictures"):
        return ""
    lines = ["## Pictures"]
    for picture in results["pictures"]:
        lines += ["", f"![{picture['caption']}]({picture['file'].replace(' ', '%20')})", "", f"*{picture['caption']}.*"]
    return "\n".join(lines) + "\n"


def _limits(results):
    shape, (low, high) = results.get("input_shape"), results.get("input_range", (0, 255))
    size = f"of shape {'x'.join(map(str, shape))}" if shape else "of one size"
    points = [
        f"It takes images {size}; `sslzoo embed` makes others fit. Values are {low:g}..{high:g}: do not divide by "
        f"{high:g}, the model scales its input.",
        "Its weights are random: it is a baseline."
        if results.get("views_seen") == 0
        else f"It was trained on {_title(results.get('dataset'))} only: features of other images may say little.",
        "It is a research model of the size the papers used. Nobody has examined it for bias, and it must not decide "
        "anything about people.",
        *_omissions(results),
        *results.get("remarks", []),
    ]
    lines = ["## Limits", "", *(f"- {' '.join(point.split())}" for point in points)]
    return "\n".join(lines) + "\n"


def _omissions(results):
    if parts := results.get("left_out"):
        yield f"Left out here for size, and written by the recipe: {', '.join(parts)}."


def _citation(results):
    entries = [*map(citations.bibtex, results.get("papers", [])), citations.SSLZOO]
    return "\n".join(["## Citation", "", "```bibtex", "\n\n".join(entries), "```", ""])


def _title(dataset):
    return KNOWN[dataset].title if dataset in KNOWN else dataset or "images that are not named"


def _label(metric):
    return metric.get("label", metric["name"])


def _kind(metric):
    return _KINDS.get(metric["name"].replace("_", ".").split(".")[-1], "accuracy")


def _in_own_scale(metric):
    """Value, factor and unit of a metric: R2 is a share, also where results.json has it in percent."""
    unit = metric.get("unit", "%")
    scale, unit = (0.01, "") if _kind(metric) == "r_squared" and unit == "%" else (1, unit)
    return _scaled(metric["value"], scale), scale, unit


def _scaled(value, scale):
    return value if value is None or scale == 1 else round(value * scale, 6)


def _with_unit(value, unit, error=None):
    if value is None:
        return ""
    shown = f"{value:.4g}" + (f" ± {error:.2g}" if error is not None else "")
    return f"{shown} {unit}".rstrip()


def _duration(seconds):
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _cell(text):
    return textwrap.shorten(" ".join(str(text).split()), 1000, placeholder=" ...").replace("|", "\\|")
