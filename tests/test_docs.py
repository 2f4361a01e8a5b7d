"""Pages that are written from the code and the committed results say what these say now."""

import dataclasses
import importlib.util
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import sslzoo
from sslzoo import training
from sslzoo.errors import InvalidInputError
from sslzoo.methods import METHODS
from sslzoo.methods.pretrainer import ROLES
from sslzoo.publishing import artifact
from sslzoo.zoo.results import read_results

ROOT = Path(__file__).resolve().parent.parent


def script(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BENCHMARKS = ("measure", "seeds", "choose", "reports")
tables, write_methods, measure, seeds, choose, reports = (
    script(ROOT / path)
    for path in ("benchmarks/tables.py", "docs/write_methods.py", *(f"benchmarks/{n}.py" for n in BENCHMARKS))
)


# ---------------------------------------------------------------------- docs/methods.md


@pytest.mark.parametrize("name", METHODS)
def test_every_term_has_a_role(name):
    method = METHODS[name]
    assert {part for role in method.terms.values() for part in role.split(", ")} <= set(ROLES) and method.terms
    cells = write_methods.row(name, method)
    assert all(cells) and method.__name__ in cells[0]


def test_something_keeps_images_apart_in_every_method():
    for method in METHODS.values():
        apart = write_methods.with_role(method, "reconstruction", "substitute", "density", "marginal")
        assert apart or method.apart_by, method.__name__


def test_the_page_of_methods_is_up_to_date(capsys):
    assert write_methods.main(["--check"]) == 0, capsys.readouterr().out


# ---------------------------------------------------------------------- docs/results.md and README


def test_results_and_readme_are_up_to_date(capsys):
    """After a change in weights/: python benchmarks/tables.py"""
    assert tables.main(["--check"]) == 0, capsys.readouterr().out


def test_the_pages_of_the_zoo_get_a_row_per_model_and_keep_the_rest():
    page = (ROOT / "docs" / "zoo.md").read_text("utf-8")
    rows = [line for line in tables.zoo_tables(ROOT / "weights") if line.startswith("| `")]
    assert len(rows) == len(list((ROOT / "weights").glob("*/config.json")))
    changed = tables.with_rows(page, ["nothing"])
    start, end = page.index("<!-- weights -->"), page.index("<!-- /weights -->")
    assert changed == page[:start] + "<!-- weights -->\nnothing\n" + page[end:]
    row = next(row for row in rows if "`simclr-mnist`" in row)
    assert "98.2 %" in row and "14.4 M" in row
    assert all(row.endswith("| – |") == row.startswith("| `random-") for row in rows)  # no time where none was trained
    best = [float(row.split("|")[2].strip(" %*\\")) for row in rows if "-fashion-mnist`" in row]
    assert len(best) > 5 and best == sorted(best, reverse=True)
    assert tables.with_star(rows) == rows and "A star" in tables.with_star([*rows, "| `x` | 90.0 %\\* |"])[-1]
    short = [line for line in tables.zoo_in_short(ROOT / "weights") if line.startswith("| `")]
    assert len(short) <= 10 and set(short) <= set(rows) and any("`simvae-mnist`" in row for row in short)


def test_tables_are_not_emptied_by_a_folder_without_entries(tmp_path, capsys):
    with pytest.raises(SystemExit):
        tables.main(["--weights", str(tmp_path / "nowhere")])
    assert "--weights must be a folder of entries. Received: --weights=" in capsys.readouterr().err
    assert tables.main(["--check"]) == 0


def entry(name, method, values, seeds=1, views=1000, dataset="mnist", **settings):
    settings = {"network": "mlp", "likelihood_variance": 0.01} | settings
    metrics = {metric: {"value": value} for metric, value in values.items()}
    return tables.Entry(name, method, dataset, views, seeds, settings, metrics)


def content(knn, style=None, euclidean=None):
    values = {"knn.cosine_k10_accuracy": knn, "mlp.accuracy": knn, "linear.converged_accuracy": knn}
    values["knn.euclidean_best_accuracy"] = knn if euclidean is None else euclidean
    return values | ({} if style is None else {"style.position_r2": style, "style.size_r2": style})


def verdicts(entries):
    return {text: said for text, _, said, _ in tables.claims(entries)}


def test_a_claim_holds_fails_or_is_open_by_its_numbers():
    assert tables.verdict([], 3) == "open: nothing to compare yet"
    met, missed, within = (list(zip("abcd", [sign] * 4)) for sign in (1, -1, 0))
    assert tables.verdict(met, 3) == "holds" and tables.verdict(missed, 3) == "fails"
    assert tables.verdict(within, 3) == "not shown"  # three seeds cannot say that nothing differs
    assert tables.verdict(met[:2] + within[2:], 3) == "holds in part: 2 for it, 0 against, of 4"
    assert tables.verdict(missed[:3] + within[3:], 3) == "fails in part: 0 for it, 3 against, of 4"
    for some, others in ((met, missed), (missed, met)):  # one against it is enough
        assert tables.verdict(some[:2] + others[2:3] + within[3:], 3).startswith("mixed: ")
    assert tables.verdict(missed[:3] + met[3:], 3) == "mixed: 1 for it, 3 against, of 4"
    for lone in (met[:1] + within[1:], 3 * met[:1]):  # one measure, however often, is not enough
        assert tables.verdict(lone, 3).startswith("not shown: ")
    assert tables.verdict(met[:1], 1) == "open, so far for it"
    assert tables.verdict(missed[:1], 2) == "open, so far against it"
    assert tables.verdict(met[:1] + missed[1:2], 1) == "open, mixed so far"
    assert tables.verdict(within, 1) == "open, nothing shown so far"


def test_a_pair_of_single_seeds_leaves_the_verdict_to_those_with_several():
    several = [entry(name, name, content(90), seeds=3) for name in ("SimVAE", "VAE")]
    single = [entry(f"{name}.large", name, content(90)) for name in ("SimVAE", "VAE")]
    far, near = (
        [tables.Comparison(*pair, measure, 5.0, p) for measure in ("knn.cosine_k10_accuracy", "mlp.accuracy")]
        for pair, p in ((several, 0.001), (single, None))
    )
    against = [dataclasses.replace(one, points=-9.0) for one in near]
    assert tables.verdict_of(far + against, set(far))[0] == "holds"
    assert tables.verdict_of(against, set(far))[0] == "open, so far against it"
    assert "`SimVAE.large` over `VAE.large`: kNN -9.0" in tables.verdict_of(far + against, set(far))[1]


def test_differences_are_tested_by_welch_and_adjusted_over_all():
    from scipy.stats import ttest_ind

    ours, theirs = [90.0, 91.0, 93.0], [88.0, 88.5, 88.1]
    sides = [(np.std(values, ddof=1) / 3**0.5, 3) for values in (ours, theirs)]
    p = tables.welch(np.mean(ours) - np.mean(theirs), *sides)
    assert p == pytest.approx(ttest_ind(ours, theirs, equal_var=False).pvalue)
    assert tables.welch(1.0, (0.0, 3), (0.0, 3)) == 0 and tables.welch(0.0, (0.0, 3), (0.0, 3)) == 1
    one, other = (entry(name, "SimVAE", {}, seeds=3) for name in "ab")
    tested = [tables.Comparison(one, other, str(p), 1.0, p) for p in (0.001, 0.03, 0.036, 0.2, None)]
    assert {each.p for each in tables.discoveries(tested)} == {0.001, 0.03, 0.036}  # 0.03 > 0.025, but 0.036 < 0.0375
    assert tables.discoveries([tested[1], tested[4]]) == {tested[1]} and not tables.discoveries([])


def test_a_bernoulli_likelihood_has_no_variance_to_compare(tmp_path):
    """Its likelihood_variance of 1 is only what the reconstruction is divided by."""
    results = json.loads((ROOT / "weights" / "beta-vae-digits" / "results.json").read_text())
    results |= {"name": "vae-digits", "method": "VAE"}
    results["settings"] |= {"likelihood": "bernoulli", "likelihood_variance": 1.0}
    (tmp_path / "vae.json").write_text(json.dumps(results))
    vae = tables.Entry.read(tmp_path / "vae.json")
    beta = tables.Entry.read(ROOT / "weights" / "beta-vae-digits" / "results.json")
    assert (tables.short(vae.settings["likelihood_variance"]), tables.settings_cells(beta)[-2]) == ("Bernoulli", "0.01")
    lower = "A likelihood variance well below 1 helps (figure 8; a VAE at 0.01 is our beta-VAE)"
    assert verdicts([vae, beta])[lower] == "open: nothing to compare yet"
    at_1 = dataclasses.replace(vae, settings=vae.settings | {"likelihood_variance": 1.0})
    assert verdicts([at_1, beta])[lower] != "open: nothing to compare yet"


def test_a_star_comes_from_the_record_of_how_a_number_was_measured():
    path = ROOT / "weights" / "annulus-digits" / "results.json"
    results = json.loads(path.read_text("utf-8"))
    marked = tables.starred(results)
    assert marked and all(name.startswith("bank.") for name in marked)  # of the run itself: the bank is not kept
    on_views = json.loads((ROOT / "weights" / "annulus-cifar10" / "results.json").read_text("utf-8"))
    assert "views" in on_views["evaluation"]["numbers"] and "views.accuracy" not in tables.starred(on_views)
    old = json.loads(json.dumps(results)) | {"outdated": ["style"]}
    ways = old["evaluation"]["protocols"]
    del ways["mlp"]["passes"], ways["linear"]["passes"], ways["gmm"]["features"]
    marked = tables.starred(old)
    assert {"mlp.accuracy", "linear.accuracy", "gmm.accuracy", "gmm.minibatch64_nmi", "style.kept"} <= marked
    assert not marked & {"linear.converged_accuracy", "knn.cosine_k10_accuracy"}
    assert tables.zoo_row(old)[3:6:2] == ["94.2 %\\*", "6.6 %\\*"] and tables.zoo_row(results)[3] == "94.2 %"
    ours, theirs = (
        tables.Entry.read(ROOT / "weights" / name / "results.json") for name in ("simclr-cifar10", "moco-cifar10")
    )
    other = dataclasses.replace(theirs, steps=2 * ours.steps)  # probes compare at equal steps alone
    assert tables.Comparison.of(ours, other, "mlp.accuracy") is None
    assert tables.Comparison.of(ours, dataclasses.replace(other, steps=ours.steps), "mlp.accuracy") is not None


def test_the_table_of_likelihoods_has_a_row_for_each_number_of_views():
    kin = [
        entry("s", "SimVAE", content(97), seeds=3, num_views=10),
        entry("b", "BetaVAE", content(96, euclidean=95), seeds=3, views=950),
        entry("group", "BetaVAE", content(94), seeds=3, num_views=10),
        entry("v", "VAE", content(90), seeds=3, views=4000, likelihood_variance=tables.BERNOULLI),
        entry("single", "SimVAE", content(98), views=4000, num_views=10),  # has no error, so stands in no row
        entry("five", "SimVAE", content(99), seeds=3, num_views=5),
    ]
    rows = tables.likelihood_table(kin)[2:]
    assert rows == [
        "| MNIST, 0.0 M views | kNN | 97.0 | 96.0 | 94.0 | – | – | – | – |",
        "| MNIST, 0.0 M views | Euclidean kNN | 97.0 | 95.0 | 94.0 | – | – | – | – |",
    ]
    assert not tables.likelihood_table(kin[:1])


def test_claims_compare_like_with_like():
    leads = "SimVAE leads BetaVAE, at equal views and likelihood"
    simvae, beta = entry("simvae-mnist", "SimVAE", content(97)), entry("beta-vae-mnist", "BetaVAE", content(90))
    assert verdicts([simvae, beta])[leads] == "open, so far for it"
    for changes in (
        {"views": 3000},
        {"likelihood_variance": 1.0},
        {"likelihood_variance": tables.BERNOULLI},
        {"dataset": "cifar10"},
        {"network": "convnet"},
        {"latent_dim": 32},
    ):
        other = entry("beta-vae-mnist", "BetaVAE", content(90), **changes)
        assert verdicts([simvae, other])[leads] == "open: nothing to compare yet", changes
    many = [entry("s", "SimVAE", content(97), seeds=3), entry("b", "BetaVAE", content(96), seeds=3)]
    assert verdicts([simvae, beta, *many])[leads] == "holds"  # single seeds no longer count, nor their margin
    by_distance = entry("e", "BetaVAE", content(90, euclidean=98), seeds=3)
    assert verdicts([many[0], by_distance])[leads] == "mixed: 3 for it, 1 against, of 4"
    for error, said in ((0.2, "holds"), (0.3, "not shown")):  # 1 point: p = 0.024, 0.078, of every measure
        for one in many:
            for metric in one.metrics.values():
                metric["error"] = error
        assert verdicts(many)[leads] == said
    (told,) = [numbers for text, _, _, numbers in tables.claims(many) if text == leads]
    assert "kNN +1.0," in told and "*" not in told  # what counts is bold
    other_set = [
        entry("c", "SimVAE", content(40), dataset="cifar10"),
        entry("d", "BetaVAE", content(50), dataset="cifar10"),
    ]
    rows = [(data, said) for text, data, said, _ in tables.claims([*many, *other_set]) if text == leads]
    assert rows == [("MNIST", "not shown"), ("CIFAR-10", "open, so far against it")]
    longer = [entry("s4", "SimVAE", content(98), views=4_000_000), entry("b4", "BetaVAE", content(90), views=3_800_000)]
    rows = [(data, said) for text, data, said, _ in tables.claims([*many, *longer]) if text == leads]
    assert rows == [("MNIST, 0.0 M views", "not shown"), ("MNIST, 4.0 M views", "open, so far for it")]
    pair = [entry("simclr", "SimCLR", content(98, style=20)), entry("simvae", "SimVAE", content(97, style=60))]
    said = verdicts(pair)
    assert said["SimVAE keeps more style than SimCLR (figure 4)"] == "open, so far for it"
    assert said["SimCLR keeps more content than SimVAE"] == "open, nothing shown so far"
    views = [entry("ten", "SimVAE", content(97), num_views=10), entry("two", "SimVAE", content(90), num_views=2)]
    assert (
        verdicts(views)["More views in a group help SimVAE, at equal views in all (figure 7)"] == "open, so far for it"
    )


def test_equal_batches_are_compared_apart_from_usual_ones():
    usual = "SimVAE leads BetaVAE, at equal views and likelihood"
    equal = f"{usual} in equal batches"
    simvae = entry("simvae", "SimVAE", content(97), batch_size=32, num_views=10)
    beta = entry("beta", "BetaVAE", content(98), batch_size=320, num_views=1)
    group = entry("group", "BetaVAE", content(93), batch_size=32, num_views=10)
    wide = entry("wide", "SimVAE", content(80), batch_size=32, num_views=10, likelihood_variance=1.0)
    told = {text: numbers for text, _, _, numbers in tables.claims([simvae, beta], [group, wide])}
    assert told[usual].startswith("`simvae` over `beta`:") and "group" not in told[usual]
    assert told[equal].startswith("`simvae` over `group`:") and "beta`" not in told[equal]
    vae = entry("vae-group", "VAE", content(90), batch_size=32, num_views=10, likelihood_variance=tables.BERNOULLI)
    usual_vae = entry("vae", "VAE", content(91), batch_size=320, num_views=1, likelihood_variance=tables.BERNOULLI)
    gaussian = entry("gaussian", "VAE", content(70), batch_size=32, num_views=10, likelihood_variance=1.0)
    told = {text: numbers for text, _, _, numbers in tables.claims([simvae, usual_vae], [vae, gaussian, wide])}
    own = told["SimVAE leads VAE, at equal views in equal batches, each with its own likelihood"]
    assert own.startswith("`simvae` over `vae-group`:") and ";" not in own  # one pair


def test_a_changed_setting_is_told_by_itself_and_against_its_worst_value(tmp_path):
    claim = "More views in a group help SimVAE, at equal views in all (figure 7)"
    kept = [entry("ten", "SimVAE", content(97), seeds=3, num_views=10), entry("vae", "VAE", content(90), seeds=3)]
    changed = [entry(f"views-{j}", "SimVAE", content(80 + j), seeds=3, num_views=j) for j in (6, 2, 4)]
    (numbers,) = [numbers for text, _, _, numbers in tables.claims(kept, changed) if text == claim]
    assert [words.split(":")[0] for words in numbers.split("; ")] == [
        f"`{one}` over `views-2`" for one in ("ten", "views-6", "views-4")
    ]
    others = [row for row in tables.claims(kept, changed) if row[0] != claim]
    assert any("`ten` over `vae`" in row[3] for row in others) and "views-" not in str(others)  # it stands here alone
    wide = entry("variance-1", "SimVAE", content(95), seeds=3, num_views=10, likelihood_variance=1.0)
    vae = entry("vae", "VAE", content(90), seeds=3, likelihood_variance=1.0)
    equal = "SimVAE leads VAE, at equal views and likelihood"
    assert [row[3].split(":")[0] for row in tables.claims([kept[0], vae], [wide]) if row[0] == equal] == [
        "`variance-1` over `vae`"
    ]
    longer = entry("ten-longer", "SimVAE", content(99), seeds=3, num_views=10, views=4000)
    text = tables.page([*kept, longer], {}, changed)  # which is no point of the curve: it saw more
    rows = [line for line in text.splitlines() if line.startswith(("| 2 |", "| 4 |", "| 6 |", "| 10 |"))]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == ["2", "4", "6", "10"]  # one table: variances are equal
    assert "| 2 | 82.0 | 82.0 | 82.0 | – | – | 0.0 M | 3 |" in rows
    tables.draw(kept, tmp_path, changed)
    assert [path.name for path in tmp_path.rglob("*.png")] == ["simvae_num_views_mnist.png"]
    assert not list(tables.curves([*kept, *changed[:1]], tables.ABLATIONS[0]))  # two values are no curve


def test_crops_are_told_by_themselves(tmp_path):
    """Three strengths of a method are a curve; no other table or claim takes runs of other views for the usual ones."""

    def run(method, least, kin=None, **settings):
        changes = {} if least is None else {"crop": {"scale": [least, 1.0]}}
        name = f"{method}-{least or 'usual'}{kin or ''}"
        settings |= {"policy": "simvae-mnist", "num_views": 10, "policy_changes": changes}
        return entry(name, method, content(90 + (least or 0.4)), seeds=3, **settings)

    kept = [run("SimVAE", None), run("SimCLR", None)]
    changed = [run(method, least) for method in ("SimCLR", "SimVAE") for least in (0.7, 0.2)]
    others = [run("SimVAE", 0.7, "wide", latent_dim=64), run("VAE", 0.2), run("VAE", 0.7), run("MoCo", 0.1)]
    others += [run("BetaVAE", least) for least in (0.1, 0.4, 0.7)]  # other values: no curve beside these
    ((dataset, methods),) = tables.crops([*kept, *changed, *others])
    assert dataset == "mnist" and [[e.name for e in group] for group in methods] == [
        [f"{method}-{least}" for least in ("0.2", "usual", "0.7")] for method in ("SimVAE", "SimCLR")
    ]
    text, plain = tables.page(kept, {}, [*changed, *others]), tables.page(kept, {})
    assert "| SimCLR | 0.2 | 90.2 | 90.2 | 90.2 | – | – | 0.0 M | 3 |" in text.splitlines()
    start, end = text.index("## Crops: figure 6"), text.index("## Which claims hold")
    assert text[:start] + text[end:] == plain
    tables.draw(kept, tmp_path, changed)
    assert [path.name for path in tmp_path.rglob("*.png")] == ["crops_mnist.png"]


def test_views_in_a_group_are_compared_at_equal_passes_too(tmp_path):
    """As the paper does: as many images a step and as many steps, so that a larger group sees more views in all."""
    claim = "More views in a group help SimVAE, at equal passes over the images, so with more views in all (figure 7)"
    runs = [
        entry(f"passes-{j}", "SimVAE", content(80 + j), views=10_000 * j, seeds=3, num_views=j, batch_size=32)
        for j in (2, 10, 4)
    ]
    other_steps = entry("steps", "SimVAE", content(70), views=60_000, seeds=3, num_views=6, batch_size=128)
    other_passes = entry("longer", "SimVAE", content(70), views=120_000, seeds=3, num_views=6, batch_size=32)
    found = [row for row in tables.claims([], [*runs, other_steps, other_passes]) if row[0] == claim]
    ((_, data, said, numbers),) = found
    assert (data, said) == ("MNIST", "holds")
    assert [words.split(":")[0] for words in numbers.split("; ")] == [
        f"`{one}` over `passes-2`" for one in ("passes-10", "passes-4")
    ]
    tables.draw([], tmp_path, [*runs, other_steps, other_passes])
    assert [path.name for path in tmp_path.rglob("*.png")] == ["simvae_num_views_mnist_passes.png"]
    assert "(figure 7), at equal passes over the images, MNIST**" in tables.page([], {}, runs)


@pytest.mark.slow
def test_several_seeds_become_one_entry_and_finished_runs_are_not_trained_again(tmp_path):
    first = json.loads((ROOT / "weights" / "simvae-digits" / "results.json").read_text())
    values = 90.0, 92.0, 97.0
    for seed, value in enumerate(values):
        run = json.loads(json.dumps(first)) | {"name": f"simvae-digits.seed{seed}", "seeds": [seed]}
        run["evaluation"]["seeds"] = [seed]
        run["evaluation"]["numbers"]["knn"]["cosine_k10_accuracy"]["value"] = value / 100
        folder = tmp_path / "runs" / f"simvae-digits.seeds.{seed}" / run["name"]
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(json.dumps(run))
    words = ["simvae", "digits", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path)]
    assert seeds.main([*words, "--data-dir", "/data/of/mine"]) == 0
    command = json.loads((tmp_path / "simvae-digits.seeds.json").read_text())["recipe"]
    assert command.endswith(f"--out {tmp_path}")  # whoever runs it writes where this one was written
    assert "/data/of/mine" not in command
    entry = tables.Entry.read(tmp_path / "simvae-digits.seeds.json")
    knn = entry.metrics["knn.cosine_k10_accuracy"]
    assert entry.seeds == 3 and knn["value"] == pytest.approx(93.0)
    assert knn["error"] == pytest.approx(np.std(values, ddof=1) / 3**0.5, abs=1e-4)
    run["settings"]["came_later"] = 3
    (folder / "results.json").write_text(json.dumps(run))
    with pytest.raises(InvalidInputError, match="seed alone"):
        seeds.main(words)
    with pytest.raises(SystemExit):
        seeds.main([*words, "--seeds", "1", "1"])
    with pytest.raises(SystemExit, match="2"):  # the recipe's own error, and no traceback after it
        seeds.main([*words, "--seeds", "7", "8", "--set", "nothing=1"])


def test_an_entry_is_one_of_several_seeds(tmp_path, monkeypatch):
    """Its figures count, but not what was measured of it alone, nor what is said of its files."""

    def write(seed, knn, remarks, folder, **settings):
        made = json.loads((ROOT / "weights" / "simvae-digits" / "results.json").read_text())
        made |= {"seeds": [seed], "remarks": remarks, "settings": made["settings"] | {"backend": "jax"} | settings}
        made["recipe"] = "KERAS_BACKEND=jax python recipes/simvae.py --dataset digits --name simvae-digits --float16"
        evaluation = made["evaluation"]
        evaluation["seeds"] = [seed]
        evaluation["numbers"]["knn"]["cosine_k10_accuracy"]["value"] = knn
        if seed == 0:
            evaluation["numbers"]["outliers"] = {"mnist": evaluation["numbers"]["knn"]["cosine_k10_accuracy"]}
            evaluation["protocols"]["outliers"] = {}
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(json.dumps(made))

    jpeg = "The data had gone through JPEG."
    write(0, 0.8, [jpeg], tmp_path / "weights" / "simvae-digits")
    write(1, 0.9, [jpeg], tmp_path / "runs" / "simvae-digits.seeds.1" / "simvae-digits", came_later="as always")
    monkeypatch.setattr(seeds.keras.backend, "backend", lambda: "jax")
    words = ["simvae", "digits", "--seeds", "0", "1", "--with-entry"]
    words += [word for name in ("weights", "runs", "out") for word in (f"--{name}", str(tmp_path / name))]
    assert seeds.main([*words, "--float16"]) == 0
    made = json.loads((tmp_path / "out" / "simvae-digits.seeds.json").read_text())
    knn = next(metric for metric in made["metrics"] if metric["name"] == "knn.cosine_k10_accuracy")
    assert knn["value"] == pytest.approx(85.0) and made["seeds"] == [0, 1] and made["remarks"] == [jpeg]
    assert "outliers" not in made["evaluation"]["numbers"] and "--with-entry" not in made["recipe"]
    with pytest.raises(InvalidInputError, match=r"same flags made: --float16. Received: --set batch_size=8"):
        seeds.main([*words, "--set", "batch_size=8"])
    with pytest.raises(SystemExit):
        seeds.main([*words, "--float16", "--seeds", "1", "2"])
    write(0, 0.8, [], tmp_path / "old" / "simvae-digits", num_views=3)
    with pytest.raises(InvalidInputError, match=r"today's settings\. Received: simvae-digits"):
        seeds.main([*words, "--float16", "--weights", str(tmp_path / "old")])
    monkeypatch.setattr(seeds.keras.backend, "backend", lambda: "numpy")
    with pytest.raises(InvalidInputError, match="Received: numpy"):
        seeds.main([*words, "--float16"])


def test_a_table_has_every_method_of_the_paper_and_both_numbers():
    papers = tables.read_papers()
    assert papers["simvae", "1", "mnist", "SimVAE", "knn.euclidean_best_accuracy"] == "98.5"
    entries = [entry("simvae-mnist", "SimVAE", {"mlp.best_accuracy": 97.33, "knn.euclidean_best_accuracy": 97.53})]
    text = tables.page(entries, papers)
    assert "| `simvae-mnist` | 97.3 (98.4) | 97.5 (98.5) | 0.0 M | 1 |" in text
    assert "| MoCo | – (94.6) | – (94.6) |" in text  # not trained, and said so
    assert "**FashionMNIST**: none of its methods is trained here yet." in text
    assert "More than a point above the paper's: 0; below: 1; within it: 1 (" in text
    assert "Furthest below: `simvae-mnist`, MLP probe, best epoch (-1.1).\n\n- What differs" in text
    errors = [entry("simvae-mnist", "SimVAE", {"reconstruction.mse": 0.02}), entry("v", "VAE", {})]
    assert "MSE below the paper's: 1 of 1." in tables.page(errors, papers)


def test_what_was_measured_later_joins_what_was_there():
    from sslzoo.evaluation import Number, Report

    def report(protocol, value):
        numbers = {protocol: {"kept": Number(value, "x")}}
        frozen = [{"before": "a", "after": "a"}]
        return Report(
            "e", {"name": "mnist"}, numbers, {protocol: {}}, [0], {protocol: 1.0, "features": 2.0}, {}, frozen
        )

    merged = reports.merge(report("gmm", 0.5), report("style", 0.7))
    assert (
        list(merged) == ["gmm", "style"] and merged["style"] == {"kept": 0.7} and merged.frozen == report("x", 0).frozen
    )
    assert list(reports.merge(merged, report("linear", 0.9))) == ["linear", "gmm", "style"]


# ---------------------------------------------------------------------- the floor


def test_the_floor_is_an_untrained_encoder_measured_alike(tmp_path):
    floor = script(ROOT / "benchmarks" / "floor.py")
    assert floor.main(["digits", "--protocols", "knn", "style", "--out", str(tmp_path), "--seeds", "0", "1"]) == 0
    (entry,) = tables.read_entries(tmp_path)
    assert (entry.name, entry.method, entry.views, entry.seeds) == ("random-digits.seeds", "Random", 0, 2)
    trained = next(e for e in tables.read_entries(ROOT / "weights") if e.name == "simvae-digits")
    best = "knn.euclidean_best_accuracy"
    assert 30 < entry.value(best) < trained.value(best)
    assert entry.metrics[best]["error"] > 0


def test_an_entry_that_cannot_be_measured_is_told_and_the_others_go_on(tmp_path, capsys):
    for name in ("simclr-digits", "simvae-digits"):
        shutil.copytree(ROOT / "weights" / name, tmp_path / name)
    words = ["--all", "--protocols", "generation", "--extractor", "simclr-digits", "--weights", str(tmp_path)]
    assert measure.main(words) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("simclr-digits: not measured (DoesNotApply: No encoder is judged in its own features")
    assert second.startswith("simvae-digits: written (generation 0.0")
    for wrong in ([], ["simvae-digits", "--all"], ["simvae-digit"]):
        with pytest.raises(SystemExit):
            measure.main([*wrong, "--weights", str(tmp_path)])
    assert "is named so. Received: simvae-digit\n" in capsys.readouterr().err


@pytest.mark.parametrize("protocol", ["linear", "mlp", "knn", "gmm"])
def test_entries_have_the_same_numbers_of_a_protocol(protocol):
    found = {}
    for file in (ROOT / "weights").glob("*/results.json"):
        results = read_results(file.parent)
        found.setdefault(frozenset(results["evaluation"]["numbers"].get(protocol, ())), []).append(results["name"])
    assert sum(map(len, found.values())) > 80 and len(found) == 1, found


def test_what_is_measured_again_is_no_longer_outdated_and_differences_are_told(tmp_path, capsys):
    folder = tmp_path / "simvae-digits"
    shutil.copytree(ROOT / "weights" / "simvae-digits", folder)
    artifact.seal(folder, outdated=["knn", "mlp"])
    words = ["simvae-digits", "--protocols", "knn", "--weights", str(tmp_path)]
    assert measure.main(words) == 0
    results = read_results(folder)
    assert results["outdated"] == ["mlp"]
    card = (folder / "README.md").read_text("utf-8")
    assert "Of an earlier measurement, and not of these files: MLP probe. All else was measured on the files" in card
    before = (folder / "results.json").read_bytes()
    assert measure.main([*words, "--check"]) == 0
    assert "simvae-digits: as published (knn 0.9" in capsys.readouterr().out
    results["evaluation"]["numbers"]["knn"]["cosine_k10_accuracy"]["value"] -= 0.01
    artifact.seal(folder, evaluation=results["evaluation"])
    assert measure.main([*words, "--check"]) == 1
    assert "simvae-digits: differs (knn 0.9" in (told := capsys.readouterr().out)
    assert "\n  knn.cosine_k10_accuracy: published " in told and before != (folder / "results.json").read_bytes()


def test_the_floor_of_one_seed_is_an_entry_whose_numbers_are_its_own(tmp_path):
    floor = script(ROOT / "benchmarks" / "floor.py")
    assert floor.main(["digits", "--protocols", "knn", "--weights", str(tmp_path)]) == 0
    folder = tmp_path / "random-digits"
    published = {metric["name"]: metric["value"] for metric in read_results(folder)["metrics"]}
    again = sslzoo.evaluate(folder, "digits", "knn")
    assert {metric["name"]: metric["value"] for metric in again.metrics()} == pytest.approx(published, abs=1e-3)
    card = (folder / "README.md").read_text("utf-8")
    assert "and not trained." in card and "It was trained" not in card and "pictures/embedding.png" in card


def test_a_trial_runs_its_rate_down_or_says_nothing(monkeypatch, capsys):
    monkeypatch.setattr(training, "Run", training.Run)  # which a trial replaces
    rates, prepare = [], training.Run.prepare

    def prepared(run, model):
        prepare(run, model)
        steps = run.steps
        rates.append([float(model.optimizer._learning_rate(step)) for step in (steps // 2, steps)])

    monkeypatch.setattr(choose.Trial, "prepare", prepared)
    budget, words = 4800, ["--set", "policy_changes={}"]
    found = choose.trial("vae", "digits", budget, words)
    assert found["views"] == budget and 0.3 < found["cosine"] <= 1
    assert rates[0][0] > 1e-4 and rates[0][1] == pytest.approx(0, abs=1e-6)
    with pytest.raises(SystemExit, match="says nothing"):
        choose.trial("vae", "digits", 200 * budget, [*words, "--max-minutes", "0.0001"])
    assert "on 144 validation images" in capsys.readouterr().out


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_a_sweep_goes_on_where_it_stopped_and_stands_in_the_order_of_its_values(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    sweep = script(ROOT / "benchmarks" / "sweep.py")
    trials = []

    def trial(method, dataset, budget, words):
        trials.append(words[1:4])
        return {"views": budget, "cosine": 0.9 + 0.01 * len(trials), "euclidean": 0.5}

    monkeypatch.setattr(sweep.choose, "trial", trial)
    monkeypatch.setattr(sweep, "FOLDER", tmp_path)
    for values in (["1", "0.1"], ["0.1", "1", "0.03"]):
        words = [word for value in values for word in ("--try", f"rate_weight={value}")]
        monkeypatch.setattr("sys.argv", ["sweep.py", "simdino", "digits", "--seeds", "0", "--budget", "600", *words])
        sweep.main()
    assert trials == [[f"rate_weight={value}", "--seed", "0"] for value in ("1", "0.1", "0.03")]  # each once
    told = [line.split()[:3] for line in capsys.readouterr().out.splitlines()][-3:]
    assert told == [[f"rate_weight={v}", "kNN", f"{k}"] for v, k in (("0.03", 93.0), ("0.1", 92.0), ("1", 91.0))]
    assert sorted(path.suffix for path in tmp_path.glob("simdino-digits-rate_weight-600.*")) == [".csv", ".png"]
    monkeypatch.setattr(sweep.keras.backend, "backend", lambda: "another")
    with pytest.raises(SystemExit, match="Received: another"):
        sweep.main()
