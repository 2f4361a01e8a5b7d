"""Idioms of one author, which readers stumble over, stay out of what people read first."""

import re
from pathlib import Path

import pytest

from sslzoo import cli

ROOT = Path(__file__).resolve().parent.parent
IDIOMS = {  # what is not written -> why, or what is
    r"\btold\b|\btells\b": "people are told; images are distinguished, numbers say, errors name",
    r"\d ask\b|\brest asks\b|\basks? \d": "'are the queries'",
    r"for want of": "'because there is no'",
    r"\banew\b": "'again'",
    r"of one's own": "'your own'",
    r"that (is|are) none\b": "'that is not one'",
    r"\bthe like\b": "name it",
    r"\bby turns\b": "'alternately'",
    r"\bin small\b": "'at small scale'",
    r"\b(it|that|which) says so\b": "say what it says",
    r"\bwherefrom|whereof|whereupon|nought\b": "old",
    r"\bhangs? on\b": "'depends on'",
    r"\b(has|have) more right\b|\bif you have such\b": "say what is compared, and with what",
}
BRITISH = re.compile(  # Keras is American
    r"(?i)[a-z_]*(neighbour|colour|favour|behaviour|centre|centri|grey|artefact|labelled|modelling|licence"
    r"|(normal|standard|organ|initial|regular|minim|maxim|optim|serial|factor|recogn)is(e|ing|er|ation))\w*"
)
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "sslzoo/publishing/card.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
CODE = [
    path for room in ("sslzoo", "recipes", "benchmarks", "examples") for path in sorted((ROOT / room).rglob("*.py"))
]


def faults(text):
    return [match[0] for idiom in IDIOMS for match in re.finditer(idiom, text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_no_idiom(page):
    assert not faults(page.read_text(encoding="utf-8"))


def test_help_has_no_idiom():
    parser = cli._parser()
    commands = next(action for action in parser._actions if hasattr(action, "choices") and action.choices)
    for text in (parser.format_help(), *(command.format_help() for command in commands.choices.values())):
        assert not faults(text)


def test_spelling_is_that_of_keras():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in (*PAGES, *CODE)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for match in BRITISH.finditer(line)
        if match[0] not in ("licence", "centre_variance")  # which older files have
    ]
    assert not found
