"""What `list_models` and `info` return: a list and dicts that show themselves as the shell prints them."""

import json

from sslzoo.zoo.index import HEADLINES

# Protocols that few encoders have, or each in a space of its own: `info` shows them.
_APART = ("reconstruction", "generation", "likelihood", "outliers", "attributes", "clusters", "bank", "views")


class Model(dict):
    """What is known of one model. A dict in all but how it is shown; `where` is what `load` takes, if not its name."""

    where = None

    def __repr__(self):
        classes = self.get("classes")
        facts = {
            "method": self["method"],
            "trained on": self["dataset"] and f"{self['dataset']}, {'with' if classes else 'without'} labels",
            "recipe": self["tag"] and f"{self['tag']}, not the default",
            "takes": f"raw images {_shape(self)} (height x width x channels), {_values(self)}",
            "gives": f"probabilities of {', '.join(classes)}" if classes else f"{self['features']} features",
            "parts": ", ".join(self["parts"]),
            "parameters": self["parameters"] and f"{self['parameters']:,} in the encoder",
            "size": _size(self["bytes"]),
            "repository": f"{self['repository'] or 'none'} ({self['revision'] or 'not published yet'})",
            "on this machine": "yes" if self["local"] else "no",
            "license": self["license"] if self["license"] not in (None, "unknown") else "not stated",
            "trained by": self["recipe"],
        }
        rows = [[fact, value] for fact, value in facts.items() if value]
        rows += [["paper", f"{paper['title']} {paper.get('url', '')}"] for paper in self.get("papers", [])]
        lines = [self["name"], "", table(rows), ""]
        if self["metrics"]:
            rows = [["NUMBER", "OURS", "PAPER", "HOW"]]
            for metric in self["metrics"]:
                paper = metric | {"value": metric.get("paper"), "error": None}
                rows.append([_label(metric), _shown(metric), _shown(paper), metric.get("protocol", "")])
            lines += [table(rows, right={1, 2}), ""]
        kind = "classifier" if classes else "encoder"
        return "\n".join([*lines, f"{kind} = sslzoo.load({_quoted(self.where or self['name'])})"])


class Models(list):
    """The models of the zoo. A list of `Model` in all but how it is shown."""

    def __repr__(self):
        headlines = [_headlines(model) for model in self]
        of_encoders = [each for model, each in zip(self, headlines) if not model.get("classes")]
        protocols = [
            name for name in dict.fromkeys(name for each in of_encoders for name in each) if name not in _APART
        ]
        rows = [["NAME", "METHOD", "DATASET", "IMAGES", "FEATURES", "SIZE", *map(str.upper, protocols), "HERE"]]
        for model, metrics in zip(self, headlines):
            rows.append(
                [
                    model["name"],
                    model["method"] or ("classifier" if model.get("classes") else "-"),
                    model["dataset"] or "-",
                    _shape(model),
                    str(model["features"] or "-"),
                    _size(model["bytes"]),
                    *(_shown(metrics[name]) if name in metrics else "-" for name in protocols),
                    "yes" if model["local"] else "no",
                ]
            )
        lines = [table(rows, right={3, 4, 5, *range(6, 6 + len(protocols))}), ""]
        for name in protocols:
            labels = sorted({_label(metrics[name]) for metrics in headlines if name in metrics})
            lines.append(f"{name.upper()}: {'; '.join(labels)}")
        lines.append("HERE: whether it loads offline. `sslzoo info NAME` has every number with its protocol.")
        return "\n".join(lines)


def _headlines(model):
    """The first metric of each protocol."""
    first = {}
    for metric in model["metrics"]:
        first.setdefault(metric["name"].partition(".")[0], metric)
    return first


def table(rows, right=()) -> str:
    """Rows of texts in columns; those numbered in `right` are aligned there."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    sides = [">" if i in right else "<" for i in range(len(widths))]
    lines = ("  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _quoted(name):
    """A text as Python reads it, in double quotes."""
    return json.dumps(str(name), ensure_ascii=False)


def _shape(model):
    return "x".join(map(str, model["input_shape"] or ["-"]))


def _values(model):
    low, high = model.get("input_range") or (0, 255)
    return f"values {low:g}..{high:g}"


def _size(count):
    for unit in ("bytes", "kB", "MB"):
        if count < 999.5:  # which three digits round to 1000
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def _label(metric):
    return metric.get("label") or HEADLINES.get(metric["name"], metric["name"])


def _shown(metric):
    """A number of results.json as tables show it: "97.2 %", with its standard error if there is one."""
    if metric["value"] is None:
        return ""
    unit = metric.get("unit", "%")
    digits = ".1f" if unit == "%" else ",.0f" if abs(metric["value"]) >= 1000 else ".3g"
    error = f" ± {metric['error']:{digits}}" if metric.get("error") is not None else ""
    return f"{metric['value']:{digits}}{error} {unit}".rstrip()
