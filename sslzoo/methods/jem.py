"""JEM: a classifier without labels, read as the density of its inputs."""

import keras

from sslzoo.methods.energy_model import ClusterEnergyModel


@keras.saving.register_keras_serializable("sslzoo")
class JEM(ClusterEnergyModel):
    """JEM without labels: maximum likelihood of an energy model, f(x) = log sum_y exp(t_y(x)).

    loss = mean f(x_q) - mean f(x),   x_q samples of the model, constants

    with t the logits of a network, t_y(x) = u_y . g(x) / temperature. `generative` raises the density of images and
    lowers it where the model's own samples go: the reconstruction, without a decoder. It is the only term, so nothing
    pulls the views of an image together, and nothing keeps the clusters argmax_y t_y apart: all images in one of them
    is as good as any other way (the paper's NMI is 0.00). It is what `GEDI` is held against.

    Training may diverge, as that of energy models does: see `sslzoo.callbacks.DivergenceGuard`.

    Example:
        import numpy as np
        from sslzoo import methods, networks, views

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("resnet8-gedi", (8, 8, 1), None, width=8)
        one = views.Views("gedi-mnist", 1)
        model = methods.JEM(encoder, clusters=4, views=one, buffer_size=64, sgld_steps=2)
        model.compile("adam")
        model.fit(images, batch_size=16, verbose=0)

    Args:
        encoder, clusters, projector, temperature, energy_decay: as in `ClusterEnergyModel`. The papers' encoder is
            "resnet8-gedi".
        views: `sslzoo.views.Views` with any number of views, all of them data, or None.
        sgld_steps, step_size, noise, buffer_size, restart, sample_range, clip, seed: as in `EnergyModel`.

    Reference:
        Grathwohl et al., "Your Classifier is Secretly an Energy Based Model and You Should Treat it Like One"; without
        labels as the baseline of the GEDI paper (arXiv 2212.13425), section 6.
    """

    papers = (
        {
            "title": "Your Classifier is Secretly an Energy Based Model and You Should Treat it Like One",
            "url": "https://arxiv.org/abs/1912.03263",
        },
        {
            "title": "Unifying Self-Supervised Clustering and Energy-Based Models",
            "url": "https://arxiv.org/abs/2212.13425",
        },
    )
    terms = ("generative",)
    roles = ("density",)

    def __init__(
        self,
        encoder: keras.Model,
        clusters: int,
        projector: keras.Model | None = None,
        views: keras.Layer | None = None,
        temperature: float = 1.0,
        energy_decay: float = 0.0,
        sgld_steps: int = 20,
        step_size: float = 1.0,
        noise: float = 0.01,
        buffer_size: int = 10_000,
        restart: float = 0.05,
        sample_range: tuple[float, float] = (-1.0, 1.0),
        clip: float | None = None,
        seed: int = 0,
        **kwargs,
    ):
        super().__init__(
            encoder,
            clusters,
            projector,
            views,
            temperature,
            energy_decay,
            sgld_steps,
            step_size,
            noise,
            buffer_size,
            restart,
            sample_range,
            clip,
            seed,
            **kwargs,
        )
        self.buffer = self.make_buffer()

    def objective(self, images, outputs, training):
        return {"generative": self.generative_term(outputs)}
