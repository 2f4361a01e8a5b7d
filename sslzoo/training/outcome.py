"""After training: evaluate, draw, and write the artefact."""

import inspect
import signal
import threading
import time
from pathlib import Path

import keras
import numpy as np

from sslzoo import callbacks, data, evaluation
from sslzoo.errors import ArtefactError, InvalidInputError
from sslzoo.evaluation import pictures
from sslzoo.evaluation.report import versions
from sslzoo.files import unlock_folder
from sslzoo.methods import EBCLR
from sslzoo.methods.energy_model import EnergyModel
from sslzoo.publishing import artefact
from sslzoo.publishing.card import UNSTATED
from sslzoo.training import flags
from sslzoo.training.settings import SETUPS, data_name

# The paper's numbers under our names: probes at their best epoch, kNN at its best k, clusters per mini-batch.
PAPERS_WAY = {
    "linear": "linear.best_accuracy",
    "views": "views.accuracy",
    "mlp": "mlp.best_accuracy",
    "knn": "knn.euclidean_best_accuracy",
    "gmm": "gmm.minibatch64_accuracy",
}


def write(run, model: keras.Model) -> Path:
    """Evaluates the trained model, draws its pictures and writes `<out>/<name>/`.

    Args:
        run: `sslzoo.training.Run`.
        model: the trained method.

    Returns:
        Path of the model's folder.
    """
    for reason in endings(run):
        print(f"{reason} What was trained so far is evaluated and written.")
    return _in_time(run, lambda: _write(run, model, run.stopwatch.deadline is not None))


def _write(run, model, hurried):
    parts = model.parts(run.image_shape)
    if run.arguments.float16:
        for part in parts.values():
            artefact.round_to_float16(part)
    else:
        parts["model"] = model

    def put(report, drawn, faults):
        made = results(run, type(model), report)
        made["remarks"] += faults
        float16 = run.arguments.float16
        return artefact.write(run.out / run.name, **parts, **made, pictures=drawn, float16=float16, overwrite=True)

    if hurried:  # the model first, then what there is time for
        put(None, {}, ["The process was told to end, and there was no time to evaluate."])
    (report, drawn), faults = (None, {}), []
    # Whatever goes wrong in measuring and drawing must not take the trained model with it.
    try:
        report = evaluate(run, model, parts)
    except Exception as error:
        faults.append(error)
    try:
        drawn = draw(run, model, parts["encoder"])
    except Exception as error:
        faults.append(error)
    told = [" ".join(f"After training, {type(error).__name__}: {error}".split()) for error in faults]
    folder = put(report, drawn, told)
    print(f'Wrote {folder}. Use it: sslzoo.load("{folder}")')
    unlock_folder(run.out)
    if faults:
        raise ArtefactError(
            f"The model is trained and written, but not all of it could be evaluated. {told[0]} "
            f"Received: folder='{folder}'"
        ) from faults[0]
    return folder


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
    again = [number for name in ("SIGTERM", "SIGHUP", "SIGUSR1") if (number := getattr(signal, name, None))]
    former = {number: signal.signal(number, signal.SIG_IGN) for number in again}
    former[signal.SIGALRM] = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(left, 0.01))
    try:
        return action()
    except _TimeIsUp:
        print(f"The {run.stopwatch.grace:g} seconds of --grace are over. Go on with --resume.")
        return run.out / run.name
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in former.items():
            signal.signal(number, handler)


def endings(run) -> list[str]:
    """Why training ended before its time, in sentences."""
    said = []
    if run.stopwatch.reason:
        said.append(f"Training was {run.stopwatch.reason}, in epoch {len(run.journal.rows)}.")
    if run.plateau and run.plateau.reason:
        said.append(f"Training ended when {run.plateau.reason}.")
    if run.health.reason:
        said.append(f"Training was stopped by --stop-on-collapse. {run.health.reason}")
    if run.until and run.until.reason:
        said.append(f"Training was stopped by --until-knn: {run.until.reason}.")
    if said and not run.moved:
        said.append(f"It ended before {run.arguments.accumulate} batches (--accumulate) made a step.")
    return said


def test_set(run):
    """Images and labels to evaluate on, and why there are none: (images, labels, None) or (None, None, reason)."""
    if run.labels is None:
        return None, None, "No labels"
    if "test" not in data.splits(run.dataset) and not run.arguments.test_share:
        return None, None, "No test split"
    if run.labels.ndim == 2 and run.labels.shape[1] != len(data.CELEBA_ATTRIBUTES):
        return None, None, f"Labels of {run.labels.shape[1]} columns are no classes"
    if run.labels.ndim == 1 and len(np.unique(run.labels)) < 2:
        return None, None, "Labels of one class"
    images, labels = run.load("test")
    images, labels = first(images, run.arguments.limit), None if labels is None else labels[: run.arguments.limit]
    if images.shape[1:] != run.images.shape[1:]:
        raise InvalidInputError(
            f"Test images must have the shape of training images, {run.images.shape[1:]}. "
            f"Received: {images.shape[1:]} in the test split of {run.dataset!r}"
        )
    if labels is None:
        return None, None, "No labels in the test split"
    if len(images) < 2:
        return None, None, "A test split of one image"
    if run.labels.ndim == 1 and (unseen := np.setdiff1d(labels, run.labels)).size:
        return None, None, f"The test split has classes that training has not ({', '.join(map(str, unseen[:3]))})"
    return images, labels, None


def first(images, limit: int | None):
    """The first `limit` images, all without a limit; those that stay in their files do so."""
    if isinstance(images, data.StreamedImages):
        return images if limit is None else images.head(limit)
    return images[:limit]


def evaluate(run, model, parts):
    """The report on a trained method and its parts; None where there is nothing to measure it by."""
    elsewhere = run.arguments.probe_data
    if run.test_images is None and not elsewhere:
        print(f"{run.no_test}: probes are skipped. The encoder and its pictures are written all the same.")
        return None
    as_published = (run.dataset in SETUPS or run.dataset.endswith(".npz")) and not run.arguments.limit
    splits = ((run.images, run.labels), (run.test_images, run.test_labels))
    protocols = run.arguments.protocols or run.settings["protocols"]
    protocols = protocols or default_protocols(len(run.images), parts.get("decoder"))
    own, options = ([], {}) if elsewhere else own_protocols(run, model)
    report = evaluation.evaluate(
        parts["encoder"],
        elsewhere or (run.dataset if as_published else splits),
        (*protocols, *own),
        run.arguments.data_dir,
        decoder=parts.get("decoder"),
        projection=parts.get("projection"),
        method=model,
        seed=run.seed,
        gmm_restarts=run.settings["gmm_restarts"],
        **options,
        name=run.dataset if run.dataset in SETUPS and not elsewhere else None,
        strict=False,  # what was measured must not be lost to a protocol that has nothing to measure here
    )
    if elsewhere:
        report.data["name"] = elsewhere if elsewhere in SETUPS else data_name(elsewhere)
        report.remarks.insert(
            0,
            f"It was trained on {run.dataset if run.dataset in SETUPS else data_name(run.dataset)}"
            f", and measured on {report.data['name']}.",
        )
    elif not as_published:
        report.data["name"] = data_name(run.dataset)
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
    if other := run.settings.get("outliers"):
        protocols.append("outliers")
        options["outside"] = (other,)
    return protocols, options


def draw(run, model, encoder) -> dict[str, Path]:
    """Curves, reconstructions, samples, views, neighbours and an embedding, as far as there are such: name -> path."""
    folder = run.out / "pictures"
    folder.mkdir(exist_ok=True)
    images = run.images if run.test_images is None else run.test_images
    labels = run.labels if run.test_images is None else run.test_labels
    rows = [{k: v for k, v in row.items() if k not in callbacks.Journal.BOOKKEEPING} for row in run.journal.rows]
    drawn = [pictures.curves(rows, folder / "curves.png", title=run.name)]
    if hasattr(model, "reconstruct"):
        shown = images[:20]
        seen, rebuilt = (keras.ops.convert_to_numpy(f(shown)) for f in (model.prepare, model.reconstruct))
        drawn.append(pictures.reconstructions(seen, rebuilt, folder / "reconstructions.png"))
        try:
            samples, title = model.sample(50, seed=run.seed), "Samples from the prior"
        except InvalidInputError:  # uniform centres: there is no prior to draw centres from
            samples, title = model.sample(50, like=images[:10], seed=run.seed), "Samples around ten test images"
        drawn.append(pictures.samples(keras.ops.convert_to_numpy(samples), folder / "samples.png", title=title))
    if isinstance(model, EnergyModel) and model.buffer is not None:
        like = {"reference": images[:100]} if isinstance(model, EBCLR) else {}
        low, high = model.sample_range
        samples = (np.clip(model.sample(50, seed=run.seed, **like), low, high) - low) / (high - low)
        drawn.append(pictures.samples(samples, folder / "samples.png", title="Samples: 500 Langevin steps from noise"))
    if model.views is not None:
        shown = run.images[:8]
        made = keras.ops.convert_to_numpy(model.views(shown, training=True, seed=run.seed, num_views=8))
        drawn.append(
            pictures.views(shown, made, folder / "views.png", title="Training images (left), and views of them")
        )
    features = evaluation.features(encoder, images[:2000])
    if len(features) > 1:
        drawn.append(pictures.neighbours(images[:2000], features, folder / "neighbours.png", seed=run.seed))
    if labels is not None and labels.ndim == 1:
        names = data.class_names(run.dataset, labels[:2000])
        drawn.append(pictures.embedding(features, labels[:2000], folder / "embedding.png", names=names))
    return {path.name: path for path in drawn}


def results(run, method: type, report=None) -> dict:
    """What results.json says of a run; without a report, what is known before it.

    Args:
        run: `sslzoo.training.Run`.
        method: class of the method, which may live outside this package.
        report: `sslzoo.evaluation.Report`, or None.
    """
    compared = {} if report is None or run.arguments.probe_data else run.published  # the paper's are of this very set
    published = {PAPERS_WAY[name]: value for name, value in compared.items() if name in report}
    return {
        "name": run.name,
        "method": method.__name__,
        "dataset": run.dataset if run.dataset in SETUPS else data_name(run.dataset),
        "recipe": flags.command(run.method, run.arguments, run.defaults),
        "settings": {
            "variant": run.variant,
            **run.settings,
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
        "license": run.arguments.licence or ("apache-2.0" if run.dataset in SETUPS else UNSTATED),
        "papers": list(method.papers),
        "description": (inspect.getdoc(method) or method.__name__).partition("\n")[0],
        "remarks": [
            *run.arguments.remark,
            *run.data_remarks,
            *run.extensions(),
            *(run.beginning.remarks if run.beginning else ()),
            *endings(run),
            *run.checkpoint.remarks,
            *([] if report is None else report.remarks),
        ],
        **({} if report is None else {"evaluation": report.to_dict()}),
    }
