"""What `list_models` and `info` return: lists and dicts that show themselves as tables, without pages of hashes."""

import html

from sslzoo.zoo.index import HEADLINES


class Model(dict):
    """What is known of one model. A dict in all but how it is shown."""

    def __repr__(self):
        width = max(len(key) for key, _ in self._facts())
        return "\n".join(f"{key:{width}}  {value}" for key, value in self._facts())

    def _repr_html_(self):
        return html_table(self._facts())

    def _facts(self):
        facts = [(key, self[key]) for key in ("name", "method", "dataset", "tag", "repository", "recipe", "license")]
        facts += [
            ("takes", f"{shape(self)}, values 0..255"),
            ("features", self["features"]),
            ("parameters", self["parameters"] and f"{self['parameters']:,}"),
            ("parts", ", ".join(self["parts"])),
            ("size", f"{self['bytes'] / 1e6:.2f} MB"),
            ("on this machine", "yes" if self["local"] else "no"),
        ]
        facts += [(label(metric), shown(metric)) for metric in self["metrics"]]
        return [(str(key), "none" if value is None else str(value)) for key, value in facts]


class Models(list):
    """The models of the zoo. A list of `Model` in all but how it is shown."""

    def __repr__(self):
        rows = self._rows()
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        return "\n".join("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows)

    def _repr_html_(self):
        return html_table(self._rows()[1:], self._rows()[0])

    def _rows(self):
        rows = [("name", "method", "dataset", "images", "features", "size", "here", "first number")]
        for model in self:
            first = model["metrics"][0] if model["metrics"] else None
            rows.append(
                (
                    model["name"],
                    model["method"] or "-",
                    model["dataset"] or "-",
                    shape(model),
                    str(model["features"] or "-"),
                    f"{model['bytes'] / 1e6:.2f} MB",
                    "yes" if model["local"] else "no",
                    f"{label(first)} {shown(first)}" if first else "",
                )
            )
        return rows


def shape(model: dict) -> str:
    """Height x width x channels of the images that a model takes, "-" if nobody knows."""
    return "x".join(map(str, model["input_shape"] or ["-"]))


def label(metric: dict) -> str:
    """What a metric is called in words."""
    return metric.get("label") or HEADLINES.get(metric["name"], metric["name"])


def html_table(rows, head=None) -> str:
    """An HTML table of texts, for notebooks.

    Args:
        rows: sequences of str.
        head: sequence of str, names of the columns, or None.
    """
    lines = ["<table>"]
    if head:
        lines.append("<thead><tr>" + "".join(f"<th>{html.escape(cell)}</th>" for cell in head) + "</tr></thead>")
    lines.append("<tbody>")
    lines += ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join([*lines, "</tbody>", "</table>"])


def shown(metric: dict) -> str:
    """A number of results.json as tables show it: "97.2 %", with its standard error if there is one."""
    unit = metric.get("unit", "%")
    digits = ".1f" if unit == "%" else ".3g"
    error = f" ± {metric['error']:{digits}}" if metric.get("error") is not None else ""
    return f"{metric['value']:{digits}}{error} {unit}".rstrip()
