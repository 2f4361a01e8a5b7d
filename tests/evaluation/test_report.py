"""Report: access, JSON, tables, and the mean over seeds."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from sslzoo.errors import InvalidInputError, UnknownNameError
from sslzoo.evaluation import Number, Report
from sslzoo.evaluation.report import options_of, versions
from sslzoo.files import module_at, write_beside

reports = module_at(Path(__file__).resolve().parents[2] / "benchmarks" / "reports.py")


def make_report(accuracy=0.9, seed=0, **changes):
    fields = {
        "encoder": "simvae-digits",
        "data": {"name": "digits", "train": 1437, "test": 360, "features": 8, "classes": 10, "attribute": None},
        "numbers": {
            "linear": {
                "accuracy": Number(accuracy, "accuracy", "after the last of 200 epochs", 0.1),
                "best_accuracy": Number(accuracy + 0.01, "best accuracy", f"best epoch on test: {10 + seed}", 0.1),
                "hidden": Number(0.5, "hidden one", shown=False),
            },
            "gmm": {
                "accuracy": Number(0.7, "accuracy", "a|b", 0.11 + 0.01 * seed),
                "ari": Number(-0.0001, "ARI", "", -0.0004),
            },
        },
        "protocols": {"linear": {"epochs": 200}, "gmm": {"restarts": 20}},
        "seeds": [seed],
        "seconds": {"features": 1.0, "linear": 2.0 + seed, "gmm": 3.0},
        "versions": {"keras": "3.15.1", "python": "3.11.7"},
        "frozen": [{"before": f"{seed}" * 64, "after": f"{seed}" * 64}],
        "remarks": ["A remark."],
    }
    return Report(**{**fields, **changes})


def test_names_that_are_no_text_are_written_as_escapes(tmp_path):
    path = make_report(encoder="caf\udce9").save(tmp_path / "report.json")
    assert Report.from_json(path.read_text("utf-8")).encoder == "caf\udce9"


def test_access():
    report = make_report()
    assert report["linear"] == {"accuracy": 0.9, "best_accuracy": 0.91, "hidden": 0.5}
    assert report["gmm"]["accuracy"] == 0.7
    assert list(report) == ["linear", "gmm"]
    assert "gmm" in report and "knn" not in report
    assert report.headline == {"linear": 0.9, "gmm": 0.7}
    assert report.flat()["linear.best_accuracy"] == 0.91
    with pytest.raises(UnknownNameError, match="Did you mean 'linear'"):
        report["linaer"]


def test_metrics_are_in_percent_beside_the_paper():
    metrics = make_report().metrics({"linear.accuracy": 98.4, "knn.cosine_k10_accuracy": 97.0})  # kNN was not run
    assert metrics[0] == {
        "name": "linear.accuracy",
        "label": "linear probe: accuracy",
        "value": 90.0,
        "error": None,
        "chance": 10.0,
        "paper": 98.4,
        "protocol": "after the last of 200 epochs",
    }
    assert [metric["name"] for metric in metrics] == [
        "linear.accuracy",
        "linear.best_accuracy",
        "gmm.accuracy",
        "gmm.ari",
    ]
    assert [metric["paper"] for metric in metrics[1:]] == [None] * 3
    assert reports.mean([make_report(), make_report(0.92, 1)]).metrics()[0]["error"] == 1.0
    with pytest.raises(UnknownNameError, match=r"Did you mean 'linear.accuracy'"):
        make_report().metrics({"linear.acuracy": 98.4})
    with pytest.raises(UnknownNameError, match="Did you mean 'knn'"):
        make_report().metrics({"kn.accuracy": 98.4})


def test_json_round_trip(tmp_path):
    report = make_report()
    assert Report.from_json(report.to_json()) == report
    averaged = reports.mean([make_report(), make_report(0.8, 1)])
    path = averaged.save(tmp_path / "results.json")
    assert path == tmp_path / "results.json"
    assert Report.from_json(path.read_text()) == averaged
    assert Report.from_dict(json.loads(json.dumps(averaged.to_dict()))) == averaged
    assert os.listdir(tmp_path) == ["results.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"format": "other/1"}', None])
def test_other_text_is_refused(text):
    with pytest.raises(InvalidInputError, match="report"):
        Report.from_json(text)


def test_incomplete_record_is_refused():
    record = make_report().to_dict()
    del record["seeds"]
    with pytest.raises(InvalidInputError, match="seeds"):
        Report.from_dict(record)
    record = make_report().to_dict()
    record["numbers"]["gmm"]["ari"]["color"] = "red"
    with pytest.raises(InvalidInputError, match="color"):
        Report.from_dict(record)


def test_numbers_that_json_cannot_hold_are_refused():
    with pytest.raises(ValueError):
        make_report(float("nan")).to_json()


def test_mean_and_standard_error():
    values = [0.90, 0.92, 0.97]
    mean = reports.mean([make_report(value, seed) for seed, value in enumerate(values)])
    number = mean.numbers["linear"]["accuracy"]
    assert number.value == pytest.approx(0.93)
    # Deviations -0.03, -0.01, 0.04: variance 0.0026 / 2, standard error sqrt(0.0013 / 3).
    assert number.error == pytest.approx(np.sqrt(0.0013 / 3))
    assert number.values == values and reports.Report.from_json(mean.to_json()) == mean
    assert number.note == "after the last of 200 epochs"
    assert mean.numbers["linear"]["best_accuracy"].note == "; ".join(
        f"best epoch on test: {epoch}" for epoch in (10, 11, 12)
    )
    assert mean.numbers["linear"]["hidden"].error == 0
    assert mean.numbers["gmm"]["accuracy"].chance == pytest.approx(0.12)
    assert mean.numbers["linear"]["hidden"].chance is None
    assert mean.seeds == [0, 1, 2]
    assert mean.seconds["linear"] == pytest.approx(3.0)
    assert [proof["after"][0] for proof in mean.frozen] == ["0", "1", "2"]
    assert mean.remarks == ["A remark."]
    assert mean.encoder == "simvae-digits"
    assert "93.00 ± 2.08 %" in str(mean)
    assert "seeds 0, 1, 2" in str(mean)


def test_only_like_is_averaged_with_like():
    with pytest.raises(InvalidInputError, match="at least 2"):
        reports.mean([make_report()])
    with pytest.raises(InvalidInputError, match="protocols that differ in linear"):
        reports.mean([make_report(), make_report(protocols={"linear": {"epochs": 100}, "gmm": {"restarts": 20}})])
    with pytest.raises(InvalidInputError, match="protocols that differ in gmm"):
        reports.mean([make_report(), make_report(protocols={"linear": {"epochs": 200}})])
    smaller = {**make_report().data, "train": 100}
    with pytest.raises(InvalidInputError, match="data that differ in train"):
        reports.mean([make_report(), make_report(data=smaller)])


def test_table():
    text = str(make_report())
    lines = text.splitlines()
    assert lines[0] == "simvae-digits on digits: 1,437 train and 360 test images, 8 features, 10 classes, seed 0"
    table = [line for line in lines if line.startswith(("protocol", "linear", "GMM", "   "))]
    assert len(table) == 5  # header and four numbers, the hidden one not
    assert " ".join(table[1].split()) == "linear probe accuracy 90.00 % 10.0 % after the last of 200 epochs"
    assert len({line.index("%") for line in table[1:]}) == 1  # values are aligned
    assert "hidden one" not in text
    assert table[-1].split() == ["ARI", "-0.01", "%", "0.0", "%"]  # and no "-0.0"
    assert "Note: A remark." in lines
    assert "sha256 000000000000..." in text
    assert "keras 3.15.1" in lines[-1]
    assert not any(line != line.rstrip() for line in lines)


def test_table_names_the_attribute_and_can_do_without_an_encoder():
    text = str(make_report(data={**make_report().data, "attribute": "Male"}, frozen=[], remarks=[]))
    assert "digits (attribute Male): " in text
    assert "frozen" not in text
    assert "Note" not in text


def test_markdown():
    lines = make_report().to_markdown().splitlines()
    assert lines[0] == "| protocol | metric | value | chance | how |"
    assert lines[2] == "| linear probe | accuracy | 90.00 % | 10.0 % | after the last of 200 epochs |"
    assert lines[4] == r"| GMM | accuracy | 70.00 % | 11.0 % | a\|b |"
    assert "- A remark." in lines


def test_file_is_whole_or_untouched(tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    write_beside(path, b"old")

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        make_report().save(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["results.json"]


@pytest.mark.skipif(os.name == "nt", reason="links and pipes of POSIX")
def test_a_file_keeps_its_permissions_and_a_link_what_it_names(tmp_path):
    path, link, pipe = tmp_path / "a.json", tmp_path / "link.json", tmp_path / "pipe"
    path.write_bytes(b"old")
    path.chmod(0o600)
    link.symlink_to(path.name)
    assert write_beside(link, b"new") == link
    assert link.is_symlink() and path.read_bytes() == b"new" and path.stat().st_mode & 0o777 == 0o600
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_beside(pipe, b"through")
    assert os.read(reader, 100) == b"through" and pipe.is_fifo()
    os.close(reader)


def test_versions_name_what_numbers_depend_on():
    import keras

    found = versions()
    assert found["keras"] == keras.__version__
    assert found["numpy"] == np.__version__
    assert found[keras.backend.backend()][0].isdigit()
    assert all(isinstance(version, str) for version in found.values())


def test_reports_and_models_show_themselves():
    import sslzoo

    rows, labels = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    report = sslzoo.evaluate_features((rows, labels), (rows, labels), ("knn",))
    assert len(repr(report)) < 200 and "knn" in repr(report)
    models, model = sslzoo.list_models(), sslzoo.info("simvae-digits")
    assert isinstance(models, list) and isinstance(model, dict) and json.loads(json.dumps(models))[0] == models[0]
    for shown in (repr(models), repr(model)):
        assert "simvae-digits" in shown and model["files"]["config.json"] not in shown


def test_the_options_of_a_record_name_every_outside_set():
    """Each set may have a second number, by the slope; a set may be called so, too."""
    numbers = {"outliers": {"ski_slope_auroc": {}, "ski_slope_slope_auroc": {}, "dark_auroc": {}}}
    assert options_of({"protocols": {"outliers": {}}, "numbers": numbers}, ["outliers"]) == {
        "outside": ["ski_slope", "dark"]
    }
    assert options_of({"protocols": {"knn": {}}, "numbers": {}}, ["knn"]) == {}
    assert options_of({"protocols": {"outliers": {}}, "numbers": numbers}, ["knn"]) == {}
    assert options_of({"protocols": {"knn": {}}, "data": {"attribute": "hair"}}, ["knn"]) == {"attribute": "hair"}
