"""What callbacks share: counting the steps of training, and looking at the model every few epochs."""

import keras

from sslzoo import checks, processes


class StepCounter(keras.callbacks.Callback):
    """Counts the steps of an epoch. Keras calls once for several fused steps, and as if the last program were full.

    A subclass says in `on_steps` what it does with them.

    Attributes:
        done: int, steps of this epoch so far.
    """

    done = _looked = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.done = self._looked = 0

    def on_train_batch_end(self, batch, logs=None):
        before = self.done
        self.done = min(batch + 1, (self.params or {}).get("steps") or batch + 1)
        self.on_steps(self.done - before, logs)

    def on_steps(self, count, logs):
        """`count` more steps are done; `logs` are those of the last."""

    def is_due(self, every: int) -> bool:
        """Whether `every` steps or more were made since this was last the case."""
        due = self.done - self._looked >= every
        self._looked = self.done if due else self._looked
        return due


class Monitor(keras.callbacks.Callback):
    """Measures the model at the end of every so many epochs, and of the last of all that `fit` was to make, and logs
    what it found.

    A subclass measures. Of several processes each measures for itself, and what the first finds counts.

    Args:
        every: int >= 1, epochs between two looks.
    """

    def __init__(self, every: int = 1):
        super().__init__()
        self.every = checks.count(every=every)

    def measure(self) -> dict[str, float]:
        """What is found, by the names in the logs."""
        raise NotImplementedError

    def on_measured(self, epoch, measures, logs) -> None:
        """After `epoch` + 1 epochs."""
        logs.update(measures)

    def on_epoch_end(self, epoch, logs=None):
        if epoch + 1 != self.params["epochs"] and (epoch + 1) % self.every:
            return
        with processes.alone(self.model):  # under JAX, asking for the model writes the trained state back into it
            measures = self.measure()
        measures = dict(zip(measures, processes.of_first(list(measures.values()))))
        self.on_measured(epoch, measures, {} if logs is None else logs)
