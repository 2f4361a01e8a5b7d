"""How well the clusters of an energy model agree with classes, without a probe."""

from sslzoo.evaluation.features import features
from sslzoo.evaluation.protocols.gmm import beside_chance
from sslzoo.evaluation.protocols.protocol import Number, Protocol, Result

MINIBATCH = 100


class Clusters(Protocol):
    """NMI and Hungarian accuracy of the largest output of the head; and the same averaged over batches of 100."""

    name, title = "clusters", "clusters"
    needs = ("labels", "method")
    parts = ("projection",)

    def check(self, subject):
        subject.check_method(self)

    def run(self, subject):
        head, images = subject.parts["projection"], subject.test_images
        clusters = features(head, images, subject.batch_size, subject.progress(self.title)).argmax(axis=1)
        whole, batches = beside_chance(subject.test_classes, clusters, MINIBATCH, subject.seed)
        averaged = f"mean over batches of {MINIBATCH}, as the GEDI paper's tables appear to be"
        numbers = {}
        for kind, scores, note in (
            ("", whole, "the model's own clusters, no probe"),
            (f"minibatch{MINIBATCH}_", batches, averaged),
        ):
            for metric, label in (("nmi", "NMI"), ("accuracy", "Hungarian accuracy")):
                numbers[kind + metric] = Number(scores[metric][0], label, note, scores[metric][1])
        return Result(numbers, {"clusters": head.output_shape[-1], "minibatch": MINIBATCH})
