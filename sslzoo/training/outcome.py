"""After training: evaluate, draw, and write the artifact."""

import contextlib
import inspect
import json
import signal
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import keras

from sslzoo import data, evaluation, processes
from sslzoo.errors import ArtifactError, printable
from sslzoo.evaluation import pictures
from sslzoo.evaluation.features import spread
from sslzoo.evaluation.report import versions
from sslzoo.files import write_beside
from sslzoo.methods.papers import paper
from sslzoo.publishing import artifact
from sslzoo.publishing.card import UNSTATED
from sslzoo.training import devices
from sslzoo.training.folder import save
from sslzoo.zoo.results import ENDINGS

# The paper's numbers under our names: probes at their best epoch, kNN at its best k, clusters per mini-batch.
PAPERS_WAY = {
    "linear": "linear.best_accuracy",
    "views": "views.accuracy",
    "mlp": "mlp.best_accuracy",
    "knn": "knn.euclidean_best_accuracy",
    "gmm": "gmm.minibatch64_accuracy",
}


def announce(run) -> None:
    """Prints what is about to be trained, and what the user may want to know before."""
    arguments, settings, accumulated = run.arguments, run.settings, run.arguments.accumulate or 1
    network, backend = settings["network"], keras.backend.backend()
    if run.examples.no_test:
        print(
            f"{run.examples.no_test}: there will be no probes. The encoder and its pictures are written all the same."
        )
    suitable = devices.suitable_backend(network, arguments.precision)
    if suitable != backend and not run.initial_epoch:
        print(f"On this machine {network} is trained fastest by {suitable}: KERAS_BACKEND={suitable}.")
    if arguments.precision == "float32" and not run.initial_epoch and devices.bfloat16_helps(network):
        print("This CPU computes in bfloat16: KERAS_BACKEND=tensorflow with --precision mixed_bfloat16 is faster.")
    if arguments.precision == "mixed_bfloat16" and not devices.has_gpu() and devices.computes_in_bfloat16() is False:
        print("This CPU has no instructions for bfloat16: --precision float32 is up to fifteen times faster.")
    if accumulated > 1:
        print(
            f"--accumulate {accumulated}: each loss still compares the {settings['batch_size']} images of one batch. "
            "Negatives, batch statistics and queues are those of one batch; only gradients are averaged."
        )
    if speed := getattr(run.images, "per_second", None):
        print(f"Images are read while training, {speed:,.0f} a second when nothing else is done.")
    if not run.plan.is_known:
        rate, images = settings["learning_rate"], run.plan.images_per_step(settings)
        print(f"Learning rate {rate:.3g} for {images} images a step; by default it is proportional to them.")
    if rest := run.steps % accumulated:  # which Keras gathers, and applies no more
        print(f"The last {rest} of {run.steps:,} batches make no step.")
    words = [
        f"{len(run.images):,} images {run.image_shape}",
        f"{settings['num_views']} views of each",
        f"{settings['batch_size']} images a step",
        f"{run.steps_per_epoch:,} steps x {settings['epochs']} epochs",
        f"{run.model.count_params():,} parameters",
        f"{backend} backend",
    ]
    counts = {"devices": run.devices, "processes": processes.count(), "steps in a program": run.fused}
    counts["gradients make a step"] = accumulated
    words += [f"{count} {what}" for what, count in counts.items() if count > 1]
    words += [f"going on after epoch {run.initial_epoch}"] * bool(run.initial_epoch)
    print(f"{run.name} ({run.variant}): {', '.join(words)}")


def write(run, model: keras.Model) -> Path:
    """Evaluates the trained model, draws its pictures and writes `<out>/<name>/`.

    Whatever fails on the way, a model is left: at first as `<out>/<name>.keras`, which goes once the folder is written.

    Args:
        run: `sslzoo.training.Run`.
        model: the trained method.

    Returns:
        Path of the model's folder.

    Raises:
        ArtifactError: the model is left, but not all of it could be published, evaluated or drawn.
    """
    ended, remarks = ending(run)
    for remark in remarks:
        print(f"{remark} What was trained so far is evaluated and written.")
    run.folder.note(ended=ended)
    return _in_time(run, lambda: _write(run, model))


def _write(run, model):
    faults = []

    def attempt(action):
        try:
            return action()
        except Exception as error:  # whatever goes wrong after training must not take the trained model with it
            faults.append(error)
            return None

    def put(report, drawn, *remarks):
        made = results(run, type(model), report)
        made["remarks"] += remarks
        write_beside(run.out / "results.json", json.dumps(made, indent=1, default=str) + "\n")
        float16 = run.arguments.float16
        return artifact.write(run.out / run.name, **parts, **made, pictures=drawn, float16=float16, overwrite=True)

    spare = run.out / f"{run.name}.keras"
    saved = attempt(lambda: save(model, spare))
    parts = attempt(lambda: _parts(run, model)) or {}
    with contextlib.suppress(Exception):  # the model first: probes take time; what fails here fails again below
        put(None, {}, "The process was ended, and there was no time to evaluate.")
    encoder = parts.get("encoder") or attempt(lambda: model.live_encoder(run.image_shape))
    report = attempt(lambda: evaluate(run, model, {"encoder": encoder, **parts}))
    drawn = {}
    attempt(lambda: drawn.update((path.name, path) for path in draw(run, model, encoder)))

    def sentences():
        every = (printable(f"After training, {type(error).__name__}: {error}") for error in faults)
        return [textwrap.shorten(each, 1000, placeholder=" ...") for each in every]  # a backend's may be a page

    folder = attempt(lambda: put(report, drawn, *sentences()))
    run.folder.leave()
    if folder:
        spare.unlink(missing_ok=True)
        (run.out / "results.json").unlink(missing_ok=True)
        print(f'Wrote {folder}. Use it: sslzoo.load("{folder}")')
    if faults:
        left = folder or saved or run.checkpoint.path  # a spare that is there may be of an earlier attempt
        done = "trained and written" if folder or saved else "trained"
        raise ArtifactError(
            f"The model is {done}, but not all of it could be published, evaluated or drawn. "
            f"{sentences()[0].rstrip('.')}. Mend that, and --resume does what is left. Received: folder='{left}'"
        ) from faults[0]
    return folder


def _parts(run, model):
    """What is published of a model."""
    parts = model.parts(run.image_shape)
    if not run.arguments.float16:
        return parts | {"model": model}
    for part in parts.values():
        artifact.round_to_float16(part, run.arguments.digits or artifact.FLOAT16_DIGITS)
    return parts


class _TimeIsUp(BaseException):
    """Which nobody catches on the way."""


def _in_time(run, action):
    """What `action` returns; after a signal it has the time of --grace, and the path of the folder comes back."""
    left = None if run.stopwatch.deadline is None else run.stopwatch.deadline - time.monotonic()
    if left is None or not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return action()

    def stop(*_):
        raise _TimeIsUp

    # Signals may be sent again, to make haste; what is being written must not suffer.
    known = (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP", "SIGUSR1"))
    again = [number for number in known if number and signal.getsignal(number) is not None]
    former = {number: signal.signal(number, signal.SIG_IGN) for number in again}
    former[signal.SIGALRM] = signal.signal(signal.SIGALRM, stop)
    # Again every second: Python drops what is raised in a finalizer or in a callback of the garbage collector.
    signal.setitimer(signal.ITIMER_REAL, max(left, 0.01), 1.0)
    try:
        return action()
    except _TimeIsUp:
        signal.setitimer(signal.ITIMER_REAL, 0)
        over = f"The {run.stopwatch.grace:g} seconds of --grace are over. Go on with --resume"
        if not (run.out / run.name).is_dir():
            raise ArtifactError(f"{over}: there is no model yet. Received: --out={run.out}") from None
        print(f"{over}.")
        return run.out / run.name
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in former.items():
            signal.signal(number, handler)


def ending(run) -> tuple[str, list[str]]:
    """How training ended, one of `zoo.results.ENDINGS`, and what the card says of it if it was before its time."""
    ended = [callback for callback in run.watchers if getattr(callback, "ended", None)]
    remarks = [callback.reason for callback in ended]
    if ended and not run.moved:
        remarks.append(f"It ended before {run.arguments.accumulate} batches (--accumulate) made a step.")
    if ended:
        return ended[0].ended if ended[0].ended in ENDINGS else "callback", remarks
    done, wanted = run.journal.rows[-1]["epoch"] if run.journal.rows else 0, run.settings["epochs"]
    if done < wanted:  # by a callback that says no reason, such as Keras' EarlyStopping
        return "callback", [*remarks, f"A callback ended training after {done:,} of {wanted:,} epochs."]
    return "epochs", remarks


def _changes(run):
    """A remark on files that were replaced while training read them."""
    count = len(getattr(run.images, "changed", ()))
    return [f"{count:,} image files changed while training read them."] * bool(count)


def rate_remarks(run) -> list[str]:
    """What the card must say of a run whose rate did not fall over --epochs: given more of them, or less time."""
    extended, planned = run.folder.record.get("extended", []), run.folder.record.get("planned", [])
    return [
        f"The run was planned for {epochs} epochs and then extended; until it was, its rate fell as for {epochs}."
        for epochs in extended
    ] + [
        f"From the time there was (--max-minutes) {steps:,} steps of {run.steps:,} were planned: the rate fell over "
        "these."
        for steps in planned
        if steps is not None and steps < run.steps
    ]


def evaluate(run, model, parts):
    """The report on a trained method and its parts; None where there is nothing to measure it by."""
    test = run.examples
    if test.test_images is None:
        print(f"{test.no_test}: probes are skipped. The encoder and its pictures are written all the same.")
        return None
    as_published = run.plan.is_known and not run.arguments.limit
    splits = ((run.images, run.labels), (test.test_images, test.test_labels))
    protocols = run.arguments.protocols or run.settings["protocols"]
    protocols = (protocols,) if isinstance(protocols, str) else protocols
    protocols = protocols or default_protocols(len(run.images), parts.get("decoder"))
    own, options = own_protocols(run, model)
    if "gmm" in protocols:
        options["gmm_restarts"] = run.settings["gmm_restarts"]
    report = evaluation.evaluate(
        parts["encoder"],
        run.dataset if as_published else splits,
        (*protocols, *own),
        run.arguments.data_dir,
        decoder=parts.get("decoder"),
        projection=parts.get("projection"),
        method=model,
        seed=run.seed,
        **options,
        name=run.dataset if run.plan.is_known else None,
        strict=False,  # what was measured must not be lost to a protocol that has nothing to measure here
    )
    if not as_published:
        report.data["name"] = run.plan.data_name
    print(report)
    return report


def default_protocols(images: int, decoder=None) -> tuple[str, ...]:
    """What is measured after training unless said: classes, style, and how well a decoder rebuilds."""
    style = ("style",) if images >= evaluation.style.LEAST_TRAIN else ()
    return (*evaluation.PROTOCOLS, *style, *(() if decoder is None else ("reconstruction",)))


def own_protocols(run, model) -> tuple[list[str], dict]:
    """Protocols that the method and the settings of a run add, and their options."""
    protocols, options = list(model.protocols()), {}
    if epochs := run.settings["probe_on_views"]:
        protocols.append("views")
        options["views_epochs"] = epochs
    if run.outside:
        protocols.append("outliers")
        options["outside"] = run.outside
    return protocols, options


def draw(run, model, encoder) -> Iterator[Path]:
    """Curves, neighbors, an embedding, and what the method shows of itself: the file of each, once it is drawn."""
    folder = run.out / "pictures"
    folder.mkdir(exist_ok=True)
    images, labels = run.examples.test_images, run.examples.test_labels
    if images is None:
        images, labels = run.images, run.labels
    yield pictures.curves(run.journal.rows, folder / "curves.png", title=run.name)
    chosen = spread(len(images), 2000)
    shown = images[chosen]
    features = evaluation.features(encoder, shown)
    if len(features) > 1:
        yield pictures.neighbors(shown, features, folder / "neighbors.png", seed=run.seed)
    if labels is not None and labels.ndim == 1:
        names = data.class_names(run.examples.source, labels[chosen])
        yield pictures.embedding(features, labels[chosen], folder / "embedding.png", names=names)
    for name, kind, arrays, title in model.pictures(images[spread(len(images), 100)], run.seed):
        options = {} if title is None else {"title": title}
        yield getattr(pictures, kind)(*arrays, folder / f"{name}.png", **options)


def results(run, method: type, report=None) -> dict:
    """What results.json says of a run; without a report, what is known before it.

    Args:
        run: `sslzoo.training.Run`.
        method: class of the method, which may live outside this package.
        report: `sslzoo.evaluation.Report`, or None.
    """
    printed = {} if report is None else run.plan.in_print()
    published = {PAPERS_WAY[name]: value for name, value in printed.items() if name in report}
    (ended, remarks), digits = ending(run), run.arguments.digits
    return {
        "name": run.name,
        "method": method.__name__,
        "dataset": run.plan.data_name,
        "recipe": run.plan.recipe(),
        "settings": {
            "variant": run.variant,
            **run.settings,
            **(run.beginning.settings() if run.beginning else {}),
            "precision": run.arguments.precision,
            "views_on": run.arguments.views,
            "images": len(run.images),
            "backend": keras.backend.backend(),
        },
        "seeds": [run.seed],
        "metrics": [] if report is None else report.metrics(published),
        "versions": versions() if report is None else report.versions,
        "wall_seconds": round(run.journal.seconds()),
        "views_seen": run.journal.rows[-1]["views"] if run.journal.rows else 0,
        # Of a model of their own images people state the license themselves.
        "license": run.arguments.license or ("apache-2.0" if run.plan.is_known else UNSTATED),
        # Of a person's own class not what it inherits: that is of another method.
        "papers": [paper(url) for url in vars(method).get("papers", ())],
        "description": inspect.cleandoc(method.__doc__ or method.__name__).partition("\n")[0],
        "remarks": [
            *run.arguments.remark,
            *run.examples.remarks,
            *_changes(run),
            *rate_remarks(run),
            *(run.beginning.remarks if run.beginning else ()),
            *remarks,
            *run.checkpoint.remarks,
            *([] if report is None else report.remarks),
            *([f"To save space kernels keep {digits} binary digits."] if digits else []),
        ],
        "packed": digits,
        "ended": ended,
        **({} if report is None else {"evaluation": report.to_dict()}),
    }
