"""Texts from files, servers and manifests: what they do to a terminal, and to a card's front matter."""

import json

import pytest

from sslzoo import cli, errors
from sslzoo.errors import printable
from sslzoo.publishing import card
from sslzoo.zoo import index

# text that someone else wrote -> how it is printed
HOSTILE = {
    "\x1b[2J\x1b]0;title\x07": r"\x1b[2J\x1b]0;title\x07",
    "a\rb": r"a\rb",
    "\x00": r"\x00",
    "\x7f\x85\x9b31m": r"\x7f\x85\x9b31m",
    "gnp.\u202etxt": r"gnp.\u202etxt",
    "\u2028\u2066\ufeff": r"\u2028\u2066\ufeff",
    "photo-\udcff.png": r"photo-\udcff.png",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_control_characters_are_written_out(text):
    assert printable(text) == HOSTILE[text]
    for error in (errors.ArtifactError(text), errors.HubError(text), errors.MissingDataError(text)):
        assert str(error) == HOSTILE[text]
    str(errors.TrainingError(text)).encode("utf-8")


def test_what_can_be_read_stays():
    text = "Émile's 写真 🦓 (5 × 5)\n\tnext line"
    assert printable(text) == text and str(errors.ArtifactError(text)) == text


def test_a_manifest_says_nothing_to_the_terminal(tmp_path, monkeypatch, capsys):
    entry = {
        "method": "Sim\x1b[31mVAE",
        "dataset": "mnist\u202e",
        "repository": None,
        "revision": None,
        "sha256": "a" * 64,
        "parts": ["encoder"],
        "bytes": 10,
        "input_shape": [28, 28, 1],
        "features": 10,
        "parameters": 1000,
        "recipe": "python x.py\x07",
        "metrics": [{"name": "knn.accuracy\x9b", "value": 97.5}],
        "license": "apache-2.0",
    }
    (tmp_path / "m.json").write_text(json.dumps({"schema": 2, "models": {"simvae-mnist": entry}}))
    monkeypatch.setenv("SSLZOO_MANIFEST", str(tmp_path / "m.json"))
    assert index.read()["simvae-mnist"]["method"] == "Sim\x1b[31mVAE"
    for command in (["list"], ["info", "simvae-mnist"], ["info", "simvae-mnist\x1b[2J"]):
        cli.main(command)
        shown = capsys.readouterr()
        assert shown.out + shown.err == printable(shown.out + shown.err)
        assert "x1b" in shown.out + shown.err


@pytest.mark.parametrize("text", [*HOSTILE, "a: b # c", "- x", "---", "\"'{}[]&*!|>%@`", "no", "1e3", " é\t"])
def test_front_matter_survives_any_text(text):
    import yaml

    results = {
        "name": "simvae-digits",
        "method": "SimVAE",
        "dataset": f"set {text}",
        "license": "apache-2.0",
        "papers": [],
        "metrics": [{"name": "knn.accuracy", "value": 1.0, "protocol": text, "label": f"kNN {text}"}],
        "seeds": [0],
        "views_seen": 1,
        "wall_seconds": 1,
        "versions": {},
        "settings": {"note": text},
        "recipe": f"python {text}",
    }
    made = card.render(results)
    front = made.split("\n---\n")[0].removeprefix("---\n")
    found = yaml.safe_load(front)["model-index"][0]["results"][0]
    if not any("\ud800" <= letter <= "\udfff" for letter in text):  # half a character is none, in YAML either
        assert found["dataset"]["name"] == f"set {text}" and found["metrics"][0]["name"] == f"kNN {text}"
    made.encode("utf-8")
    rest = made.partition("\n---\n")[2]
    assert rest == printable(rest)
