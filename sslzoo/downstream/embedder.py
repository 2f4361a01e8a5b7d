"""`Embedder`: an encoder as a step of a scikit-learn pipeline."""

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from sslzoo.errors import InvalidInputError
from sslzoo.evaluation.embedding import embed
from sslzoo.evaluation.features import load_encoder
from sslzoo.files import is_named


class Embedder(TransformerMixin, BaseEstimator):
    """Images in, features out, for scikit-learn's pipelines.

        model = make_pipeline(sslzoo.Embedder("simclr-cifar10"), StandardScaler(), LogisticRegression())
        model.fit(images, labels).predict(paths)

    It learns nothing: `fit` loads the encoder. A pickle holds the name of an encoder that was given by name, which is
    loaded again where it is first used; of a Keras model it holds the model.

    Example:
        import keras
        import numpy as np
        import sslzoo

        encoder = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten()])
        sslzoo.Embedder(encoder).fit_transform(np.zeros((4, 8, 8, 1), "uint8")).shape  # (4, 64)

    Args:
        encoder: name, folder or hf:// address for `sslzoo.load`, or a Keras model, as `sslzoo.embed` takes it.
        batch_size: int, images per call of the encoder.
    """

    def __init__(self, encoder, batch_size: int = 256):
        self.encoder = encoder
        self.batch_size = batch_size

    def fit(self, X, y=None) -> "Embedder":
        """Loads the encoder. X and y are not looked at."""
        self.encoder_, self.loaded_ = load_encoder(self.encoder), self.encoder
        return self

    def transform(self, X) -> np.ndarray:
        """Features of images.

        Args:
            X: uint8 array (N, H, W, C), a list of paths or of Pillow images, or anything else for `sslzoo.embed`.

        Returns:
            float32 (N, L).

        Raises:
            InvalidInputError, MissingDataError: as `sslzoo.embed`.
        """
        self._load()
        return embed(self.encoder_, X, batch_size=self.batch_size).features

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """`feature_0` and so on: object (L,)."""
        self._load()
        if not hasattr(self.encoder_, "output_shape"):
            raise InvalidInputError(
                f"Only a model of Keras says how many features it gives. Received: {type(self.encoder).__name__}"
            )
        shape = self.encoder_.output_shape  # of a posterior two
        count = (shape if isinstance(shape[-1], int) else shape[0])[-1]
        return np.array([f"feature_{place}" for place in range(count)], object)

    def _load(self):
        """Loads the encoder where it is not loaded yet, or is another by now (`set_params`)."""
        if not hasattr(self, "encoder_") or self.loaded_ is not self.encoder:
            self.fit(None)

    def __getstate__(self):
        state = super().__getstate__()
        if is_named(self.encoder):
            state = {key: value for key, value in state.items() if key not in ("encoder_", "loaded_")}
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags
