"""Generate with a trained variational autoencoder: its decoder turns ten numbers into an image.

    python examples/reconstruct_and_sample.py
    python examples/reconstruct_and_sample.py --model simvae-mnist --dataset mnist --data-dir ~/tensorflow_datasets

Prints how far the reconstructions of test images are from the images, beside the error of the best constant picture
(the mean train image), and writes three pictures: `reconstructions.png`, `samples.png` (latents drawn from a Gaussian
mixture that was fitted to the train latents, labels unseen) and `interpolations.png` (each row: a test image, eight
steps on the straight line from its latent to that of another, and that image, which is of another class).
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.mixture import GaussianMixture

import sslzoo
from sslzoo.evaluation import features, pictures


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="simvae-digits", help="a model with a decoder (simvae-digits)")
    parser.add_argument("--dataset", default="digits", help="data set of that image size (digits)")
    parser.add_argument("--data-dir", help="folder of prepared TFDS data sets")
    parser.add_argument("--limit", type=int, default=10_000, help="train images that the mixture sees (10000)")
    parser.add_argument("--components", type=int, default=20, help="of the mixture (20)")
    parser.add_argument("--seed", type=int, default=0, help="of samples and of pairs to interpolate (0)")
    parser.add_argument("--out", type=Path, default=Path("reconstruct_and_sample"), help="folder to write")
    arguments = parser.parse_args(argv)
    random = np.random.default_rng(arguments.seed)

    train, _ = sslzoo.data.load(arguments.dataset, "train", data_dir=arguments.data_dir)
    test, labels = sslzoo.data.load(arguments.dataset, "test", data_dir=arguments.data_dir)
    encoder = sslzoo.load(arguments.model)  # raw images (B, H, W, C) -> latents (B, L)
    decoder = sslzoo.load(arguments.model, part="decoder")  # latents (B, L) -> images (B, H, W, C) in 0..1

    def decode(latents):
        return decoder.predict(latents.astype("float32"), batch_size=100, verbose=0)

    latents = features(encoder, test)
    rebuilt = decode(latents)
    error = np.mean((rebuilt - test / 255) ** 2)
    constant = np.mean((train.mean(axis=0) / 255 - test / 255) ** 2)
    print(f"mean squared error per pixel (of 0..1), {len(test):,} test images: {error:.4f}")
    print(f"the mean train image in place of every reconstruction: {constant:.4f}")

    known = features(encoder, train[: arguments.limit]).astype("float64")
    mixture = GaussianMixture(arguments.components, random_state=arguments.seed).fit(known)
    drawn = draw_from(mixture, 50, random)

    lines = []
    for _ in range(5):
        first, second = different(labels, random)
        steps = np.linspace(0, 1, 8)[:, None]
        between = decode((1 - steps) * latents[first] + steps * latents[second])
        lines += [test[first] / 255, *between, test[second] / 255]

    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in (
        pictures.reconstructions(test[:20], rebuilt[:20], arguments.out / "reconstructions.png"),
        pictures.samples(decode(drawn), arguments.out / "samples.png", title="Samples from a mixture of latents"),
        pictures.samples(np.stack(lines), arguments.out / "interpolations.png", title="Test images, and between them"),
    ):
        print(f"Wrote {path}")
    return {"error": error, "constant": constant}


def draw_from(mixture, count, random):
    """`count` latents (count, L), in random order (the mixture's own `sample` sorts them by component)."""
    components = random.choice(len(mixture.weights_), count, p=mixture.weights_)
    return np.stack([random.multivariate_normal(mixture.means_[c], mixture.covariances_[c]) for c in components])


def different(labels, random):
    """Two images, of different classes."""
    first = random.integers(len(labels))
    return first, random.choice(np.flatnonzero(labels != labels[first]))


if __name__ == "__main__":
    main()
