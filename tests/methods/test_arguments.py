"""What constructors take, and that a subclass is saved without further code."""

import keras
import pytest
from contract import Flips, head, plain_encoder

from sslzoo import methods
from sslzoo.errors import UnknownNameError


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
