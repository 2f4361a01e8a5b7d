"""LeJEPA and VISReg: local views, beyond the shared battery."""

import numpy as np
import pytest
from contract import LATENT, Flips, images, plain_encoder
from keras import ops

from sslzoo import losses
from sslzoo.errors import InvalidInputError
from sslzoo.losses.marginal import directions
from sslzoo.methods import LeJEPA, VISReg
from sslzoo.training.settings import resolve, views_of


def numbers(terms):
    return {name: float(ops.convert_to_numpy(value)) for name, value in terms.items()}


def views(count, seed):
    return np.random.default_rng(seed).normal(size=(6, count, LATENT)).astype("float32")


@pytest.mark.parametrize("method, loss", [(LeJEPA, losses.lejepa_terms), (VISReg, losses.visreg_terms)])
def test_local_views_join_the_marginal_but_not_the_center(method, loss):
    z, local = views(2, 0), views(3, 1)
    model = method(plain_encoder(), views=Flips(2), local_views=Flips(3), slices=7, weight=0.25)
    given = {"z": ops.convert_to_tensor(z), "local": ops.convert_to_tensor(local)}
    found = numbers(model.objective(None, given, False))
    expected = numbers(
        loss(np.concatenate([z, local], 1), directions(model.embedding_dim, model.slices, model.seed), num_global=2)
    )
    center = z.mean(1, keepdims=True)
    assert expected["invariance"] == pytest.approx(((np.concatenate([z, local], 1) - center) ** 2).mean(), rel=1e-5)
    for name, value in expected.items():
        assert found[name] == pytest.approx((0.75 if name == "invariance" else 0.25) * value, rel=1e-5)


def test_local_views_need_raw_images():
    model = LeJEPA(plain_encoder(), views=Flips(2), local_views=Flips(3), slices=7)
    assert model(images(4))["local"].shape == (4, 3, LATENT)
    with pytest.raises(InvalidInputError, match=r"raw images.*Received: views of shape"):
        model(np.zeros((4, 2, 8, 8, 1), "float32"))


def test_local_views_are_part_of_the_budget():
    """600 views of each image of the digits, whatever their size."""
    settings = {"num_views": 2, "local_views": 4}
    assert views_of(settings) == 6
    assert resolve(settings, {}, "zoo", "digits", 1)["epochs"] == 100
