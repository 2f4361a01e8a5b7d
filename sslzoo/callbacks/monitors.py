"""What watches a representation while it trains: neighbors, health, and whether the loss is a number."""

import functools
import warnings
from collections.abc import Sequence

import keras
import numpy as np

from sslzoo import checks, processes
from sslzoo.callbacks import health
from sslzoo.callbacks.ending import EndsTraining
from sslzoo.data.labels import check_labels
from sslzoo.errors import InvalidInputError, TrainingError
from sslzoo.evaluation import knn_accuracy
from sslzoo.evaluation.features import check_images
from sslzoo.methods.advice import advise
from sslzoo.methods.compiled import Compiled, check_watched, predicted, watched_views
from sslzoo.methods.pretrainer import Pretrainer, full_precision
from sslzoo.methods.steps import Monitor, StepCounter


class KNNMonitor(Monitor):
    """kNN accuracy of the representations as `knn` in the logs, on labeled images of its own.

    A bank and queries are held out of the *training* split, seen without augmentation; test data is never touched.
    10,000 bank and 2,000 query images of MNIST take about a second.

    Example:
        import numpy as np
        from sslzoo import callbacks, methods, networks, views

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10)
        model = methods.SimCLR(encoder, views=views.Views("simvae-digits", 2))
        model.compile("adam")
        labels = np.arange(64) % 10
        live = model.live_encoder((8, 8, 1))
        watch = callbacks.KNNMonitor(live, (images[:48], labels[:48]), (images[48:], labels[48:]), k=5)
        model.fit(images, batch_size=16, verbose=0, callbacks=[watch])

    Args:
        encoder: Keras model, raw images -> (N, L), that shares its variables with the model in training
            (`Pretrainer.live_encoder`).
        bank: (images, labels), raw (N, H, W, C) and int (N,): what neighbors are taken from.
        queries: (images, labels), likewise: what is classified.
        every: int, epochs between two looks; the last of all `epochs` is always looked at.
        k: int, neighbors, or as many as the bank has; cosine distance, majority vote.

    Raises:
        InvalidInputError: images that the encoder does not take; labels that are not one integer an image; `k` below 1.
    """

    def __init__(self, encoder: keras.Model, bank: tuple, queries: tuple, every: int = 1, k: int = 10):
        super().__init__(every)
        for name, (images, labels) in (("bank", bank), ("queries", queries)):
            if (remark := check_images(encoder, images, name)) is not None:
                warnings.warn(remark, stacklevel=2)
            check_labels(labels, len(images), f"{name} labels", negative=True)
        self.encoder = encoder
        self.bank, self.queries = bank, queries
        self.k = checks.count(k=k)

    def measure(self):
        bank, queries = (predicted(self.encoder, images) for images in (self.bank[0], self.queries[0]))
        if not (np.isfinite(bank).all() and np.isfinite(queries).all()):
            return {}  # FiniteGuard speaks of it, by the name of the term
        return {"knn": knn_accuracy(bank, self.bank[1], queries, self.queries[1], min(self.k, len(bank)), "cosine")}


class Health(EndsTraining, Monitor):
    """Shows whether the representation is alive, warns of collapse in one sentence, and can end the run for it.

    At the end of an epoch two views of the same few images are embedded, and measured in the logs
    (`sslzoo.evaluation.measures` has the definitions):

    | key | what | healthy |
    |---|---|---|
    | `chance` | loss of a model that distinguishes nothing (`Pretrainer.chance_level`) | above `loss` |
    | `health_std` | standard deviation of normalized features, x sqrt(D) | near 1 *; 0 is complete collapse |
    | `health_rank` | effective rank of what the loss compares | many of D |
    | `health_encoder_rank` | effective rank of the encoder's features, where a head follows them | many of L |
    | `health_alignment` | squared distance of two views of an image | small, 0..4 |
    | `health_uniformity` | log mean Gaussian potential of different images | -2 to -4 * |
    | `health_prototypes` | share of clusters or prototypes in use | near 1 |

    * where the loss compares directions. Others (VICReg, Barlow Twins, W-MSE, SimVAE) do not see an offset that all
    features share, and may do well at a third of that.

    All but `health_encoder_rank` are of what the loss compares (`Pretrainer.embed`). Views are drawn once, from `seed`,
    and nothing of the model moves, so a run with this callback trains the same weights as one without.

    A sign of collapse that shows at `patience` looks in a row, none of them a fifth better than the one before, is
    warned of (`CollapseWarning`): the gravest only, and again only when it has become ten times worse. The first
    `grace` steps are not judged, since untrained networks often look collapsed. Features with NaN are reported at once.

    Example:
        import numpy as np
        from sslzoo import callbacks, methods, networks, views

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10)
        model = methods.SimCLR(encoder, views=views.Views("simvae-digits", 2))
        model.compile("adam")
        model.fit(images, batch_size=16, verbose=0, callbacks=[callbacks.Health(images[:32], batch_size=16)])

    Args:
        images: raw images (N, H, W, C), 0..255, without labels; 512 are enough. The most an effective rank can be is N.
            Or ready-made views (N, J, H, W, C), of which the first two are taken, for a model without `views`.
        every: int, epochs between two looks; the last of all `epochs` is always looked at.
        stop: int, looks in a row after which a sign ends the run cleanly, after this epoch's other callbacks.
            0 or False: never.
        patience: int, looks in a row after which a sign is warned of.
        grace: int, training steps before the first look that is judged.
        batch_size: int, images per training step, on which the chance level depends; None: no `chance`.
        seed: int, of the views.

    Attributes:
        warnings: list of str, every sentence of this run.

    Raises:
        InvalidInputError: an argument out of range; at the start of training, a model that is no `Pretrainer`, or
            images that do not fit it.
    """

    ROWS = 256  # views embedded at once

    def __init__(
        self,
        images: np.ndarray,
        every: int = 1,
        stop: int = 0,
        patience: int = 3,
        grace: int = 200,
        batch_size: int | None = None,
        seed: int = 0,
    ):
        super().__init__(every)
        check_watched(images)
        checks.count(patience=patience)
        checks.count(0, stop=stop or 0, grace=grace)
        if batch_size is not None:
            checks.count(batch_size=batch_size)
        self.images = images
        self.stop, self.patience, self.grace = stop, patience, grace
        self.batch_size = batch_size
        self.seed = checks.seed(needed=True, seed=seed)
        self.warnings = []
        self._embed = None

    def on_train_begin(self, logs=None):
        self.warnings, self.ended, self.reason = [], None, None
        self._in_a_row, self._left, self._told = {}, {}, {}
        if self._embed is not None and self._embed.owner is self.model:
            return
        if not isinstance(self.model, Pretrainer):
            raise InvalidInputError(
                "Health watches subclasses of `sslzoo.methods.Pretrainer`, which say what their loss compares. "
                f"Received: model of type {type(self.model).__name__}"
            )
        with processes.alone(self.model):
            self._views = watched_views(self.model, self.images, self.seed)
        check_images(self.model.encoder, self._views[0], "views of images")
        self._embed = Compiled(self.model, functools.partial(_outputs, self.model))

    def on_measured(self, epoch, measures, logs):
        loss, chance = logs.get("loss"), None
        if self.batch_size is not None:
            chance = self.model.chance_level(self.batch_size)
        if chance is not None:
            logs["chance"] = chance
        for name in ("std", "rank", "encoder_rank", "alignment", "uniformity", "prototypes"):
            if name in measures:
                logs[f"health_{name}"] = measures[name]
        self._judge(epoch + 1, measures, loss, chance)

    def _judge(self, epoch, measures, loss, chance):
        shown = health.signs(measures, loss, chance)
        if epoch * (self.params["steps"] or self.grace) < self.grace and "not finite" not in shown:
            return
        for sign, left in shown.items():  # an early epoch may look like a collapse that training is just leaving
            better = left > 1.2 * self._left.get(sign, float("inf"))
            self._in_a_row[sign] = 1 if better else self._in_a_row.get(sign, 0) + 1
        self._in_a_row = {sign: self._in_a_row[sign] for sign in shown}
        self._left = shown
        lasting = [sign for sign in shown if self._in_a_row[sign] >= self.patience or sign == "not finite"]
        if lasting and shown[lasting[0]] < 0.1 * self._told.get(lasting[0], float("inf")):
            self._told[lasting[0]] = shown[lasting[0]]
            self.warnings.append(self._sentence(lasting[0], measures, epoch, loss, chance))
            warnings.warn(self.warnings[-1], health.CollapseWarning, stacklevel=2)
        ended = [sign for sign in shown if self.stop and self._in_a_row[sign] >= self.stop]
        if ended:
            sentence = self._sentence(ended[0], measures, epoch, loss, chance)
            self.end("collapse", f"Training was stopped by --stop-on-collapse. {sentence}")

    def measure(self):
        rows, stacked = len(self._views[0]), np.concatenate(self._views)
        size = min(self.ROWS, len(stacked))
        batches = [stacked[start : start + size] for start in range(0, len(stacked), size)]
        # Every call has one shape, so the model is compiled once.
        batches[-1] = np.resize(batches[-1], (size, *stacked.shape[1:]))
        outputs = [self._embed.predict_on_batch(batch) for batch in batches]
        arrays = {name: np.concatenate([output[name] for output in outputs])[: len(stacked)] for name in outputs[0]}
        embedded, encoded = arrays["embedded"], arrays["encoded"][:rows]
        has_head = encoded.shape[1] != embedded.shape[1] or not np.allclose(encoded, embedded[:rows], equal_nan=True)
        return health.measure(
            embedded[:rows],
            embedded[rows:] if len(embedded) > rows else None,
            encoded if has_head else None,
            arrays.get("probabilities"),
        )

    def _sentence(self, sign, measures, epoch, loss, chance):
        """What is wrong, in words, with the method's own advice."""
        return health.sentence(sign, measures, epoch, loss, chance, advise(self.model, sign))


def _outputs(method, views):
    """What a look needs of views (N, H, W, C): embeddings, the features before the head, and probabilities, if any."""
    probabilities = method.cluster_probabilities(views)
    return {
        "embedded": full_precision(method.embed(views, training=False)),
        "encoded": full_precision(method.representation(views, training=False)),
        **({} if probabilities is None else {"probabilities": full_precision(probabilities)}),
    }


class FiniteGuard(StepCounter):
    """Stops a run whose loss is no longer a finite number, and says which term it was.

    Example:
        from sslzoo import callbacks, methods

        guard = callbacks.FiniteGuard(methods.SimCLR.terms, every=2)  # then: model.fit(images, callbacks=[guard])

    Args:
        terms: names of the loss terms.
        every: int >= 1, steps between two looks, at least. A look waits for the device, so it is not free.

    Raises:
        InvalidInputError: `every` below 1.
        TrainingError: in training, a term or the loss that is not finite.
    """

    def __init__(self, terms: Sequence[str], every: int = 50):
        super().__init__()
        self.terms = tuple(terms)
        self.every = checks.count(every=every)

    def on_steps(self, count, logs):
        if self.is_due(self.every):
            self.check(logs, f"step {self.done}")

    def on_epoch_end(self, epoch, logs=None):
        self.check(logs, f"the end of epoch {epoch + 1}")

    def check(self, logs, when):
        values = {name: float(logs[name]) for name in (*self.terms, "loss") if name in (logs or {})}
        broken = [name for name, value in values.items() if not np.isfinite(value)]
        if broken:
            raise TrainingError(
                f"The loss stopped being finite at {when}: expected finite terms (try a lower learning rate, or "
                f"float32). The last good checkpoint was kept. Received: {broken[0]}={values[broken[0]]}"
            )
