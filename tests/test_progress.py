"""How far long work is, where nobody watches a terminal."""

from sslzoo import progress


def test_long_work_adds_lines_to_a_log(monkeypatch, capsys):
    show = progress.line("embedded")
    show(1, 2)
    assert capsys.readouterr().err == ""  # it has not taken long
    monkeypatch.setattr(progress, "LOGGED", 0)
    for done in (1, 2):
        show(1_000 * done, 2_000)
    assert capsys.readouterr().err == "embedded: 1,000 of 2,000 after 0.0 minutes\n"
    progress.line("embedded", False)(1, 2)
    assert capsys.readouterr().err == ""
