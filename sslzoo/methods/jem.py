"""JEM: a classifier without labels, read as the density of its inputs."""

from sslzoo.methods.energy_model import ClusterEnergyModel
from sslzoo.methods.papers import GEDI


class JEM(ClusterEnergyModel):
    """JEM without labels: maximum likelihood of an energy model, f(x) = log sum_y exp(t_y(x)).

    loss = mean f(x_q) - mean f(x),   x_q samples of the model, constants

    with t the logits of a network, t_y(x) = u_y . g(x) / temperature. `generative` raises the density of images and
    lowers it where the model's own samples go: the reconstruction, without a decoder. It is the only term, so nothing
    pulls the views of an image together, and nothing keeps the clusters argmax_y t_y apart: all images in one of them
    is as good as any other way (the paper's NMI is 0.00). It is the baseline of `GEDI`.

    Training may diverge, as that of energy models does: see `sslzoo.callbacks.DivergenceGuard`.

    Args:
        encoder, clusters, projector, temperature, energy_decay: as in `ClusterEnergyModel`. The papers' encoder is
            "resnet8-gedi".
        views: `sslzoo.views.Views` with any number of views, all of them data, or None.

    Reference:
        Grathwohl et al., "Your Classifier is Secretly an Energy Based Model and You Should Treat it Like One"; without
        labels as the baseline of the GEDI paper (arXiv 2401.00873), section 6.
    """

    papers = ("https://arxiv.org/abs/1912.03263", GEDI)
    terms = {"generative": "density"}

    def __init__(self, encoder, clusters, projector=None, views=None, **kwargs):
        super().__init__(encoder, clusters, projector, views, **kwargs)
        self.make_buffer()

    def objective(self, images, outputs, training):
        return {"generative": self.generative_term(outputs)}
