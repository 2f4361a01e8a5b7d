"""The battery's subjects: every method on networks small enough that twenty of them fit a test run.

A method joins the whole battery (tests/test_method_contract.py) by one line in `CASES`.
"""

import keras
import numpy as np
from keras import ops

from sslzoo import methods
from sslzoo.networks import initialize, predictor, projector

IMAGE_SHAPE = (8, 8, 1)
LATENT = 4


@keras.saving.register_keras_serializable("sslzoo_tests")
class Flips(keras.layers.Layer):
    """Views without randomness: the image, then its mirrorings. Equal on every backend."""

    def __init__(self, num_views=2, **kwargs):
        super().__init__(**kwargs)
        self.num_views = num_views

    def call(self, images, training=None):
        x = self.prepare(images)
        mirrored = [x, ops.flip(x, axis=2), ops.flip(x, axis=1), ops.flip(x, axis=(1, 2))]
        return ops.stack(mirrored[: self.num_views], axis=1)

    def prepare(self, images):
        return ops.cast(images, "float32") / 255.0

    def preprocessor(self, image_shape):
        return keras.Sequential([keras.Input(image_shape), keras.layers.Rescaling(1 / 255)])

    def get_config(self):
        return {**super().get_config(), "num_views": self.num_views}


def posterior_encoder(seed=1):
    """With batch normalization, so that statistics are part of what is tested."""
    x = image = keras.Input(IMAGE_SHAPE)
    x = keras.layers.Dense(12, name="hidden")(keras.layers.Flatten()(x))
    x = keras.layers.Activation("silu")(keras.layers.BatchNormalization(momentum=0.5, name="norm")(x))
    outputs = [keras.layers.Dense(LATENT, name=name)(x) for name in ("mean", "log_var")]
    return initialize(keras.Model(image, outputs, name="encoder"), seed)


def plain_encoder(seed=1):
    x = image = keras.Input(IMAGE_SHAPE)
    x = keras.layers.Dense(12, name="hidden")(keras.layers.Flatten()(x))
    x = keras.layers.Activation("silu")(keras.layers.BatchNormalization(momentum=0.5, name="norm")(x))
    x = keras.layers.Dense(LATENT, name="latent")(x)
    return initialize(keras.Model(image, x, name="encoder"), seed)


def head(seed=3, size=6):
    """A projector with batch normalization, so that its statistics are part of what is tested."""
    return projector(LATENT, (8, size), seed=seed)


def image_decoder(seed=2):
    x = latent = keras.Input((LATENT,))
    x = keras.layers.Dense(12, activation="silu", name="hidden")(x)
    x = keras.layers.Reshape(IMAGE_SHAPE)(keras.layers.Dense(int(np.prod(IMAGE_SHAPE)), name="logits")(x))
    return initialize(keras.Model(latent, x, name="decoder"), seed)


def vae_family(method, **arguments):
    return lambda views: method(posterior_encoder(), image_decoder(), views, **arguments)


def joint_embedding(method, with_head=False, **arguments):
    return lambda views: method(plain_encoder(), projector=head() if with_head else None, views=views, **arguments)


def predicting(method, **arguments):
    return lambda views: method(plain_encoder(), head(), predictor(6, 4, seed=4), views, **arguments)


def energy_model(method, **arguments):
    """Small steps: at the papers' 1, chains of twenty would blow rounding up beyond what backends can agree on."""
    settings = {"clusters": 5, "sgld_steps": 3, "step_size": 0.1, "buffer_size": 26, "restart": 0.2}
    return lambda views: method(plain_encoder(), projector=head(), views=views, **settings | arguments)


# name -> (views of each image, views layer -> model). One line is all a new method needs.
CASES = {
    "vae": (1, vae_family(methods.VAE)),
    "beta-vae": (2, vae_family(methods.BetaVAE, beta=2.0)),
    "cr-vae": (2, vae_family(methods.CRVAE)),
    "simvae": (3, vae_family(methods.SimVAE)),
    "simvae-gaussian-center": (3, vae_family(methods.SimVAE, center_variance=1.0, likelihood="bernoulli")),
    "simclr": (2, joint_embedding(methods.SimCLR)),
    "simclr-projector": (2, joint_embedding(methods.SimCLR, with_head=True)),
    "dcl": (2, joint_embedding(methods.DCL)),
    "dcl-weighted": (2, joint_embedding(methods.DCL, with_head=True, temperature=0.5, sigma=0.5)),
    "align-uniform": (2, joint_embedding(methods.AlignUniform)),
    "align-uniform-weighted": (2, joint_embedding(methods.AlignUniform, with_head=True, uniformity_weight=0.5, t=3.0)),
    "moco": (2, joint_embedding(methods.MoCo, with_head=True, queue_size=36, momentum=0.9)),
    "moco-symmetric": (2, joint_embedding(methods.MoCo, queue_size=72, momentum=0.9, symmetric=True)),
    "info-nce": (2, joint_embedding(methods.InfoNCE)),
    "info-nce-gaussian": (2, joint_embedding(methods.InfoNCE, with_head=True, critic="gaussian", symmetric=True)),
    "parametric-instance-discrimination": (
        3,
        joint_embedding(methods.ParametricInstanceDiscrimination, num_images=48, temperature=0.2),
    ),
    "instance-discrimination": (1, joint_embedding(methods.InstanceDiscrimination, num_images=48, with_head=True)),
    "instance-discrimination-drawn": (
        2,
        joint_embedding(methods.InstanceDiscrimination, num_images=48, negatives=20, temperature=0.2),
    ),
    "instance-discrimination-nce": (
        1,
        joint_embedding(methods.InstanceDiscrimination, num_images=48, negatives=20, temperature=0.5, form="nce"),
    ),
    "instance-discrimination-no-bank": (2, joint_embedding(methods.InBatchDiscrimination, temperature=0.2)),
    "ball": (1, joint_embedding(methods.Ball, num_images=48, neighbors=9, temperature=0.2)),
    "ball-annealed": (
        2,
        joint_embedding(methods.Ball, num_images=48, neighbors=9, temperature=0.2, anneal_steps=6, curve="exponential"),
    ),
    "annulus": (1, joint_embedding(methods.Annulus, num_images=48, neighbors=20, temperature=0.2, clusters=4)),
    "annulus-annealed": (
        1,
        joint_embedding(
            methods.Annulus, num_images=48, neighbors=9, temperature=0.2, clusters=None, inner=0.25, anneal_steps=7
        ),
    ),
    "local-aggregation": (
        1,
        joint_embedding(methods.LocalAggregation, num_images=48, neighbors=20, temperature=0.2, clusters=4),
    ),
    "cmc": (
        1,
        lambda views: methods.CMC(plain_encoder(), plain_encoder(5), 48, head(), head(7), views, temperature=0.2),
    ),
    "cmc-annulus": (
        2,
        lambda views: methods.CMC(
            plain_encoder(), plain_encoder(5), 48, views=views, neighbors=20, inner=0.3, temperature=0.2
        ),
    ),
    "vicreg": (2, joint_embedding(methods.VICReg)),
    "vicreg-projector": (2, joint_embedding(methods.VICReg, with_head=True)),
    "barlow-twins": (2, joint_embedding(methods.BarlowTwins, off_diagonal_weight=0.1)),
    "corinfomax": (2, joint_embedding(methods.CorInfoMax, invariance_weight=2.0, momentum=0.5)),
    "corinfomax-batch": (2, joint_embedding(methods.CorInfoMax, momentum=0.0, normalize=False)),
    "wmse": (3, lambda views: methods.WMSE(plain_encoder(), head(size=2), views, whitening_size=4, iterations=2)),
    "byol": (2, predicting(methods.BYOL, momentum=0.9, total_steps=8)),
    "simsiam": (2, predicting(methods.SimSiam)),
    "swav": (2, joint_embedding(methods.SwAV, prototypes=5, freeze_prototypes=2, temperature=0.5)),
    "swav-queue": (
        2,
        lambda views: methods.SwAV(
            plain_encoder(), 5, head(), views, Flips(3), queue_size=30, queue_start=3, freeze_prototypes=0, epsilon=0.5
        ),
    ),
    "protocpc": (2, joint_embedding(methods.ProtoCPC, with_head=True, prototypes=5, momentum=0.9)),
    "deepcluster": (2, lambda views: methods.DeepCluster(plain_encoder(), 48, 5, views)),
    "jem": (2, energy_model(methods.JEM)),
    "gedi": (2, energy_model(methods.GEDI)),
    "gedi-no-gen": (2, energy_model(methods.GEDI, generative_weight=0)),
    "gedi-no-inv": (2, energy_model(methods.GEDI, invariance_weight=0)),
    "gedi-no-prior": (2, energy_model(methods.GEDI, prior_weight=0)),
    "gedi-two-stage": (2, energy_model(methods.GEDI, generative_steps=3, temperature=0.5)),
    "ebclr": (
        2,
        joint_embedding(methods.EBCLR, with_head=True, temperature=1.0, sgld_steps=2, step_size=0.01, buffer_size=26),
    ),
    "ebclr-no-gen": (2, joint_embedding(methods.EBCLR, generative_weight=0)),
    "lejepa": (3, joint_embedding(methods.LeJEPA, with_head=True, slices=7)),
    "lejepa-local": (2, joint_embedding(methods.LeJEPA, slices=7, local_views=Flips(3))),
    "lejepa-global": (4, joint_embedding(methods.LeJEPA, slices=7, num_global=2, weight=0.5)),
    "visreg": (3, joint_embedding(methods.VISReg, with_head=True, slices=7)),
    "fastsiam": (3, predicting(methods.FastSiam)),
    "emp-ssl": (4, joint_embedding(methods.EMPSSL, with_head=True)),
    "mmcr": (3, joint_embedding(methods.MMCR, with_head=True, manifold_weight=0.01)),
    "frossl": (3, joint_embedding(methods.FroSSL, with_head=True)),
    "nnclr": (2, predicting(methods.NNCLR, queue_size=36)),
    "tico": (2, joint_embedding(methods.TiCo, with_head=True, momentum=0.9)),
    "dino": (2, joint_embedding(methods.DINO, with_head=True, prototypes=7, momentum=0.9, freeze_prototypes=2)),
    "dino-schedules": (3, joint_embedding(methods.DINO, prototypes=7, momentum=0.8, total_steps=6, warmup_steps=4)),
    "simdino": (3, joint_embedding(methods.SimDINO, with_head=True, momentum=0.9, total_steps=9)),
}

# Those with random numbers of their own, beside the views'.
DRAWING = {
    *("vae", "beta-vae", "cr-vae", "simvae", "simvae-gaussian-center", "cmc", "cmc-annulus", "wmse", "visreg"),
    *("instance-discrimination", "instance-discrimination-drawn", "instance-discrimination-nce"),
    *("jem", "gedi", "gedi-no-gen", "gedi-no-inv", "gedi-no-prior", "gedi-two-stage", "ebclr", "ebclr-no-gen"),
    *("lejepa", "lejepa-local", "lejepa-global"),
}

# name -> variables that a training step leaves alone, because something else is there to write them.
STILL = {"deepcluster": ("assignments", "cluster_weights"), "annulus": ("labels",), "local-aggregation": ("labels",)}


def images(n=48, seed=0):
    """Smooth random images (n, 8, 8, 1), uint8."""
    coarse = np.random.default_rng(seed).uniform(0, 256, size=(n, 4, 4, 1))
    return coarse.repeat(2, axis=1).repeat(2, axis=2).astype("uint8")


def inputs(model, n=48):
    """What `fit` takes for a method: images, and their places in the set where it wants to know them."""
    return {"images": images(n), "index": np.arange(n, dtype="int32")} if model.indexed else images(n)


def fixed_normal(shape, *args, **kwargs):
    """Stands in for `keras.random.normal` where backends must agree: a fixed pattern, mean about 0, variance 1/2."""
    count = ops.cumsum(ops.reshape(ops.ones(shape), (-1,)))
    return ops.reshape(ops.sin(1.7 * count), shape)


def fixed_randint(shape, minval, maxval, *args, **kwargs):
    """Stands in for `keras.random.randint` likewise: every seventh of the range, round and round."""
    count = ops.cumsum(ops.ones(shape, dtype="int32"))
    return minval + (7 * count) % (maxval - minval)


def fixed_uniform(shape, minval=0.0, maxval=1.0, *args, **kwargs):
    """Stands in for `keras.random.uniform`: a fixed pattern that covers the range."""
    count = ops.cumsum(ops.reshape(ops.ones(shape), (-1,)))
    return ops.reshape(minval + (maxval - minval) * (0.5 + 0.49 * ops.sin(2.3 * count)), shape)


class EightSteps:
    """A method after eight SGD steps without randomness: equal on every backend, and fitted once for many tests.

    With `thawed` it was frozen and unfrozen before.

    Attributes:
        model: the trained method, still compiled.
        before: its variables before training.
        arrays: terms per epoch and final variables, what a golden file holds.
    """

    def __init__(self, name, thawed=False):
        num_views, make = CASES[name]
        drawn = keras.random.normal, keras.random.randint, keras.random.uniform
        keras.random.normal, keras.random.randint, keras.random.uniform = fixed_normal, fixed_randint, fixed_uniform
        try:
            self.model = make(Flips(num_views))
            if thawed:
                self.model.trainable = False
                self.model.trainable = True
            self.before = state(self.model)
            self.model.compile(optimizer=keras.optimizers.SGD(1e-3, momentum=0.9))
            history = self.model.fit(inputs(self.model), batch_size=12, epochs=2, shuffle=False, verbose=0).history
            self.evaluated = self.model.evaluate(inputs(self.model, 12), batch_size=12, verbose=0, return_dict=True)
        finally:
            keras.random.normal, keras.random.randint, keras.random.uniform = drawn
        self.terms = history
        self.arrays = {
            **{f"term/{term}": np.array(values) for term, values in history.items()},
            **{f"weight/{i:03d}": array for i, array in enumerate(state(self.model))},
        }


def state(model):
    """Every variable as an array, but for the states of random generators."""
    return [ops.convert_to_numpy(w) for w in model.weights]


def encoded(model):
    """Representations of a few images, as an array."""
    return ops.convert_to_numpy(model.encode(images(7, seed=3)))
