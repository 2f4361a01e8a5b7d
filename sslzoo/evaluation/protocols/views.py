"""A linear probe trained on features of augmented images."""

import dataclasses
from typing import ClassVar

import keras

from sslzoo.evaluation.features import features
from sslzoo.evaluation.number import Number
from sslzoo.evaluation.probes import train_probe_on_views
from sslzoo.evaluation.protocols.protocol import DoesNotApply, Protocol, Result


@dataclasses.dataclass
class Views(Protocol):
    """Logistic regression by SGD on new views of the train images in each epoch, tested on images as they are.

    Args:
        views_epochs: int.
    """

    name: ClassVar[str] = "views"
    title: ClassVar[str] = "linear probe on views"
    needs: ClassVar[tuple[str, ...]] = ("labels", "method")

    views_epochs: int = 30

    def check(self, subject):
        subject.check_shared_classes()
        if subject.method.views is None or subject.attributes is not None:
            raise DoesNotApply(
                "A probe on views takes a method with views, and classes",
                f"views={subject.method.views!r}" + ", attributes" * (subject.attributes is not None),
            )

    def run(self, subject):
        method, shape = subject.method, subject.train_images.shape[1:]
        images = keras.Input(shape)
        view = method.views(images, training=True, num_views=1)[:, 0]
        network = keras.Model(images, method.representation(view))  # new views at every call
        trained = train_probe_on_views(
            lambda epoch: features(network, subject.train_images),
            subject.train_classes,
            features(method.live_encoder(shape), subject.test_images),
            subject.test_classes,
            subject.num_classes,
            self.views_epochs,
            seed=subject.seed,
            progress=subject.progress(self.title),
        )
        note = f"SGD 0.01, momentum 0.9, {self.views_epochs} epochs of new views, after the last epoch"
        value = float(trained.accuracies[-1])
        return Result(
            {"accuracy": Number(value, "accuracy", note, subject.majority)},
            {"optimizer": "SGD", "learning_rate": 0.01, "momentum": 0.9, "epochs": self.views_epochs},
        )
