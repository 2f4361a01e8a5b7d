"""Time of reading photographs for small images, beside Pillow decoding each of them whole.

    python benchmarks/photographs.py                     # 12 million pixels each, made for it
    python benchmarks/photographs.py --side 224 --count 40

Processor time, the best of three rounds in turns; and by how much the pixels differ.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from sslzoo.data.image_files import decode, fitted, open_image


def photograph(path, random, size=(4000, 3000)):
    """A file of random smooth colors and a camera's noise."""
    smooth = Image.fromarray(random.integers(0, 256, (30, 40, 3), "uint8")).resize(size)
    noise = random.integers(-6, 7, (size[1], size[0], 3), "int16")
    Image.fromarray((np.asarray(smooth) + noise).clip(0, 255).astype("uint8")).save(path, quality=92)


def timed(read):
    began = time.process_time()
    return read(), time.process_time() - began


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=96, help="pixels that images are brought to (96)")
    parser.add_argument("--count", type=int, default=10, help="photographs (10)")
    options = parser.parse_args(argv)
    size, random = (options.side, options.side), np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{number}.jpg") for number in range(options.count)]
        for file in files:
            photograph(file, random)

        def read(side):
            return np.stack([fitted(decode(open_image(file, side)), size, 3) for file in files])

        rounds = [(timed(lambda: read(None)), timed(lambda: read(options.side))) for _ in range(3)]
    (whole, _), (ours, _) = rounds[0]
    whole_ms, ours_ms = (min(each[side][1] for each in rounds) / options.count * 1e3 for side in (0, 1))
    apart = np.abs(whole.astype(int) - ours)
    print(f"{options.side} pixels: {whole_ms:.0f} ms whole, {ours_ms:.0f} ms ours: {ours_ms / whole_ms:.2f} x")
    print(f"pixels differ by {apart.mean():.2f} of 255 on average, {apart.max()} at most")


if __name__ == "__main__":
    main()
