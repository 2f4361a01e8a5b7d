"""Counting the steps of training, for every callback that acts between them."""

import keras


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
