"""Health without labels: a SimCLR that is trained at a rate of 10 beside three encoders that are well.

    python examples/doctor.py
    python examples/doctor.py --rate 0.001

Trains SimCLR on digits for some seconds, far too fast, and lets `sslzoo.diagnose` look at it and at encoders of the
zoo: a verdict in one line each, then all in order, beside what such an order was worth on the zoo's own encoders.
Writes a page about the one that was trained here.
"""

import argparse

import keras

import sslzoo
from sslzoo import methods, networks, views
from sslzoo.downstream import ranking

HEALTHY = ("simclr-digits", "simvae-digits", "vicreg-digits")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=10.0, help="of Adam (10)")
    parser.add_argument("--epochs", type=int, default=20, help="passes over the images (20)")
    parser.add_argument("--out", default="doctor.html", help="page to write (doctor.html)")
    arguments = parser.parse_args(argv)

    images, _ = sslzoo.data.load("digits", "train")
    encoders = {f"rate {arguments.rate:g}": trained(images, arguments.rate, arguments.epochs)}
    encoders |= {name: name for name in HEALTHY}
    diagnoses = [
        sslzoo.diagnose(encoder, images, views="simvae-digits", name=name) for name, encoder in encoders.items()
    ]
    for diagnosis in diagnoses:
        print(f"{diagnosis.name}: {diagnosis.verdict}")
    print(f"Try: {'; '.join(diagnoses[0].tries)}" if diagnoses[0].tries else "Nothing to try.")
    print(f"\n{ranking.rank(diagnoses)}")
    print(f"Wrote {diagnoses[0].page(arguments.out)}")
    return diagnoses


def trained(images, rate, epochs):
    """A SimCLR of the zoo's small network, after a few epochs."""
    keras.utils.set_random_seed(0)
    model = methods.SimCLR(
        networks.encoder("mlp-small", (8, 8, 1), 10), views=views.Views("simvae-digits", 2, seed=0), temperature=0.7
    )
    model.compile(keras.optimizers.Adam(rate))
    model.fit(images[:1408], batch_size=128, epochs=epochs, verbose=0)
    return model


if __name__ == "__main__":
    main()
