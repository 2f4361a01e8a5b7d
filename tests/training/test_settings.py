"""Settings: which row wins, what follows from the budget of views, and what is refused. No run is made."""

import re
from pathlib import Path

import pytest

from sslzoo.data.catalogue import KNOWN
from sslzoo.errors import InvalidInputError, UnknownNameError
from sslzoo.files import module_at
from sslzoo.training import AIRNET, PAPER, STRONG, VAE_AIRNET, VAE_PAPER, Per, Variant, flags
from sslzoo.training.settings import SETUPS, data_name, model_name, parse_changes, resolve, table

ROOT = Path(__file__).resolve().parents[2]
OWN = {"temperature": 0.7, "batch_size": Per(128, mnist=64), "queue_size": Per(4096, digits=128)}
VARIANTS = {
    "paper": PAPER | {"temperature": 0.1},
    "strong": STRONG,
    "one-set": Variant({"temperature": Per(mnist=0.5)}, only=("mnist", "digits")),
}


def numbers(variant="zoo", dataset="mnist", channels=None, **changes):
    return resolve(OWN, VARIANTS, variant, dataset, channels, changes)


def test_the_zoo_tier_of_cifar_is_a_variant_of_its_own():
    strong, small = numbers("zoo", "cifar10"), numbers("small", "cifar10")
    assert all(strong[name] == value for name, value in AIRNET.settings.items())
    assert small["network"] == "convnet" and small["views_per_image"] == 20 and small["optimizer"] == "adam"
    own = resolve(OWN, {"zoo": VAE_AIRNET | {"temperature": 0.2}}, "zoo", "cifar10")
    assert own["network"] == "airnet" and own["latent_dim"] == 64 and own["temperature"] == 0.2
    assert resolve(OWN, {"zoo": VAE_AIRNET | {"temperature": 0.2}}, "zoo", "mnist") == numbers()
    with pytest.raises(InvalidInputError, match="Variant small is for cifar10"):
        numbers("small")


def test_later_rows_win():
    assert numbers()["network"] == "mlp" and numbers()["learning_rate"] == 1e-3
    assert numbers()["temperature"] == 0.7 and numbers("paper")["temperature"] == 0.1
    assert numbers("paper", temperature=0.3)["temperature"] == 0.3
    assert numbers("paper")["learning_rate"] == 8e-5 and numbers("paper")["schedule"] == "constant"


def test_per_data_set():
    assert numbers()["batch_size"] == 64 and numbers(dataset="digits")["batch_size"] == 128
    assert numbers("one-set")["temperature"] == 0.5
    assert numbers("one-set", "digits")["temperature"] == 0.7  # not named: as the row below says
    assert numbers("paper", "cifar10")["network"] == "resnet18-simvae-paper"
    assert numbers("paper", "mnist")["network"] == "mlp"


@pytest.mark.parametrize("dataset, channels, row", [("photos", 3, "color images"), ("scans.npz", 1, "gray images")])
def test_folders_and_files_go_by_their_channels(dataset, channels, row):
    assert numbers(dataset=dataset, channels=channels)["network"] == SETUPS[row]["network"]


@pytest.mark.parametrize("dataset", ["digits", "mnist", "fashion_mnist", "cifar10"])
def test_every_number_of_views_has_the_same_budget(dataset):
    seen = {n: numbers(dataset=dataset, num_views=n) for n in (1, 2, 4, 5, 10)}
    assert len({n * row["epochs"] for n, row in seen.items()}) == 1
    assert all(row["monitor_every"] == -(-row["epochs"] // 30) for row in seen.values())


def test_the_budget_of_mnist_is_14_million_views():
    assert numbers()["epochs"] * numbers()["num_views"] * 60_000 == 14_400_000


def test_epochs_that_are_said_stay():
    assert numbers(epochs=7)["epochs"] == 7 and numbers("paper")["epochs"] == 600
    assert resolve(OWN, {"paper": VAE_PAPER}, "paper", "mnist")["epochs"] == 400


def test_views_per_image_is_refused_where_something_else_says_the_epochs():
    assert numbers(views_per_image=10)["epochs"] == 5
    assert numbers("paper", views_per_image=10, epochs=None)["epochs"] == 5
    with pytest.raises(InvalidInputError, match=r"Received: views_per_image=10, epochs=600 of variant paper$"):
        numbers("paper", views_per_image=10)
    with pytest.raises(InvalidInputError, match=r"Received: views_per_image=10, epochs=7$"):
        numbers(views_per_image=10, epochs=7)
    with pytest.raises(InvalidInputError, match=r"Received: views_per_image=10, epochs=30 of the recipe$"):
        resolve(OWN | {"epochs": 30}, {}, "zoo", "mnist", changes={"views_per_image": 10})


def test_resolving_changes_nothing_that_it_was_given():
    before = dict(OWN), dict(PAPER.settings)
    numbers("paper", temperature=1.0)
    assert (dict(OWN), dict(PAPER.settings)) == before


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"variant": "papr"}, UnknownNameError, "Did you mean 'paper'"),
        ({"variant": "strong"}, InvalidInputError, "Variant strong is for cifar10.*Received: --dataset mnist"),
        ({"temprature": 1.0}, UnknownNameError, "Did you mean 'temperature'"),
    ],
)
def test_what_there_is_not(arguments, error, message):
    with pytest.raises(error, match=message):
        numbers(**arguments)


def test_per_refuses_a_data_set_that_there_is_not():
    with pytest.raises(UnknownNameError, match="Did you mean 'mnist'"):
        Per(mnst=1)
    with pytest.raises(UnknownNameError, match="Did you mean 'color images'"):
        Per(colour=1)


def test_color_is_every_set_in_color_that_is_not_named_beside_it():
    """Its images say whether a set is in color: one that joins `SETUPS` must join `color` too."""
    found = {name: Per(0, celeb_a=2, color=1).of(name) for name in SETUPS}
    in_color = {name for name, known in KNOWN.items() if known.image_shape[-1] == 3} | {"color images"}
    assert found == {name: 2 if name == "celeb_a" else int(name in in_color) for name in SETUPS}


@pytest.mark.parametrize(
    "word, expected",
    [
        ("temperature=0.2", 0.2),
        ("head=(256, 64)", (256, 64)),
        ("flip=None", None),
        ("flip=none", None),
        ("fill_bank=false", False),
        ("fill_bank=True", True),
        ("network=resnet18", "resnet18"),
        ("policy_changes={'blur': None}", {"blur": None}),
    ],
)
def test_changes_are_literals_or_texts(word, expected):
    known = numbers() | {"head": None, "fill_bank": True}
    assert parse_changes([word], known) == {word.partition("=")[0]: expected}


@pytest.mark.parametrize("text", ["yes", "0", "None", "ture"])
def test_what_is_on_or_off_takes_nothing_else(text):
    with pytest.raises(InvalidInputError, match=f"fill_bank must be True or False. Received: --set fill_bank={text}"):
        parse_changes([f"fill_bank={text}"], {"fill_bank": True})


@pytest.mark.parametrize("text", ["x", "(0.2, 0.5)", "{}"])
def test_where_a_number_stands_no_text_or_tuple_does(text):
    with pytest.raises(InvalidInputError, match=r"must be a number, as 0\.1 is. Received: --set "):
        parse_changes([f"temperature={text}"], {"temperature": 0.1})


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"network": None}, "network must be a name. Received: network=None"),
        ({"gmm_restarts": None}, "gmm_restarts must be a number. Received: gmm_restarts=None"),
        ({"policy": 0}, "policy must be a name. Received: policy=0"),
        ({"freeze_epochs": None}, "freeze_epochs must be a number >= 0. Received: freeze_epochs=None"),
        ({"shrinking": 1.5}, "shrinking must be a number from 0 to 1. Received: shrinking=1.5"),
        ({"head_options": (0,)}, r"head_options must be a dict, {option: value}. Received: head_options=\(0,\)"),
        ({"policy_changes": "blur"}, "policy_changes must be a dict, {step: its options or None}. Received"),
    ],
)
def test_what_recipes_compute_with_is_checked_before(own, message):
    with pytest.raises(InvalidInputError, match=message):
        resolve(OWN | own, VARIANTS, "zoo", "digits")


def test_every_set_counts_and_no_setting_has_two_values():
    """argparse keeps the last of several --set, unless told otherwise: the others would be lost without a word."""

    def given(*words):
        arguments = flags.parser("simclr", VARIANTS, "").parse_args(words)
        return flags.changes(arguments, numbers())

    assert given("--set", "temperature=0.2", "--epochs", "3", "--set", "flip=None", "network=mlp") == {
        "temperature": 0.2,
        "flip": None,
        "network": "mlp",
        "epochs": 3,
    }
    assert given() == {}  # what was given before does not stay
    with pytest.raises(InvalidInputError, match=r"temperature must have one value.*=0.2 temperature=0.3"):
        given("--set", "temperature=0.2", "--set", "temperature=0.3")
    with pytest.raises(InvalidInputError, match="Received: --batch-size 64 and --set batch_size=32"):
        given("--set", "batch_size=32", "--batch-size", "64")


@pytest.mark.parametrize(
    "dataset, expected",
    [
        ("fashion_mnist", "fashion-mnist"),
        ("My Photos", "my-photos"),
        ("photos(1).npz", "photos-1"),
        ("données", "donnees"),
        ("日本", "data"),
        ("x" * 300, "x" * 60),
        ("pics/", "pics"),
        ("a.b.c.npz", "a-b-c"),
    ],
)
def test_any_data_set_has_a_name(dataset, expected):
    assert data_name(dataset) == expected


def test_names_say_their_recipe():
    assert model_name("simclr", "cifar10") == "simclr-cifar10"
    assert model_name("simclr", "cifar10", "strong") == "simclr-cifar10.strong"
    assert model_name("simvae", "mnist", seed=1) == "simvae-mnist.seed1"
    assert model_name("simvae", "mnist", "paper", 2) == "simvae-mnist.paper-seed2"


def test_the_table_shows_every_number():
    shown = table(numbers())
    assert all(f"{name} " in shown for name in numbers()) and "0.7" in shown
    shown = table(numbers() | {"epochs": 200, "num_views": 2, "views_per_image": 20})
    assert re.search(r"^views_per_image +400$", shown, re.MULTILINE)  # 20 would be another training


def test_networks_for_photographs_give_their_own_features():
    assert numbers(dataset="photos", channels=3)["latent_dim"] == 64
    for network in ("vit-tiny", "resnet50", "keras:ResNet50", "module:function"):
        assert numbers(dataset="photos", channels=3, network=network)["latent_dim"] is None
        assert numbers(dataset="photos", channels=3, network=network, latent_dim=32)["latent_dim"] == 32


def test_policies_that_images_can_take():
    assert numbers(dataset="bands", channels=5)["policy"] == "channels"
    assert numbers(dataset="bands", channels=5, policy="simvae-mnist")["policy"] == "simvae-mnist"
    assert numbers(dataset="scans", channels=1, policy="xray")["flip"] is None
    assert numbers(dataset="scans", channels=1, policy="xray", flip="vertical")["flip"] == "vertical"


def test_views_are_cut_out_of_larger_images():
    def parsed(*words):
        arguments = flags.parser("simclr", {}, "").parse_args([*words])
        flags.check(arguments)
        return flags.changes(arguments, numbers())

    assert parsed("--store-size", "96", "--image-size", "64")["view_size"] == 64
    with pytest.raises(InvalidInputError, match=r"at most as large. Received: --store-size=64 --image-size=96"):
        parsed("--store-size", "64", "--image-size", "96")


@pytest.mark.parametrize(
    ("variant", "dataset", "likelihood"),
    [
        ("zoo", "mnist", "bernoulli"),
        ("zoo", "cifar10", "gaussian"),
        ("paper", "mnist", "gaussian"),  # as the text of the SimVAE paper has it, for all images
        ("workshop", "fashion_mnist", "gaussian"),
        ("released", "mnist", "bernoulli"),  # as its code has it, for gray ones
        ("released", "cifar10", "gaussian"),
    ],
)
def test_the_vae_of_the_zoo_leaves_that_of_the_papers_alone(variant, dataset, likelihood):
    recipe = module_at(ROOT / "recipes" / "vae.py")
    assert resolve(recipe.SETTINGS, recipe.VARIANTS, variant, dataset, None, {})["likelihood"] == likelihood
