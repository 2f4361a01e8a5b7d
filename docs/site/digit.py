"""The page "Draw a digit": the published `simvae-mnist` as plain JavaScript.

    python docs/site/digit.py    # writes digits.png, the test digits among which neighbors are looked for

The weights are those of weights/simvae-mnist, layer by layer, and go into a script of their own, so that the page works
from disk, too, where a browser fetches no files.
"""

import base64
import gzip
import json
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent
WEIGHTS = HERE.parent.parent / "weights" / "simvae-mnist"
SHEET = HERE / "digits.png"
COUNT, ACROSS, SIDE = 1000, 40, 28


def layers(folder):
    """[(kernel, bias)] of the dense layers of an MLP, in the order of its config."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    count = sum(layer["class_name"] == "Dense" for layer in config["config"]["layers"])
    with h5py.File(folder / "model.weights.h5") as file:
        places = [f"layers/dense{f'_{n}' if n else ''}/vars" for n in range(count)]
        return [(file[f"{place}/0"][()], file[f"{place}/1"][()]) for place in places]


def digits():
    """The digits of the sheet: uint8 (COUNT, 28, 28)."""
    sheet = np.asarray(Image.open(SHEET).convert("L"))
    rows = sheet.reshape(-1, SIDE, ACROSS, SIDE).swapaxes(1, 2)
    return rows.reshape(-1, SIDE, SIDE)[:COUNT]


def encode(images, network):
    """The encoder in NumPy: uint8 (N, 28, 28) -> float32 (N, 10)."""
    x = (images.reshape(len(images), -1) > 127).astype("float32")  # as its first layers do
    for number, (kernel, bias) in enumerate(network):
        x = x @ kernel.astype("float32") + bias
        x = np.maximum(x, 0) if number < len(network) - 1 else x
    return x


def pages():
    """Path on the site -> content."""
    networks = {"encoder": layers(WEIGHTS), "decoder": layers(WEIGHTS / "decoder")}
    features = encode(digits(), networks["encoder"])
    known = {
        part: [
            {"units": len(bias), "kernel": _text(kernel.astype("<f2")), "bias": _text(bias.astype("<f4"))}
            for kernel, bias in network
        ]
        for part, network in networks.items()
    }
    known["features"] = _text(features.astype("<f4"))
    # Drawn from a file of its own, a canvas could not be read again where the page is opened from disk.
    sheet = f"data:image/png;base64,{base64.b64encode(SHEET.read_bytes()).decode()}"
    known |= {"count": COUNT, "across": ACROSS, "sheet": sheet}
    return {
        "digit.md": (HERE / "digit.html").read_text(encoding="utf-8"),
        "site/digit_weights.js": f"window.SIMVAE = {json.dumps(known)};\n",
    }


def _text(array):
    return base64.b64encode(gzip.compress(array.tobytes(), mtime=0)).decode()


def main():
    """Draws the sheet from the first test digits."""
    import sslzoo

    images = sslzoo.data.load("mnist", "test")[0][:COUNT, ..., 0]
    sheet = images.reshape(-1, ACROSS, SIDE, SIDE).swapaxes(1, 2).reshape(-1, ACROSS * SIDE)
    # Of 16 grays, which look no different and take two thirds of the bytes.
    picture = Image.fromarray(np.rint(sheet / 17).astype("uint8"), "P")
    picture.putpalette([17 * gray for gray in range(16) for _ in "RGB"])
    picture.save(SHEET, optimize=True, bits=4)


if __name__ == "__main__":
    main()
