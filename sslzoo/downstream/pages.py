"""A diagnosis as a page: HTML that needs no other file."""

import base64
import html

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 15px/1.45 sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #222; }}
.verdict {{ padding: .7rem 1rem; border-left: 6px solid {color}; background: #f5f5f5; }}
table {{ border-collapse: collapse; }}
td {{ padding: .15rem 1.2rem .15rem 0; }}
td:nth-child(2) {{ text-align: right; font-variant-numeric: tabular-nums; }}
td:nth-child(3) {{ color: #6b6b6b; }}
img {{ max-width: 100%; }}
pre {{ overflow-x: auto; }}
</style>
<h1>{title}</h1>
<p class="verdict">{verdict}</p>
{body}
"""


def diagnosis_page(diagnosis, others: str = "") -> str:
    """The page of a `Diagnosis`: verdict, what to try, measures, nearest neighbors.

    Args:
        diagnosis: `Diagnosis`.
        others: str, a table of other encoders; empty for none.
    """
    escape = html.escape
    shown = f"{diagnosis.shape[0]:,} images, {diagnosis.shape[1]:,} features each."
    if diagnosis.viewed:
        shown += f" {diagnosis.viewed[0]:,} of them in {diagnosis.viewed[1]} views ({diagnosis.policy})."
    parts = [f"<p>{escape(shown)}</p>"]
    more = [finding.what for finding in diagnosis.findings[0 if diagnosis.healthy else 1 :]]
    parts += [_list("Also", more), _list("What to try", diagnosis.tries), "<h2>Measures</h2>", "<table>"]
    parts += [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in diagnosis.rows()]
    parts.append("</table>")
    if others:
        parts.append(f"<h2>Beside others</h2><pre>{escape(others)}</pre>")
    if diagnosis.shows_images:
        picture = base64.b64encode(diagnosis.neighbors().png).decode()
        parts.append("<h2>Nearest neighbors</h2>")
        parts.append(f'<img src="data:image/png;base64,{picture}" alt="images, left, and their nearest neighbors">')
    parts.append(_list("Notes", diagnosis.remarks))
    color = "#117733" if diagnosis.healthy else "#D55E00"
    title, verdict = escape(f"Health of {diagnosis.name}"), escape(diagnosis.verdict)
    return _PAGE.format(title=title, verdict=verdict, color=color, body="\n".join(filter(None, parts)))


def _list(title, lines):
    if not lines:
        return ""
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f"<h2>{title}</h2><ul>{items}</ul>"
