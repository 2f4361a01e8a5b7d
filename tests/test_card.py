"""Model cards: front matter that the Hub's own client reads, and every number where a reader looks for it."""

import pytest
from huggingface_hub import ModelCard

from sslzoo.publishing import card, citations


def results(**changes):
    return {
        "schema": 1,
        "name": "simvae-mnist",
        "method": "SimVAE",
        "dataset": "mnist",
        "description": "J views are rebuilt from latents drawn around one center.",
        "recipe": "KERAS_BACKEND=jax python recipes/simvae.py --dataset mnist",
        "settings": {"num_views": 10, "widths": [500, 2000], "flip": None, "rule": "a | b"},
        "seeds": [0, 1],
        "metrics": [
            {
                "name": "knn.best_accuracy",
                "label": "kNN",
                "value": 97.61,
                "error": 0.034,
                "paper": 98.5,
                "protocol": "Euclidean, best of k = 1..15 | test",
            },
            {"name": "gmm.nmi", "value": 0.9, "unit": "", "chance": 0.001, "protocol": "10 components, 20 restarts"},
        ],
        "versions": {"keras": "3.15.1", "jax": "0.10.2"},
        "wall_seconds": 1260.0,
        "views_seen": 5_000_000,
        "license": "apache-2.0",
        "papers": [{"title": "A Probabilistic Model behind SSL", "url": "https://arxiv.org/abs/2402.01399"}],
        "remarks": ["Trained on 2 cores:\nfar from the paper's 400 epochs."],
        "pictures": [{"file": "pictures/two words.png", "caption": "Reconstructions"}],
        "input_shape": [28, 28, 1],
        "input_range": [0, 255],
        "features": 10,
        "parameters": 1_664_010,
        "parts": {"encoder": 1_664_010, "decoder": 1_665_784},
        "weights": "float16",
    } | changes


def test_front_matter_is_what_the_hub_reads():
    data = ModelCard(card.render(results())).data
    assert data.library_name == "keras" and data.license == "apache-2.0"
    assert data.pipeline_tag == "image-feature-extraction"
    assert {"sslzoo", "self-supervised-learning", "simvae"} <= set(data.tags)
    assert data.datasets == ["ylecun/mnist"]
    assert data.model_name == "simvae-mnist"
    found = [(e.metric_type, e.metric_value, e.metric_name, e.dataset_type, e.dataset_name) for e in data.eval_results]
    assert found == [
        ("accuracy", 97.61, "kNN", "ylecun/mnist", "MNIST"),
        ("nmi", 0.9, "gmm.nmi", "ylecun/mnist", "MNIST"),
    ]


@pytest.mark.parametrize("text", ["yes", "3.10", "a: b # c", '"quoted" \\ back', "- dash", "Schölkopf ✓", "{x}"])
def test_front_matter_keeps_awkward_texts(text):
    metric = {"name": "m", "label": text, "value": 1, "protocol": "p"}
    data = ModelCard(card.render(results(metrics=[metric], name="n", dataset=text))).data
    assert data.eval_results[0].metric_name == text and data.eval_results[0].dataset_name == text


def rows(text, heading):
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").replace("\\|", "¦").split("|")] for line in lines]


def test_numbers_stand_beside_the_papers():
    header, _, knn, nmi = rows(card.render(results()), "Numbers")
    assert header == ["", "ours", "paper", "chance", "protocol"]
    assert knn == ["kNN", "97.61 ± 0.034 %", "98.5 %", "", "Euclidean, best of k = 1..15 ¦ test"]
    assert nmi == ["gmm.nmi", "0.9", "", "0.001", "10 components, 20 restarts"]


def test_how_it_was_trained():
    text = card.render(results())
    assert "```sh\nKERAS_BACKEND=jax python recipes/simvae.py --dataset mnist\n```" in text
    facts = dict(rows(text, "Training")[2:])
    assert facts["seeds"] == "0, 1" and facts["views seen"] == "5,000,000" and facts["wall time"] == "21 min"
    assert facts["versions"] == "keras 3.15.1, jax 0.10.2"
    assert facts["widths"] == "`[500, 2000]`" and facts["flip"] == "`null`" and facts["rule"] == '`"a ¦ b"`'


def test_how_to_use_it():
    text = card.render(results())
    assert 'encoder = sslzoo.load("simvae-mnist")' in text and "uint8 (B, 28, 28, 1) -> float32 (B, 10)" in text
    assert 'keras.saving.load_model("path/to/simvae-mnist", compile=False)' in text
    assert 'sslzoo.load("simvae-mnist", part="decoder")' in text
    assert ["`encoder`", "1,664,010"] in [row[:2] for row in rows(text, "Use")]
    assert "half precision" in text and "half precision" not in card.render(results(weights="float32"))
    assert "[SimVAE](https://arxiv.org/abs/2402.01399)" in text and "MNIST without labels. J views" in text


def test_on_the_hub_it_names_its_repository():
    text = card.render(results(), repository="someone/simvae-mnist")
    assert 'sslzoo.load("hf://someone/simvae-mnist")' in text
    assert 'keras.saving.load_model("hf://someone/simvae-mnist", compile=False)' in text


def test_pictures_and_remarks():
    text = card.render(results())
    assert "![Reconstructions](pictures/two%20words.png)" in text
    assert "- Trained on 2 cores: far from the paper's 400 epochs." in text
    assert "## Pictures" not in card.render(results(pictures=[]))


def test_optional_fields_may_be_absent():
    few = results(metrics=[], papers=[], dataset="my-photos")
    for field in ("description", "remarks", "pictures", "input_shape", "features", "parameters", "parts", "weights"):
        del few[field]
    text = card.render(few)
    data = ModelCard(text).data
    assert data.eval_results is None and data.datasets is None
    assert "Nothing was measured" in text and "trained with SimVAE on my-photos without labels" in text


def test_a_card_is_a_function_of_the_results():
    assert card.render(results()) == card.render(results())
    assert card.render(results(seeds=[7])) != card.render(results())


@pytest.mark.parametrize("seconds, shown", [(4.4, "4 s"), (150, "2 min"), (4000, "67 min"), (86400, "24.0 h")])
def test_wall_time_in_words(seconds, shown):
    assert dict(rows(card.render(results(wall_seconds=seconds)), "Training")[2:])["wall time"] == shown


def test_a_card_knows_whether_it_is_as_written():
    text = card.sign("---\na: 1\n---\n# Model\n\n<!-- a comment -->\nÜber 3 × 4.\n")
    assert (
        card.is_as_written(text) and card.is_as_written(text.replace("\n", "\r\n")) and card.is_as_written(text + "\n")
    )
    for edited in (
        text.replace("3", "4"),
        text + "more",
        text.replace("Model", "Model "),
        "",
        "# Model",
        "\n<!-- -->\n",
    ):
        assert not card.is_as_written(edited)


# ---------------------------------------------------------------- measured again, cited, and whose it is


def evaluated(**protocols):
    record = {"data": {"name": "mnist"}, "seeds": [3], "protocols": protocols}
    return card.render(results(evaluation=record))


def test_the_command_that_measures_again_states_what_is_not_usual():
    text = evaluated(linear={"epochs": 200}, knn={}, gmm={"restarts": 3})
    command = "sslzoo evaluate simvae-mnist --dataset mnist --protocols linear knn gmm --seed 3 --gmm-restarts 3"
    assert f"```sh\n{command}\n```" in text
    assert "sslzoo evaluate" not in card.render(results())  # nothing is known of how it was measured
    own = {"data": {"name": "arrays"}, "seeds": [0], "protocols": {"knn": {}}}
    assert "sslzoo evaluate" not in card.render(results(evaluation=own))


def test_what_the_files_cannot_give_again_is_said_and_not_promised():
    ways = {"knn": {}, "reconstruction": {"decoder": "its own"}, "style": {}}
    record = {"data": {"name": "mnist"}, "protocols": ways, "numbers": {name: {} for name in (*ways, "bank", "views")}}
    text = card.render(results(evaluation=record, left_out=["decoder"], outdated=["style", "reconstruction"]))
    lost = "than the command below has: reconstruction, memory bank, linear probe on views."
    earlier = "Of an earlier measurement, and not of these files: style probe."
    assert f"Measured with more of the method {lost} {earlier} All else was measured on the files" in text
    assert "--protocols knn style\n" in text
    drawn = record | {"protocols": ways | {"generation": {"decoder": "its own"}}}
    drawn["numbers"] = {name: {} for name in ways} | {"generation": {"frechet_simclr-mnist": {}}}
    for left_out, command in ((["decoder"], "knn style\n"), ([], "style generation --extractor simclr-mnist\n")):
        assert command in card.render(results(evaluation=drawn, left_out=left_out))
    whole = card.render(results(evaluation=record | {"numbers": {name: {} for name in ways}}))
    assert "\nMeasured on the files as they are here, and again by\n" in whole and "knn reconstruction style\n" in whole


def test_the_command_is_one_that_the_shell_takes():
    from sslzoo import cli

    words = evaluated(linear={"epochs": 5}, gmm={"restarts": 3}).partition("sslzoo evaluate ")[2].partition("\n")[0]
    given = cli._parser().parse_args(["evaluate", *words.split()])
    assert (given.epochs, given.gmm_restarts, given.seed, given.protocols) == (5, 3, 3, ["linear", "gmm"])


def test_every_paper_of_every_method_has_its_bibtex():
    from sslzoo.methods import METHODS
    from sslzoo.methods.papers import paper

    papers = {url: paper(url) for method in METHODS.values() for url in method.papers}
    entries = [*map(citations.bibtex, papers.values())]
    assert len(papers) > 20 and len({entry.partition(",")[0] for entry in entries}) == len(papers)
    for cited, entry in zip(papers.values(), entries):
        assert cited["title"] in entry and cited["url"] in entry and entry.count("{") == entry.count("}")
    assert all("  author = {" in entry for entry in entries)
    simvae = citations.bibtex(papers["https://arxiv.org/abs/2402.01399"])
    assert simvae.startswith("@misc{bizeul2024a,") and "eprint = {2402.01399}" in simvae and "year = {2024}" in simvae
    assert simvae in card.render(results(papers=[papers["https://arxiv.org/abs/2402.01399"]]))


def test_terms_of_known_images_are_named_and_none_are_made_up_for_others():
    assert "Terms of MNIST: CC BY-SA 3.0" in card.render(results())
    own = card.render(results(dataset="photos", license=card.UNSTATED))
    assert ModelCard(own).data.license is None and "No license is stated" in own and "apache" not in own
    assert 'sslzoo.load("path/to/simvae-mnist")' in own  # by no name that anybody knows


@pytest.mark.parametrize("name", ["style.size_r2", "style.kept", "style.linear_kept"])  # a mean of R2 is one
def test_r2_is_a_share_for_model_indices_and_a_percentage_for_people(name):
    metric = {"name": name, "value": 78.7897, "chance": 0.0, "error": 1.0, "protocol": "R2 of its side"}
    text = card.render(results(metrics=[metric]))
    [number] = ModelCard(text).data.eval_results
    assert (number.metric_type, number.metric_value) == ("r_squared", 0.787897)
    assert rows(text, "Numbers")[2][1] == "78.79 ± 1 %"


def test_the_front_matter_has_the_headlines_alone():
    names = ["linear.converged_accuracy", "linear.accuracy", "mlp.accuracy", "knn.cosine_k10_accuracy", "gmm.accuracy"]
    metrics = [{"name": name, "value": 1, "protocol": "p"} for name in [*names, "style.kept", "style.size_r2"]]
    data = ModelCard(card.render(results(metrics=metrics))).data
    assert [number.metric_name for number in data.eval_results] == [names[0], *names[2:], "style.kept"]


def test_a_published_card_measures_the_published_model():
    record = {"data": {"name": "mnist"}, "seeds": [0], "protocols": {"knn": {}}}
    text = card.render(results(evaluation=record), "someone/mine")
    assert "sslzoo evaluate hf://someone/mine --dataset mnist" in text


def test_what_is_missing_is_named():
    text = card.render(results(left_out=["posterior"], ended="minutes"))
    assert "- Left out here for size, and written by the recipe: posterior." in text
    assert ["ended by", "minutes"] in rows(text, "Training")


def test_names_of_classes_cannot_end_their_code():
    text = card.render(results(dataset="a\n# <b>", classes=["new\nline\n# Heading", "`x` <script>", "plain"]))
    assert "`new line # Heading`, `` `x` <script> ``, `plain`" in text and "\n# Heading" not in text
    assert "a # &lt;b&gt;" in text and "\n# <b>" not in text.partition("\n---\n")[2]
