"""Wrong words to recipes, to the shell and to public functions: one line a case, refused in a line before any work."""

import re

import contract
import keras
import numpy as np
import pytest
from test_training import recipe

import sslzoo
from sslzoo import callbacks, cli, data, errors, evaluation, methods, networks
from sslzoo.data import moving_balls
from sslzoo.evaluation import outliers, pictures

SMALL = ("--limit", "96", "--batch-size", "24")

# recipe and its words -> what is said
RECIPES = {
    "simvae --dataset=": "--dataset must not be empty",
    "simvae --dataset mnist --data-dir=": "--data-dir must not be empty",
    "simvae --variant=": "--variant must not be empty",
    "simvae --name=": "--name must not be empty",
    "simvae --name nul": "--name must consist of",
    "simvae --name con.seed1": "--name must consist of",
    "simvae --out=": "--out must not be empty",
    "simvae --init=": "--init must not be empty",
    "simvae --license=": "--license must not be empty",
    "simvae --protocols": "--protocols must not be empty",
    "simvae --seed -1": "Received: seed=-1",
    "simvae --seed 2147483648": "Received: seed=2147483648",
    "simvae --learning-rate nan": "learning_rate must be a number > 0",
    "simvae --learning-rate inf": "learning_rate must be a number > 0",
    "simvae --learning-rate 0": "learning_rate must be a number > 0",
    "simvae --learning-rate -1": "learning_rate must be a number > 0",
    "simvae --image-size 0": "--image-size must be greater than 0",
    "simvae --image-size 32": "`image_size` is for a folder",
    "simvae --test-share nan": "test_share must be a number from 0 to 1",
    "simvae --test-share -0.5": "test_share must be a number from 0 to 1",
    "simvae --grace inf": "--grace must be less than",
    "simvae --grace 0": "--grace must be greater than 0",
    "simvae --float16 --digits 0": "--digits must be greater than 0",
    "simvae --float16 --digits 12": "float16 has 11 binary digits. Received: --digits=12",
    "simvae --digits 5": "--digits is for --float16. Received: --digits=5",
    "simvae --max-minutes nan": "--max-minutes must be greater than 0",
    "simvae --max-minutes -1": "--max-minutes must be greater than 0",
    "simvae --limit 0": "--limit must be greater than 0",
    "simvae --limit 1": "at least one batch",
    "simvae --epochs 9223372036854775808": "--epochs must be less than",
    "simvae --batch-size 9223372036854775808": "--batch-size must be less than",
    "simvae --num-views 9223372036854775808": "--num-views must be less than",
    "simvae --accumulate 0": "--accumulate must be greater than 0",
    "simvae --stop-on-collapse 0": "--stop-on-collapse must be greater than 0",
    "simvae --until-knn 101": "--until-knn must be a percentage",
    "simvae --until-knn nan": "--until-knn must be greater than 0",
    "simvae --devices 0": "--devices",
    "simvae --fuse-steps -1": "--fuse-steps must be greater than 0",
    "simclr --set head={512,128}": "head must consist of numbers, texts, tuples and dicts",
    "simclr --set head=({1,2},)": "head must consist of numbers, texts, tuples and dicts",
    "simclr --set network_options={'a':b'x'}": "network_options must consist of numbers",
    "simclr --set head=...": "head must consist of numbers, texts, tuples and dicts",
    "simvae --remark=": "--remark must be a text",
    "simvae --set epochs=0": "epochs must be an integer >= 1",
    "simvae --set epochs=1.5": "epochs must be an integer >= 1",
    "simvae --set epochs=": "epochs must be a number",
    "simvae --set batch_size=0": "batch_size must be an integer >= 1",
    "simvae --set batch_size=None": "batch_size must be a number",
    "simvae --set batch_size=2.5": "batch_size must be an integer >= 1",
    "simvae --set num_views=-3": "num_views must be an integer >= 1",
    "simvae --set num_views=1e9": "num_views must be an integer >= 1",
    "simvae --set num_views=1000000000": "views of one step must fit the memory",
    "simvae --set latent_dim=1000000000000": "features of all images must fit the memory",
    "simvae --set learning_rate=1e999": "learning_rate must be a number > 0",
    "simvae --set learning_rate=(1,2)": "learning_rate must be a number, as 0.001 is",
    "simvae --set learning_rate=None": "learning_rate must be a number",
    "simvae --set monitor_every=-1": "monitor_every must be an integer >= 0",
    "simvae --set monitor_every=1.5": "monitor_every must be an integer >= 0",
    "simvae --set latent_dim=0": "latent_dim must be an integer >= 1",
    "simvae --set network=resnt": "Did you mean 'resnet50'",
    "simvae --set network=5": "network must be a name",
    "simvae --set prior_variance=None": "prior_variance needs a center_variance beside it",
    "simvae --set policy=x": "Unknown policy",
    "simvae --set policy_changes=3": "policy_changes must be a dict",
    "simvae --set policy_changes={1:2}": "policy_changes cannot have an option 1",
    "simvae --set policy_changes={'name':2}": "policy_changes cannot have an option 'name'",
    "simclr --set network_options={'posterior':True}": "network_options cannot have an option 'posterior'",
    "simsiam --set head_options={'seed':1}": "head_options cannot have an option 'seed'",
    "simsiam --set head_options={'foo':1}": "Unknown option of a head",
    "simsiam --set head_options={'activation':'foo'}": "activation must be one of Keras'",
    "gedi --set standardize=5.5": "standardize must be an integer >= 0",
    "gedi --set standardize=-3": "standardize must be an integer >= 0",
    "simvae --set flip=up": "Unknown flip",
    "simvae --set schedule=cos": "Unknown schedule",
    "simvae --set optimizer=sdg": "Did you mean 'sgd'",
    "simvae --set protocols=kn": "Did you mean 'knn'",
    "simvae --set protocols=('x',)": "Unknown protocol",
    "simvae --set protocols=5": "protocols must be",
    "simvae --set gmm_restarts=0": "gmm_restarts must be an integer >= 1",
    "simvae --set warmup_steps=1.5": "warmup_steps must be an integer >= 0",
    "simvae --set warmup_epochs='x'": "warmup_epochs must be a number",
    "simvae --set adam_epsilon=-1": "adam_epsilon must be a number > 0",
    "simvae --set weight_decay=-1": "weight_decay must be a number >= 0",
    "simvae --set views_per_image=0": "views_per_image must be a number > 0",
    "simvae --set =1": "Unknown setting",
    "simvae --set seed=1": "Unknown setting",
    "moco --queue-size 12": "has room for 6.*batch of 24 images",
    "moco --set symmetric=False queue_size=8": "has room for 8.*batch of 24 images",
    "moco --set queue_size=12 momentum=2": "momentum must be",
    "nnclr --queue-size 12": "has room for 12.*batch of 24 images",
    "wmse --batch-size 10": "needs (a multiple of|at least)",
    "simclr --set temperature=0": "temperature must be a number > 0",
    "simclr --set num_views=3": "exactly 2 views",
    "deepcluster --set clusters=0": "clusters must be",
    "deepcluster --set clusters=9 recluster_every=0": "every must be an integer >= 1",
    "local_aggregation --set clusters=9 cluster_every=0": "every must be an integer >= 1",
    "dino --set local_views=-1": "local_views must be an integer >= 0",
    "dino --set local_views=x": "local_views must be a number",
}


@pytest.mark.parametrize("words", RECIPES)
def test_a_recipe_refuses(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, *flags = words.split()
    small = [] if "--limit" in flags else SMALL[:2]
    small = [*small, *([] if any("batch" in word for word in flags) else SMALL[2:])]
    with pytest.raises(errors.SSLZooError, match=RECIPES[words]) as caught:
        recipe(name).main([*small, *flags, *([] if "--out=" in flags else ["--out", "run"])])
    assert "\n" not in str(caught.value) and "Received: " in str(caught.value)
    assert list(tmp_path.iterdir()) == []  # not even the folder of the run


# words to the shell -> what is said
SHELL = {
    "list --method=": "--method: must not be empty",
    "list --tag=": "--tag: must not be empty",
    "info ''": "NAME: must not be empty",
    "embed '' x.png -o f.npz": "NAME: must not be empty",
    "embed simvae-digits '' -o f.npz": "IMAGES: must not be empty",
    "embed simvae-digits x.png -o ''": "-o/--output: must not be empty",
    "embed simvae-digits x.png -o f.npz --split=": "--split: must not be empty",
    "embed simvae-digits x.png -o f.npz --revision=": "--revision: must not be empty",
    "embed simvae-digits x.png -o f.npz --batch-size 0": "must be at least 1",
    "embed simvae-digits x.png -o f.npz --batch-size 1e3": "invalid 'positive integer' value",
    "embed simvae-digits x.png -o f.npz --batch-size 9223372036854775808": "less than 2147483648",
    "search '' 1": "FEATURES: must not be empty",
    "search f.npz ''": "QUERY: must not be empty",
    "search f.npz 1 -k 0": "must be at least 1",
    "search f.npz 1 --html=": "--html: must not be empty",
    "search f.npz 1 --model=": "--model: must not be empty",
    "evaluate simvae-digits --dataset=": "--dataset.*: must not be empty",
    "evaluate simvae-digits --dataset digits --data-dir=": "--data-dir: must not be empty",
    "evaluate simvae-digits --dataset digits --protocols": "expected at least one argument",
    "evaluate simvae-digits --dataset digits --seed -1": "must be at least 0 and less than 2147483648, not -1",
    "evaluate simvae-digits --dataset digits --seed 2147483648": "less than 2147483648",
    "evaluate simvae-digits --dataset digits --seed 1.5": "invalid .* value",
    "evaluate simvae-digits --dataset digits --epochs 0": "must be at least 1",
    "evaluate simvae-digits --dataset digits --gmm-restarts -1": "must be at least 1",
    "evaluate simvae-digits --dataset digits --limit 0": "must be at least 1",
    "evaluate simvae-digits --dataset x --image-size 0": "must be at least 1",
    "evaluate simvae-digits --dataset x --labels folders --test-share 1": "at least 0 and less than 1",
    "evaluate simvae-digits --dataset x --labels folders --test-share nan": "at least 0 and less than 1",
    "publish '' me/it": "FOLDER: must not be empty",
    "publish x ''": "REPO: must not be empty",
    "publish x me/it --manifest=": "--manifest: must not be empty",
    "manifest ''": "FOLDER: must not be empty",
    "manifest x --organization=": "--organization: must not be empty",
    "verify ''": "NAME: must not be empty",
    "train ''": "METHOD: must not be empty",
}


@pytest.mark.parametrize("words", SHELL)
def test_the_shell_refuses(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        cli.main(["" if word == "''" else word for word in words.split()])
    told = capsys.readouterr()
    assert caught.value.code == 2 and told.out == "" and list(tmp_path.iterdir()) == []
    assert re.search(SHELL[words], told.err.splitlines()[-1])


IMAGES, LABELS = np.zeros((9, 8, 8, 1), "uint8"), np.arange(9) % 3
FEATURES = np.random.default_rng(0).normal(size=(9, 4))
BOTH = (FEATURES, LABELS)

# what is called with a seed, or another number, that is none
CALLS = {
    "evaluate seed": lambda n: sslzoo.evaluate(None, "nowhere", seed=n),
    "evaluate epochs": lambda n: sslzoo.evaluate(None, "nowhere", epochs=n),
    "evaluate batch": lambda n: sslzoo.evaluate(None, "nowhere", batch_size=n),
    "evaluate limit": lambda n: sslzoo.evaluate(None, "nowhere", max_train=n),
    "evaluate restarts": lambda n: sslzoo.evaluate(None, "nowhere", gmm_restarts=n),
    "evaluate hidden": lambda n: sslzoo.evaluate(None, "nowhere", hidden=n),
    "evaluate_features": lambda n: evaluation.evaluate_features(BOTH, BOTH, "knn", seed=n),
    "features": lambda n: evaluation.features(None, IMAGES, batch_size=n),
    "fit_mixtures": lambda n: evaluation.fit_mixtures(FEATURES, 2, seed=n),
    "fit_mixtures restarts": lambda n: evaluation.fit_mixtures(FEATURES, 2, restarts=n),
    "minibatch_scores": lambda n: evaluation.minibatch_scores(LABELS, LABELS, seed=n),
    "minibatch_scores batch": lambda n: evaluation.minibatch_scores(LABELS, LABELS, n),
    "train_probe": lambda n: evaluation.train_probe(FEATURES, LABELS, FEATURES, LABELS, 3, seed=n),
    "train_probe epochs": lambda n: evaluation.train_probe(FEATURES, LABELS, FEATURES, LABELS, 3, epochs=n),
    "nearest": lambda n: evaluation.nearest(FEATURES, FEATURES, n),
    "knn_accuracy": lambda n: evaluation.knn_accuracy(*BOTH, *BOTH, k=n),
    "embed": lambda n: sslzoo.embed(None, IMAGES, batch_size=n),
    "search": lambda n: evaluation.search(evaluation.Embedding(FEATURES), 0, k=n),
    "outliers": lambda n: outliers.scores(networks.encoder("mlp-small", (8, 8, 1), 2), IMAGES, seed=n),
    "picture of neighbors": lambda n: pictures.neighbors(IMAGES, FEATURES, "none.png", seed=n),
    "picture of features": lambda n: pictures.embedding(FEATURES, LABELS, "none.png", seed=n),
    "data.Batches": lambda n: data.Batches(IMAGES, None, 3, seed=n),
    "moving_balls": lambda n: moving_balls.moving_balls(seed=n),
    "networks": lambda n: networks.encoder("mlp-small", (8, 8, 1), 2, seed=n),
    "views": lambda n: sslzoo.views.Views("simvae-digits", 2, seed=n),
    "health": lambda n: callbacks.Health(IMAGES, seed=n),
    "energy health": lambda n: callbacks.EnergyHealth(IMAGES, seed=n),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_number_that_is_none_is_refused_before_any_work(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in (-1, 1.5, True, "1", float("nan")):
        with pytest.raises(errors.InvalidInputError, match=r"Received: .*="):
            CALLS[what](number)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def model_of():
    """Method -> one of the battery's models of it."""
    models = (make(contract.Flips(num_views)) for num_views, make in contract.CASES.values())
    yield {type(model): model for model in models}
    keras.backend.clear_session()


@pytest.mark.parametrize("name", sorted(methods.METHODS))
def test_every_method_refuses_a_seed_that_is_none(name, model_of):
    method = methods.METHODS[name]
    if "seed" not in method.arguments():
        pytest.skip("nothing in it is random but the views")
    for seed in (-1, 2**31, 0.5, None):
        with pytest.raises(errors.InvalidInputError, match=r"seed must be an integer from 0 to 2147483647\. Received"):
            method.from_config(model_of[method].get_config() | {"seed": seed})


@pytest.mark.parametrize("empty", ["", [""]])
def test_an_empty_path_is_not_the_current_folder(empty):
    with pytest.raises(errors.InvalidInputError, match="path of a folder or file"):
        sslzoo.embed(None, empty)
    with pytest.raises(errors.InvalidInputError, match="Received: name="):
        data.load(empty, "train")
