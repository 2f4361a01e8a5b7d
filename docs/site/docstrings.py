"""Docstrings as Markdown: examples and formulas, which stand indented in the code, become blocks of code."""

import re
import textwrap

import griffe

EQUATION = r"[A-Za-z][\w(),|{} ]* = .*\n"


class Blocks(griffe.Extension):
    """Fences the section "Example" and indented formulas of every docstring, before it is parsed."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring is None:
            return
        text = obj.docstring.value
        text = re.sub(r"^Example:\n((?:[ ]{4}.*\n?|\n)+)", _example, text, flags=re.MULTILINE)
        parts = re.split(r"(```python\n.*?\n```\n)", text, flags=re.DOTALL)  # code is no formula
        obj.docstring.value = "".join(part if i % 2 else _formulas(part) for i, part in enumerate(parts))


def _example(match):
    return f"**Example**\n\n```python\n{textwrap.dedent(match[1]).strip()}\n```\n\n"


def _formulas(text):
    text = re.sub(r"(?<=\n\n)((?:[ ]{2,4}\S.*(?:\n|$))+)", _formula, text)
    return re.sub(rf"(?<=\n\n)({EQUATION}(?:{EQUATION}|[ ]+\S.*\n)*)(?=\n|$)", _formula, text)


def _formula(match):
    return f"```text\n{textwrap.dedent(match[1]).rstrip()}\n```\n"
