"""A linear probe trained on features of augmented images."""

import dataclasses

import keras

from sslzoo.evaluation.features import features
from sslzoo.evaluation.probes import train_probe_on_views
from sslzoo.evaluation.protocols.protocol import DoesNotApply, Number, Protocol, Result


class _OneView(keras.layers.Layer):
    """A random view of each image, in `predict` too, whose `training=False` replaces what a graph was made with."""

    def __init__(self, views):
        super().__init__(dtype="float32")
        self.views = views

    def call(self, images):
        return self.views(images, training=True, num_views=1)[:, 0]


@dataclasses.dataclass
class Views(Protocol):
    """Logistic regression by SGD on new views of the train images in each epoch, tested on images as they are.

    Args:
        views_epochs: int.
    """

    name, title = "views", "linear probe on views"
    needs = ("labels", "method")

    views_epochs: int = 30

    def check(self, subject):
        subject.check_shared_classes()
        if subject.method.views is None:
            raise DoesNotApply("A probe on views takes a method with views", "views=None")

    def run(self, subject):
        method, shape = subject.method, subject.train_images.shape[1:]
        images = keras.Input(shape)
        network = keras.Model(images, method.representation(_OneView(method.views)(images)))  # new ones at every call
        test = features(method.live_encoder(shape), subject.test_images), subject.test_classes

        def draw(epoch):
            return features(network, subject.train_images)

        classes, options = subject.num_classes, {"seed": subject.seed, "progress": subject.progress(self.title)}
        trained = train_probe_on_views(draw, subject.train_classes, *test, classes, self.views_epochs, **options)
        note = f"SGD 0.01, momentum 0.9, {self.views_epochs} epochs of new views, after the last epoch"
        accuracy = Number(float(trained.accuracies[-1]), "accuracy", note, subject.majority)
        settings = {"optimizer": "SGD", "learning_rate": 0.01, "momentum": 0.9, "epochs": self.views_epochs}
        return Result({"accuracy": accuracy}, settings)
