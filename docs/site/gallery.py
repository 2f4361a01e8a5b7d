"""Pages of the gallery: a table of all encoders, and a page of each, from their results.json files."""

import html
import json
from pathlib import Path

from sslzoo.data.catalogue import KNOWN
from sslzoo.progress import duration
from sslzoo.zoo.results import read_results

ROOT = Path(__file__).resolve().parent.parent.parent
WEIGHTS = ROOT / "weights"
COLUMNS = {  # metric -> head of its column
    "knn.cosine_k10_accuracy": "kNN",
    "linear.converged_accuracy": "linear probe",
    "gmm.accuracy": "GMM",
    "style.kept": "style kept",
}
SHOWN = ("embedding.png", "neighbors.png", "reconstructions.png", "samples.png", "views.png")  # in this order


def entries():
    """Results of every model in weights/, by name."""
    return {folder.name: read_results(folder) for folder in sorted(WEIGHTS.iterdir()) if folder.is_dir()}


def pictures():
    """Path on the site -> file, of every picture."""
    found = {}
    for name, results in entries().items():
        for picture in _ordered(results):
            file = WEIGHTS / name / picture["file"]
            found[f"gallery/pictures/{name}/{file.name}"] = file
    return found


def pages():
    """Path on the site -> Markdown."""
    every = entries()
    made = {f"gallery/{name}.md": _page(name, results) for name, results in every.items()}
    return made | {"gallery/index.md": _table(every)}


def _numbers(results):
    return {metric["name"]: metric for metric in results["metrics"]}


def _shown(value, unit, digits):
    """A value with its unit; one that is not a percentage with four digits that count."""
    return f"{value:.{digits}f} %" if unit == "%" else f"{value:.4g} {unit}".rstrip()


def _cell(metric, outdated=()):
    if metric is None or metric["value"] is None:
        return "", "–"
    value = _shown(metric["value"], metric.get("unit", "%"), 1)
    return metric["value"], value + "*" * (metric["name"].partition(".")[0] in outdated)


def _title(results):
    known = KNOWN.get(results["dataset"])
    return known.title if known else results["dataset"]


def _table(every):
    rows = []
    for name, results in every.items():
        numbers, outdated = _numbers(results), results.get("outdated", ())
        picture = next((p for p in _ordered(results)), None)
        image = f'<img src="pictures/{name}/{Path(picture["file"]).name}" alt="" loading="lazy">' if picture else ""
        cells = [f'<td><a href="{name}.html">{image}<code>{name}</code></a></td>']
        cells += [f"<td>{html.escape(text)}</td>" for text in (results["method"], _title(results))]
        for metric in COLUMNS:
            value, text = _cell(numbers.get(metric), outdated)
            cells.append(f'<td data-value="{value}">{text}</td>')
        for value, text in (
            (results.get("features") or 0, f"{results.get('features') or '–'}"),
            (results.get("parameters") or 0, f"{(results.get('parameters') or 0) / 1e6:.2f} M"),
            (results["wall_seconds"], f"{results['wall_seconds'] / 60:.0f} min"),
        ):
            cells.append(f'<td data-value="{value}">{text}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    heads = ("encoder", "method", "trained on", *COLUMNS.values(), "features", "parameters", "trained in")
    sets = "".join(f"<option>{title}</option>" for title in dict.fromkeys(_title(r) for r in every.values()))
    methods = "".join(f"<option>{method}</option>" for method in sorted({r["method"] for r in every.values()}))
    return f"""---
hide: [navigation, toc]
---

# Gallery

{len(every)} encoders. Numbers are of test images and of the published files, but for those with a star: they are of a
measurement before weights were rounded, or in another way. A click on a head sorts. Each page has pictures, all numbers
beside the paper's, and the code. [What the numbers mean](../evaluate.md).

<div class="zoo-filter" markdown="0">
<input type="search" placeholder="filter by name" aria-label="filter by name">
<select aria-label="trained on" data-column="2"><option value="">every data set</option>{sets}</select>
<select aria-label="method" data-column="1"><option value="">every method</option>{methods}</select>
<span class="zoo-count"></span>
</div>
<div class="zoo-scroll" markdown="0">
<table class="zoo-table">
<thead><tr>{"".join(f'<th><button type="button">{head}</button></th>' for head in heads)}</tr></thead>
<tbody>
{chr(10).join(rows)}
</tbody>
</table>
</div>
"""


def _ordered(results):
    held = {Path(picture["file"]).name: picture for picture in results.get("pictures", ())}
    return [held[name] for name in SHOWN if name in held]


def _page(name, results):
    shape = tuple(results["input_shape"])
    low, high = results.get("input_range", (0, 255))
    papers = ", ".join(f"[{found['title']}]({found['url']})" for found in results["papers"])
    facts = {
        "method": f"{results['method']}" + (f" ({papers})" if papers else ""),
        "trained on": f"{_title(results)}, without labels; {results['views_seen']:,} views in "
        f"{duration(results['wall_seconds'])}",
        "takes": f"raw images {' x '.join(map(str, shape))}, values {low:g}..{high:g}",
        "gives": f"{results['features']} features",
        "parts": ", ".join(f"{part} ({count:,} parameters)" for part, count in results["parts"].items()),
        "trained by": f"`{results['recipe']}`",
        "license": results["license"],
    }
    parts = ["---\nhide: [navigation]\n---", "[All encoders](index.md)", f"# {name}", results["description"]]
    shown = _ordered(results)
    if shown:
        parts.append(
            '<div class="zoo-pictures" markdown="0">\n'
            + "\n".join(
                f'<figure><img src="pictures/{name}/{Path(p["file"]).name}" alt="{html.escape(p["caption"])}" '
                f'loading="lazy"><figcaption>{html.escape(p["caption"])}</figcaption></figure>'
                for p in shown
            )
            + "\n</div>"
        )
    parts.append("\n".join(f"- **{head}**: {words}" for head, words in facts.items()))
    parts.append("## Use it\n\n" + _code(name, results))
    rows = ["| number | here | paper | guessing | protocol |", "|---|---:|---:|---:|---|"]
    for metric in results["metrics"]:
        unit, error = metric.get("unit", "%"), metric.get("error")
        value, paper, chance = (
            "" if metric[key] is None else _shown(metric[key], unit, 2) for key in ("value", "paper", "chance")
        )
        label, protocol = (str(metric[key]).replace("|", "\\|") for key in ("label", "protocol"))
        here = value + (f" ± {error:{'.2f' if unit == '%' else '.4g'}}" if error else "")
        here += "\\*" * (metric["name"].partition(".")[0] in results.get("outdated", ()))
        rows.append(f"| {label} | {here} | {paper} | {chance} | {protocol} |")
    parts.append("## Numbers\n\n" + "\n".join(rows))
    if results.get("outdated"):
        parts.append("\\* of a measurement before the weights were rounded, or in another way.")
    if results.get("remarks"):
        parts.append("## Remarks\n\n" + "\n".join(f"- {remark}" for remark in results["remarks"]))
    settings = json.dumps(results["settings"], indent=1)
    parts.append(f"## Settings\n\n```json\n{settings}\n```")
    return "\n\n".join(parts) + "\n"


def _code(name, results):
    body = f"""import sslzoo

encoder = sslzoo.load("{name}")  # raw images (B, {", ".join(map(str, results["input_shape"]))}) in
features = encoder.predict(images)  # (B, {results["features"]})"""
    tabs = []
    for backend, title in (("tensorflow", "TensorFlow"), ("jax", "JAX"), ("torch", "PyTorch")):
        code = f'import os\nos.environ["KERAS_BACKEND"] = "{backend}"\n{body}'
        indented = "\n".join(f"    {line}".rstrip() for line in f"```python\n{code}\n```".splitlines())
        tabs.append(f'=== "{title}"\n\n{indented}')
    return "\n\n".join(tabs)
