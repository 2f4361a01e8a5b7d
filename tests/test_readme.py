"""README: its length, and that each of its Python snippets runs, in order, as printed."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def test_it_is_short():
    assert len(README.splitlines()) <= 150
    table = README[README.index("<!-- weights -->") : README.index("<!-- /weights -->")]
    assert table.count("\n| `") <= 10


def test_its_snippets_run():
    snippets = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(snippets) >= 3
    names = {"__name__": "readme"}
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), names)
    assert names["features"].shape == (360, 10) and names["report"]
