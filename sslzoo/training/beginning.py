"""Where weights come from before the first step: a trained model, by --init, in place of random numbers."""

from pathlib import Path

import keras
import numpy as np

from sslzoo import zoo
from sslzoo.errors import ArtifactError, InvalidInputError
from sslzoo.evaluation.features import load_encoder
from sslzoo.networks import composition
from sslzoo.training.flags import public
from sslzoo.training.folder import save


class Beginning:
    """The networks of a trained model, without preprocessing, as methods train them.

    A variational run begins exactly where the model stood: posterior and decoder are published. Of the others the
    encoder is, and the projection head where the method has one; predictors, prototypes and the states of teachers and
    queues are not, and begin anew.

    Args:
        name: str, what `sslzoo.load` takes: a name, a model folder, or hf://organization/name.
        folder: Path, where the run keeps a copy of what it took.
        resumes: bool, whether the copy is taken instead, for the original may be gone.

    Attributes:
        remarks: list of str, what the card must say.
        taken: bool, whether a recipe has asked for the encoder.
    """

    def __init__(self, name: str, folder: Path, resumes: bool = False):
        self.name, self.folder = name, folder
        self.copied = resumes and folder.is_dir()
        self.loaded = {}
        self.model = self._load("encoder")
        self.taken = False
        self.remarks = [f"Training began with the weights of {self.model.name}, not with random ones."]

    def keep(self) -> None:
        """Writes the copy."""
        if not self.copied:
            self.folder.mkdir(exist_ok=True)
            for part, model in self.loaded.items():
                save(model, self.folder / f"{part}.keras")

    def settings(self) -> dict:
        """What results.json says in place of the run's own settings of its network."""
        return {"network": f"as in {public(self.name).rstrip('/')}", "network_options": {}}

    def check_shape(self, image_shape: tuple[int, int, int]) -> None:
        """Raise InvalidInputError unless the model takes images of that shape (H, W, C)."""
        if not composition.fits(tuple(image_shape), self.model.input_shape[1:]):
            raise InvalidInputError(
                f"--init needs a model for images of this data set, {tuple(image_shape)}. "
                f"Received: --init={self.name}, which takes {tuple(self.model.input_shape[1:])}"
            )

    def encoder(self, run, posterior: bool) -> keras.Model:
        """The encoder: views -> representation (N, L), or [mean, log_var].

        Raises:
            InvalidInputError: it takes images of another shape, gives another number of features than the setting
                "latent_dim" says, or has no posterior where one is needed.
        """
        model, self.taken = self.model, True
        self.check_shape(run.image_shape)
        features, wanted = model.output_shape[-1], run.settings["latent_dim"]
        if wanted is not None and features != wanted:
            raise InvalidInputError(
                f"--init needs a model of latent_dim={wanted} features; or pass --set latent_dim={features}. "
                f"Received: --init={self.name}, which gives {features}"
            )
        if composition.preprocessing_end(model) is None:
            self.remarks.append(
                f"{model.name} says nothing of preprocessing: it was given views of this run as they are."
            )
            print(self.remarks[-1])
            return composition.as_functional("encoder", model)
        shown = run.images[:8]
        ours, theirs = run.views().prepare(shown), composition.preprocessing(model)(shown.astype("float32"))
        if ours.shape != theirs.shape or not np.allclose(*map(keras.ops.convert_to_numpy, (ours, theirs)), atol=1e-5):
            self.remarks.append(
                f"The views of this run are of another range or kind than those that {model.name} was trained with."
            )
            print(self.remarks[-1])
        if posterior:
            model = self._part("posterior", "a variational method begins with a posterior; begin with one of its kind")
        return composition.without_preprocessing(model, self._policy())

    def decoder(self) -> keras.Model:
        """The decoder, latents (N, L) -> logits."""
        part = composition.logits(self._part("decoder", "this method has a decoder; begin with one of its kind"))
        return part if self._policy() is None else composition.with_policy(part, self._policy())

    @staticmethod
    def _policy():
        """The run's policy, if it is a mixed one: what is published says float32 for each layer."""
        policy = keras.config.dtype_policy()
        return None if policy.compute_dtype == policy.variable_dtype else policy

    def fill_projector(self, head: keras.Model, encoder: keras.Model) -> None:
        """Gives a new projection head the weights of the trained one, if that was published and has its shape."""
        try:
            trained = self._load("projection")
        except ArtifactError:
            self.remarks.append("Its projection head is not published: that of this run began with random weights.")
            return
        trained = composition.part_after(trained, encoder.output_names[0])
        if [weight.shape for weight in trained.weights] != [weight.shape for weight in head.weights]:
            self.remarks.append("Its projection head has another shape: that of this run began with random weights.")
            return
        head.set_weights(trained.get_weights())

    def _part(self, part, reason):
        try:
            return self._load(part)
        except ArtifactError as error:
            raise InvalidInputError(f"--init needs the part {part!r}: {reason}. {error}") from error

    def _load(self, part):
        if part not in self.loaded:
            copy = self.folder / f"{part}.keras"
            if self.copied and not copy.is_file():
                raise ArtifactError(
                    f"The run did not begin with such a part. Received: part={part!r} of '{self.folder}'"
                )
            self.loaded[part] = zoo.load(copy) if self.copied else load_encoder(self.name, part=part)
        return self.loaded[part]
