"""Each epoch's figures to a service that keeps experiments."""

import contextlib
import importlib

import keras

from sslzoo.errors import BackendError, choose
from sslzoo.progress import say

SERVICES = ("wandb", "trackio", "mlflow")
_FAILED = {"wandb": {"exit_code": 1}, "mlflow": {"status": "FAILED"}}  # Trackio knows no such end


class Tracker(keras.callbacks.Callback):
    """Sends each epoch's logs to Weights & Biases, Trackio or MLflow, whose own settings say where that is.

    A service that cannot be reached when training begins is an error; later it is said once, and the run goes on.

    Example:
        from sslzoo import callbacks

        # tracker = callbacks.Tracker("wandb", "mine", {"temperature": 0.1}); model.fit(images, callbacks=[tracker])
        "wandb" in callbacks.Tracker.services  # True

    Args:
        service: "wandb", "trackio" or "mlflow", whose package is installed.
        name: str, of the run; a run that goes on under the same name is another run there.
        config: dict of the run's settings.
        project: str, project or experiment.

    Raises:
        UnknownNameError: another service.
        BackendError: its package cannot be imported.
    """

    services = SERVICES

    def __init__(self, service: str, name: str, config: "dict | None" = None, project: str = "sslzoo"):
        super().__init__()
        choose("service", service, SERVICES)
        try:
            self._client = importlib.import_module(service)
        except ImportError as error:
            raise BackendError(
                f"Logs to {service} take pip install {service}; importing it failed ({error}). Received: {service=}"
            ) from error
        self.service, self.name, self.config, self.project = service, name, dict(config or {}), project
        self._is_open = False

    def on_train_begin(self, logs=None):
        self._is_told = False
        try:
            self._begin()
        except Exception as error:  # wandb's and mlflow's own, of no common kind
            raise BackendError(
                f"{self.service} could not begin a run ({type(error).__name__}: {error}). Log in, choose its offline "
                f"mode, or leave out --log. Received: service={self.service!r}"
            ) from error

    def _begin(self):
        if self.service == "mlflow":
            self._client.set_experiment(self.project)
            self._client.start_run(run_name=self.name)
            self._is_open = True
            self._client.log_params(self.config)
        else:
            self._client.init(project=self.project, name=self.name, config=self.config)
            self._is_open = True

    def on_epoch_end(self, epoch, logs=None):
        figures = {name: float(value) for name, value in (logs or {}).items()}
        log = self._client.log_metrics if self.service == "mlflow" else self._client.log
        self._attempt(lambda: log(figures, step=epoch + 1))

    def on_train_end(self, logs=None):
        self._attempt(self._end)

    def _attempt(self, action):
        try:
            action()
        except Exception as error:  # of any kind, and no reason to lose what is trained
            if not self._is_told:
                say(f"Logs to {self.service} failed ({type(error).__name__}: {error}). The run goes on.")
            self._is_told = True

    def release(self) -> None:
        """Ends a run that is open, as failed; `Pretrainer.fit` calls it when it raises."""
        with contextlib.suppress(Exception):  # what ended training is what people are to read
            self._end(**_FAILED.get(self.service, {}))

    def _end(self, **status):
        if self._is_open:
            self._is_open = False
            end = self._client.end_run if self.service == "mlflow" else self._client.finish
            end(**status)
