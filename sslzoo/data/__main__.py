"""`python -m sslzoo.data NAME [SPLIT ...] -o FILE.npz`: a data set as a file."""

import argparse
import sys
from collections.abc import Sequence

import numpy as np

from sslzoo import environment, errors
from sslzoo.data.catalogue import KNOWN
from sslzoo.data.sources import export


@environment.ends_quietly
def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m sslzoo.data NAME [SPLIT ...] -o FILE.npz`: `export` for the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m sslzoo.data",
        description="Write a data set to an .npz file, which sslzoo reads without TensorFlow.",
    )
    parser.add_argument("name", help=f"{' '.join(KNOWN)}, or the path of a folder of images")
    parser.add_argument("splits", nargs="*", metavar="split", help="train, test ...; default: all")
    parser.add_argument("-o", "--out", required=True, metavar="FILE.npz")
    parser.add_argument("--data-dir", help="TFDS folder; default: TFDS_DATA_DIR, else ~/tensorflow_datasets")
    parser.add_argument("--image-size", type=int, help="crop the images of a folder to squares of so many pixels")
    parser.add_argument(
        "--on-error", choices=("fail", "skip"), default="fail", help="images that cannot be read (fail)"
    )
    options, remarks = parser.parse_args(arguments), []
    try:
        path = export(
            options.name, options.out, options.splits, options.data_dir, options.image_size, options.on_error, remarks
        )
    except (errors.SSLZooError, OSError, ImportError) as error:
        print(environment.in_a_line(error), file=sys.stderr)
        return 2
    for remark in remarks:
        print(remark, file=sys.stderr)
    with np.load(path) as arrays:
        for key in arrays.files:
            array = arrays[key]  # which is read anew each time it is asked for
            print(f"{key}: {array.dtype} {array.shape}")
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
