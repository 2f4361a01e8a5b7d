"""CMC: two modalities of one crop, its lightness and its color, each of which is to find the other's memory."""

import keras
from keras import ops

from sslzoo.errors import InvalidInputError
from sslzoo.losses import unit
from sslzoo.methods.memory_bank import MemoryBank
from sslzoo.methods.papers import MUTUAL_INFORMATION
from sslzoo.methods.pretrainer import full_precision
from sslzoo.networks.composition import as_network


class CMC(MemoryBank):
    """Contrastive multiview coding: instance discrimination twice, with the memory banks of two modalities swapped.

    loss = X(v_L; M_ab) + X(v_ab; M_L)

    with v_L and v_ab what two networks make of the lightness and of the color of one view, each remembered in a bank
    of its own, and X the loss of `InstanceDiscrimination` (`negatives`), `Ball` (`neighbors`) or `Annulus` (`clusters`
    or `inner`), by the settings given. `alignment` pulls the lightness of an image towards the memory of its colors
    and the other way round, `contrast` pushes it from those of other images. Neighbors and clusters are those of the
    bank that is compared with.

    The two networks see the same view, of policy "mi-cifar10-lab", and pick their channels themselves
    (`networks.on_part`); of gray images any two parts will do. The representation is both, side by side.

    Args:
        lightness, color: built models, view (N, H, W, 3) -> representation (N, L).
        lightness_projector, color_projector: built models, (N, L) -> (N, P), or None.
        num_images, views, negatives, **kwargs: as in `MemoryBank`.

    Reference:
        Tian, Krishnan and Isola, "Contrastive Multiview Coding"; Wu et al., "On Mutual Information in Contrastive
        Learning for Visual Representations", eq. 3.
    """

    papers = ("https://arxiv.org/abs/1906.05849", MUTUAL_INFORMATION)
    without = ("encoder", "projector")

    def __init__(
        self,
        lightness,
        color,
        num_images,
        lightness_projector=None,
        color_projector=None,
        views=None,
        negatives=4096,
        **kwargs,
    ):
        lightness, color = as_network("lightness", lightness), as_network("color", color)
        super().__init__(side_by_side(lightness, color), num_images, None, views, negatives=negatives, **kwargs)
        self.lightness, self.color = lightness, color
        self.lightness_projector = self.checked_head("lightness_projector", lightness_projector, lightness)
        self.color_projector = self.checked_head("color_projector", color_projector, color)
        sizes = [(head or network).output_shape[-1] for network, head in self._streams()]
        if sizes[0] != sizes[1]:
            raise InvalidInputError(
                "Both modalities must be embedded in as many numbers, to be compared. "
                f"Received: lightness in {sizes[0]}, color in {sizes[1]}"
            )
        self.lightness_bank = self.make_bank(sizes[0], self.seed, "lightness_bank")
        self.color_bank = self.make_bank(sizes[0], self.seed + 1, "color_bank")

    def make_banks(self):
        """Not yet: their size is that of the projectors, which come later."""

    def _streams(self):
        """Network and head of each modality."""
        return (self.lightness, self.lightness_projector), (self.color, self.color_projector)

    @property
    def embedding_dim(self) -> int:
        """Size of both embeddings together."""
        return 2 * (self.lightness_projector or self.lightness).output_shape[-1]

    def embed(self, views, training=False):
        """Embeddings of views (N, H, W, C), of unit length each, lightness then color: float tensor (N, 2 P)."""
        embeddings = []
        for network, head in self._streams():
            features = network(views, training=training)
            features = features if head is None else head(features, training=training)
            embeddings.append(unit(full_precision(features)))
        return ops.concatenate(embeddings, axis=1)

    def banks(self):
        size = self.embedding_dim // 2
        return [(slice(0, size), self.lightness_bank), (slice(size, None), self.color_bank)]

    def compared(self):
        (lightness, lightness_bank), (color, color_bank) = self.banks()
        return [(lightness, color_bank), (color, lightness_bank)]


def side_by_side(lightness: keras.Model, color: keras.Model) -> keras.Model:
    """One model of both networks: view (N, H, W, C) -> their representations, concatenated."""
    if lightness.input_shape != color.input_shape:
        raise InvalidInputError(
            "Both networks must take the same views; `networks.on_part` lets each look at a part of them. "
            f"Received: lightness of {lightness.input_shape}, color of {color.input_shape}"
        )
    view = keras.Input(lightness.input_shape[1:], name="view")
    named = {"lightness": lightness, "color": color}  # Keras wants names apart inside a model
    named = [keras.Model(network.input, network.output, name=name) for name, network in named.items()]
    both = keras.layers.Concatenate(name="features")([network(view) for network in named])
    return keras.Model(view, both, name="encoder")
