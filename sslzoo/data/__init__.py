"""Images: what is known of a set, how it becomes arrays, and the order in which an epoch sees them.

images, labels = sslzoo.data.load("mnist", "train")                   # uint8 (60000, 28, 28, 1), int64 (60000,)
batches = sslzoo.data.Batches(images, labels, 128, seed=0)            # an epoch after the other, for `fit`
batches = sslzoo.data.pipeline((images, labels), None, 128, seed=0, repeat=True)  # the same as a tf.data.Dataset
"""

import sslzoo.backend  # noqa: F401 - before Keras
from sslzoo.data.batches import Batches, Stacked, epoch_order, pipeline
from sslzoo.data.catalogue import CELEBA_ATTRIBUTES, DatasetInfo, celeba_task, info, name_of
from sslzoo.data.image_files import fit_images
from sslzoo.data.image_folder import ImageFolder
from sslzoo.data.sources import (
    check,
    class_folders,
    class_names,
    export,
    is_prepared,
    load,
    splits,
    test_split,
    value_range,
)
from sslzoo.data.streams import StreamedImages, memory

__all__ = [
    "CELEBA_ATTRIBUTES",
    "Batches",
    "DatasetInfo",
    "ImageFolder",
    "Stacked",
    "StreamedImages",
    "celeba_task",
    "check",
    "class_folders",
    "class_names",
    "epoch_order",
    "export",
    "fit_images",
    "info",
    "is_prepared",
    "load",
    "memory",
    "name_of",
    "pipeline",
    "splits",
    "test_split",
    "value_range",
]
