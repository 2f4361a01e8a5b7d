"""What watches energy models: a guard that takes one back when it diverges, and the health of energies and clusters."""

import functools

import numpy as np
from keras import ops

from sslzoo import checks, processes
from sslzoo.errors import InvalidInputError, TrainingError
from sslzoo.losses import cluster_terms, log_density
from sslzoo.methods.compiled import Compiled, check_watched, predicted, watched_views
from sslzoo.methods.steps import Monitor, StepCounter


class DivergenceGuard(StepCounter):
    """Takes a model that diverges back to its last good state, and goes on with other random numbers.

    Every so many steps it looks at the reported loss and terms: finite and below `limit`, and the state of model and
    optimizer, replay buffer included, is kept; otherwise the state that was good a look before the last (what the last
    look kept may have been on its way out) is put back, all random generators get new seeds, and the metrics start
    anew. It stands before callbacks that act on losses which are not finite (`FiniteGuard`). A run resumed from a
    checkpoint has had the rollbacks that its history counts.

    Example:
        from sslzoo import callbacks

        guard = callbacks.DivergenceGuard(every=2)  # then: model.fit(images, callbacks=[guard])

    Args:
        every: int >= 1, steps between two looks, which wait for the device and copy the state.
        limit: float > 0, of the absolute loss; 1e8 is where JEM's code gives up.
        attempts: int >= 1, rollbacks before training is ended.

    Attributes:
        rollbacks: list of str, what happened and when. Their number stands in the logs of each epoch, `rollbacks`.

    Raises:
        TrainingError: after `attempts` rollbacks, at the next divergence; the model is in its last good state.
    """

    def __init__(self, every: int = 50, limit: float = 1e8, attempts: int = 3):
        super().__init__()
        self.every, self.attempts = checks.count(every=every, attempts=attempts)
        self.limit = checks.positive(limit=limit)
        self.rollbacks = []
        self._before = 0  # rollbacks of the run that this one goes on with

    def resume(self, rows):
        """Takes up how often a run was rolled back before it was interrupted, from the rows of its history."""
        self._before = int(rows[-1].get("rollbacks", 0)) if rows else 0

    @property
    def _count(self):
        return self._before + len(self.rollbacks)

    def on_train_begin(self, logs=None):
        self.rollbacks = []
        self._good = self._last = self._state()

    def on_epoch_begin(self, epoch, logs=None):
        super().on_epoch_begin(epoch, logs)
        self._epoch = epoch

    def on_steps(self, count, logs):
        if self.is_due(self.every):
            self._look(logs, f"epoch {self._epoch + 1}, step {self.done}")

    def on_epoch_end(self, epoch, logs=None):
        logs = {} if logs is None else logs
        if self.is_due(1):  # two looks without a step between would pass a spoiled state for good
            self._look(logs, f"the end of epoch {epoch + 1}")
        logs["rollbacks"] = float(self._count)

    def _look(self, logs, when):
        names = ("loss", *getattr(self._model, "terms", ()))
        values = {name: float(logs[name]) for name in names if name in (logs or {})}
        broken = [name for name, value in values.items() if not abs(value) <= self.limit]  # NaN is not
        if not broken:
            self._good, self._last = self._last, self._state()
            return
        message = f"{broken[-1]} = {values[broken[-1]]:.3g} at {when}"
        self._restore()
        for name in values:
            del logs[name]
        if self._count >= self.attempts:
            raise TrainingError(
                f"Training diverged again after {self.attempts} rollbacks. The model is in its last good state. Try a "
                "lower learning rate, energy_decay=0.1, more Langevin steps (sgld_steps), more noise on the "
                f"data, or a smooth activation (silu) in the encoder. Received: {message}"
            )
        self.rollbacks.append(message)
        print(f"\nDiverged ({message}): back to the last good state with new seeds, {self._count} of {self.attempts}.")

    def _state(self):
        # `self.model`, not `self._model`: under JAX the access writes the trained state back into the variables.
        return [np.array(ops.convert_to_numpy(variable)) for variable in _variables(self.model)]

    def _restore(self):
        model, attempt = self.model, self._count + 1
        for variable, value in zip(_variables(model), self._good):
            if variable.name == "seed_generator_state":
                value = np.array([(int(value[0]) + 1_000_003 * attempt) % 2**31, value[1]], value.dtype)
            variable.assign(value)
        self._last = self._good
        model.reset_metrics()


class EnergyHealth(Monitor):
    """Shows where data and samples lie in energy, how clusters are used, and how far each term is from its optimum.

    At the end of an epoch, in inference mode and without noise, in the logs:

    | key | what | healthy |
    |---|---|---|
    | `energy_data` | mean energy -f(x) of the images | |
    | `energy_samples` | mean energy of 512 images of the replay buffer | |
    | `energy_gap` | the latter minus the former | small beside what energies were at first; not growing for ever |
    | `clusters_used` | perplexity of the mean assignment, 1..K | near K |
    | `invariance_excess` | invariance, unweighted, over its optimum 0 | near 0; log K where views fall anywhere |
    | `prior_excess` | prior term, unweighted, over its optimum log K | near 0; more where few clusters have all |

    The last three are of `GEDI` and `JEM`, and tell their failures apart. Energies of `EBCLR` are up to the images x
    may be a view of, the same ones here.

    Args:
        images: raw images (N, H, W, C), 0..255, N >= 2; 512 are enough. Or ready-made views (N, J, H, W, C), of which
            the first is the image.
        every: int >= 1, epochs between two looks; the last of all `epochs` is always looked at.
        seed: int, of the augmented views, drawn once.

    Example:
        import numpy as np
        from sslzoo import callbacks

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        health = callbacks.EnergyHealth(images[:32])  # then: model.fit(images, callbacks=[health])

    Raises:
        InvalidInputError: an argument out of range; at the start of training, a model that is no energy model.
    """

    def __init__(self, images: np.ndarray, every: int = 1, seed: int = 0):
        super().__init__(every)
        check_watched(images)
        self.images, self.seed = images, checks.seed(needed=True, seed=seed)

    def on_train_begin(self, logs=None):
        model = self.model
        if not hasattr(model, "log_density_of_views"):
            raise InvalidInputError(f"EnergyHealth watches energy models. Received: {type(model).__name__}")
        with processes.alone(model):
            views = watched_views(model, self.images, self.seed)
            self._x, self._view = views[0], views[-1]
            if np.ndim(self.images) == 4:
                self._x, self._view = ops.convert_to_numpy(model.prepare(self.images)), views[0]
        self._embeddings = Compiled(model, functools.partial(model.embed, training=False))
        self._rows = None
        if model.generates:
            self._rows = np.linspace(0, model.buffer_size - 1, min(512, model.buffer_size)).astype(int)

    def measure(self):
        model, measures = self.model, {}
        z = self._embed(self._x)
        measures["energy_data"] = -self._density(z, z)
        if self._rows is not None:
            samples = ops.convert_to_numpy(ops.take(ops.convert_to_tensor(model.buffer), self._rows, axis=0))
            measures["energy_samples"] = -self._density(self._embed(samples), z)
            measures["energy_gap"] = measures["energy_samples"] - measures["energy_data"]
        if getattr(model, "clusters", 1) > 1 and np.isfinite(z).all():
            terms = cluster_terms(z, self._embed(self._view))
            invariance, prior = (float(ops.convert_to_numpy(terms[name])) for name in ("invariance", "prior"))
            shares = ops.convert_to_numpy(ops.softmax(z)).mean(axis=0).astype("float64")
            measures["clusters_used"] = float(np.exp(-np.sum(shares * np.log(np.maximum(shares, 1e-300)))))
            measures["invariance_excess"] = invariance
            measures["prior_excess"] = prior - float(np.log(model.clusters))
        return measures

    def _embed(self, views):
        return predicted(self._embeddings, views, 256)

    def _density(self, z, others):
        """Mean f of embeddings, which EBCLR's is beside those of others."""
        density = log_density(z) if hasattr(self.model, "clusters") else self.model._density(z, others)
        return float(ops.convert_to_numpy(ops.mean(density)))


def _variables(model):
    return [*model.variables, *model.optimizer.variables]
