"""What one does with an encoder: fine-tune, compare, diagnose, explore."""

import sslzoo.backend  # noqa: F401 - before Keras
