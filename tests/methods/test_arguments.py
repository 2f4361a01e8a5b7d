"""What constructors take, and that a subclass is saved without further code."""

import warnings

import keras
import pytest
from contract import Flips, head, images, plain_encoder
from keras import ops

from sslzoo import methods
from sslzoo.errors import InvalidInputError, UnknownNameError


@keras.saving.register_keras_serializable("sslzoo_tests")
class Weighted(methods.SimCLR):
    """Hands up what it does not know."""

    def __init__(self, *args, weight=1.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.weight = weight


@keras.saving.register_keras_serializable("sslzoo_tests")
class Decided(methods.SimCLR):
    """Decides one argument to be what it is by default, and one to be something else."""

    def __init__(self, encoder, views=None, **kwargs):
        super().__init__(encoder, None, views, temperature=0.2, **kwargs)


@keras.saving.register_keras_serializable("sslzoo_tests")
class Closed(methods.SimCLR):
    """Hands up nothing else."""

    def __init__(self, encoder, views, name=None):
        super().__init__(encoder, head(), views, name=name)


@keras.saving.register_keras_serializable("sslzoo_tests")
class Heads(methods.JointEmbedding):
    """Takes networks in a list and in a dict."""

    terms = {"alignment": "prior"}

    def __init__(self, encoder, heads, named, views=None, **kwargs):
        super().__init__(encoder, None, views, **kwargs)
        self.heads, self.named = heads, named

    def criterion(self, z):
        heads = [*self.heads, *self.named.values()]
        return {"alignment": sum(ops.mean(ops.square(head(z[:, 0]) - head(z[:, 1]))) for head in heads)}


class Penalized(methods.SimCLR):
    """Gives a term that it does not list."""

    def objective(self, images, outputs, training):
        return {**super().objective(images, outputs, training), "length": ops.mean(ops.square(outputs["z"]))}


class Listed(Penalized):
    terms = {**methods.SimCLR.terms, "length": "marginal"}


def reloaded(model, path):
    model.save(path / "model.keras")
    return keras.saving.load_model(path / "model.keras")


def test_a_subclass_with_kwargs_is_saved_with_all_its_arguments(tmp_path):
    for model in (
        Weighted(plain_encoder(), head(), Flips(2), weight=2.0, temperature=0.3),
        Weighted(plain_encoder(), projector=head(), views=Flips(2), temperature=0.3, weight=2.0),
    ):
        loaded = reloaded(model, tmp_path)
        assert (loaded.weight, loaded.temperature, loaded.projector.output_shape) == (2.0, 0.3, (None, 6))


def test_networks_in_lists_and_dicts_are_saved(tmp_path):
    model = Heads(plain_encoder(), [head(), head()], {"one": head()}, Flips(2))
    loaded = reloaded(model, tmp_path)
    model.compile("sgd"), loaded.compile("sgd")
    assert loaded.evaluate(images(), verbose=0) == pytest.approx(model.evaluate(images(), verbose=0), rel=1e-5)


def test_a_term_that_is_not_listed_is_refused_for_it_would_not_be_trained():
    model = Penalized(plain_encoder(), views=Flips(2))
    model.compile("sgd")
    with pytest.raises(InvalidInputError, match=r"terms: alignment, contrast\. Received: alignment, contrast, length"):
        model.fit(images(), verbose=0)
    model = Listed(plain_encoder(), views=Flips(2))
    model.compile("sgd")
    logs = model.evaluate(images(), verbose=0, return_dict=True)
    assert logs["loss"] == pytest.approx(logs["alignment"] + logs["contrast"] + logs["length"], rel=1e-5)
    assert logs["length"] > 0


def test_what_is_exported_is_asked_for():
    with pytest.raises(InvalidInputError, match=r"parts\(\(H, W, C\)\).*input_signature=None"):
        methods.SimCLR(plain_encoder(), views=Flips(2)).export("out")


def test_a_network_of_two_inputs_is_refused():
    sides = keras.Input((8, 8, 1)), keras.Input((8, 8, 1))
    outputs = keras.layers.Flatten()(keras.layers.Add()(sides))
    with pytest.raises(InvalidInputError, match=r"encoder must take one input\. Received: encoder='two' with 2 inputs"):
        methods.SimCLR(keras.Model(sides, outputs, name="two"), views=Flips(2))


def test_what_a_subclass_decides_it_decides_again(tmp_path):
    loaded = reloaded(Decided(plain_encoder(), Flips(2)), tmp_path)
    assert loaded.projector is None and loaded.temperature == 0.2 and loaded.views.num_views == 2


def test_a_subclass_without_kwargs_has_its_own_arguments_alone():
    model = Closed(plain_encoder(), Flips(2))
    assert {*Closed.arguments()} == {"encoder", "views", "name"} and "temperature" not in model.get_config()


def test_arguments_are_those_of_all_bases_but_what_a_method_does_without():
    arguments = {"encoder", "views", "projector", "num_images", "neighbors", "anneal_steps", "curve", "temperature"}
    assert {*methods.Ball.arguments()} == arguments | {"momentum", "seed"}
    assert methods.Ball.arguments()["neighbors"].default == 4096
    assert {"sgld_steps", "sample_range", "clip"} <= {*methods.JEM.arguments()}


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: methods.SimCLR(plain_encoder(), temprature=1.0), "Did you mean 'temperature'.*argument of SimCLR="),
        (lambda: methods.JEM(plain_encoder(), 5, sgld_step=3), "Did you mean 'sgld_steps'.*of JEM='sgld_step'"),
        (lambda: methods.Ball(plain_encoder(), 9, clusters=3), "argument of Ball='clusters'"),
        (lambda: methods.DeepCluster(plain_encoder(), 9, 3, projector=head()), "argument of DeepCluster='projector'"),
    ],
)
def test_an_unknown_argument_names_the_class_and_the_nearest(make, message):
    with pytest.raises(UnknownNameError, match=message):
        make()


def test_a_class_that_takes_no_more_than_it_names_is_read_again():
    model = Closed(plain_encoder(), Flips(2))
    again = Closed.from_config(model.get_config())
    assert again.get_config().keys() == model.get_config().keys() and again.name == model.name


def test_a_layer_that_a_method_leaves_unbuilt_gets_a_warning():
    class Lazy(methods.SimCLR):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.more = keras.layers.Dense(2)

    model = Lazy(plain_encoder(), None, Flips(2))
    with pytest.warns(UserWarning, match=r"builds its layers in its constructor .*Lazy with dense"):
        model.compile("sgd")
    model.more.build((None, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.compile("sgd")
