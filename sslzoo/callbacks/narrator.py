"""What a run prints while it trains: one line at a terminal that says how far it is, and one for each epoch."""

import shutil
import sys
import time
from collections.abc import Sequence

import keras

from sslzoo.callbacks.checkpoint import duration
from sslzoo.progress import say


class Narrator(keras.callbacks.Callback):
    """Prints each epoch's figures, once, in one line; at a terminal, too, how far the epoch is.

    At a terminal no line is wider than it is: what does not fit is left out, the least important first. The journal has
    everything. Elsewhere (log files, notebooks) lines are whole. Pass `verbose=0` to `fit`, and put this last.

    Example:
        import numpy as np
        from sslzoo import callbacks, methods, networks, views

        images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 1)).astype("uint8")
        encoder = networks.encoder("mlp-small", (8, 8, 1), 10)
        model = methods.SimCLR(encoder, views=views.Views("simvae-digits", 2))
        model.compile("adam")
        model.fit(images, batch_size=16, epochs=2, verbose=0, callbacks=[callbacks.Narrator(model.terms)])

    Args:
        terms: names of the loss terms.
        speakers: callbacks whose attribute `said`, if it holds a sentence after an epoch, is printed.
    """

    EVERY = 0.1  # seconds between two changes of the line
    UNWATCHED = 60.0  # seconds between two lines within an epoch where there is no terminal

    def __init__(self, terms: Sequence[str], speakers: Sequence[keras.callbacks.Callback] = ()):
        super().__init__()
        self.terms = tuple(terms)
        self.speakers = tuple(speakers)

    def on_epoch_begin(self, epoch, logs=None):
        self._head = f"epoch {epoch + 1}/{self.params['epochs']}"
        self._began = self._shown = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        now, live = time.monotonic(), sys.stdout.isatty()
        if now - self._shown < (self.EVERY if live else self.UNWATCHED):
            return
        self._shown = now
        steps = self.params["steps"]
        done = min(batch + 1, steps or batch + 1)
        parts = [f"{self._head}, step {done:,}" + (f" of {steps:,}" if steps else "")]
        if "loss" in (logs or {}):
            parts.append(f"loss {float(logs['loss']):.4g}")
        if steps:
            parts.append(f"{duration((now - self._began) / done * (steps - done))} left")
        if live:
            line = _within(parts, _width())
            sys.stdout.write("\r" + line + " " * (_width() - len(line)) + "\r")
            sys.stdout.flush()
        else:
            print(", ".join(parts), flush=True)

    def on_epoch_end(self, epoch, logs=None):
        parts = [f"{duration(time.monotonic() - self._began)}", *figures(logs or {}, self.terms)]
        head = f"{self._head}: "
        say(head + (_within(parts, _width() - len(head)) if sys.stdout.isatty() else ", ".join(parts)))
        for speaker in self.speakers:
            if getattr(speaker, "said", None):
                say(speaker.said)
                speaker.said = None


def figures(logs: dict, terms: Sequence[str]) -> list[str]:
    """What an epoch came to, the most important first: each figure in words, once."""
    logs = {name: float(value) for name, value in logs.items()}
    told = []
    if "loss" in logs:
        chance = f" (chance {logs['chance']:.4g})" if "chance" in logs else ""
        told.append(f"loss {logs['loss']:.4g}{chance}")
    if "knn" in logs:
        told.append(f"kNN {100 * logs['knn']:.1f} %")
    for name, word in (("health_std", "std"), ("health_rank", "rank"), ("health_encoder_rank", "encoder rank")):
        if name in logs:
            told.append(f"{word} {logs[name]:.3g}")
    if len(terms) > 1:  # a single one is the loss
        told += [f"{name} {logs[name]:.4g}" for name in terms if name in logs]
    # Not "alignment": methods have a term of that name.
    words = {"health_alignment": "distance of views", "health_uniformity": "uniformity"}
    known = {"loss", "chance", "knn", "health_std", "health_rank", "health_encoder_rank", *terms}
    for name, value in logs.items():
        if name == "health_prototypes":
            told.append(f"{100 * value:.0f} % of prototypes in use")
        elif name not in known:
            told.append(f"{words.get(name, name.replace('_', ' '))} {value:.3g}")
    return told


def _within(parts, width):
    """As many of the parts as fit into a line."""
    line = parts[0][:width]
    for part in parts[1:]:
        if len(line) + len(part) + 2 > width:
            break
        line += f", {part}"
    return line


def _width():
    """Letters that a line of the terminal takes without wrapping."""
    return shutil.get_terminal_size().columns - 1
