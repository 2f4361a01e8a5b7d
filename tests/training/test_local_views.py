"""Local views of a run: of their own size and scale, and by a seed of their own."""

from types import SimpleNamespace

from sslzoo.training.builders import Builders
from sslzoo.training.settings import SETUPS, TRAINING


class Run(Builders):
    seed, image_shape, examples = 3, (8, 8, 1), SimpleNamespace(value_range=(0.0, 255.0))
    settings = TRAINING | SETUPS["digits"] | {"local_views": 2, "local_size": 6, "local_scale": (0.2, 0.5)}


def test_local_views_have_another_seed_than_the_global_ones():
    local, whole = Run().local_views(), Run().views(2)
    assert (local.size, local.num_views, whole.size) == ((6, 6), 2, (8, 8))
    assert whole.seed == 3 != local.seed
