"""How loose is VINCE? Mutual information of two Gaussians, estimated with ever harder negatives.

    KERAS_BACKEND=jax python examples/toy_mutual_information.py

Table 1 of "On Mutual Information in Contrastive Learning for Visual Representations" (arXiv 2005.13149). (X, Y) is a
pair of Gaussians of correlation 0.2, so I(X; Y) = 0.0204 nats. Two networks g and h of five layers, 10 wide, learn a
critic f(x, y) = g(x) . h(y) from 2000 pairs by maximizing InfoNCE, or VINCE: InfoNCE with 100 negatives from those
p percent of the points whose representation is nearest to that of the positive.

The paper estimates 0.0135 with InfoNCE, 0.0124 with VINCE at 90 %, 0.0022 at 75 %, and next to nothing below. Seen
under JAX, 5 seeds: 0.0143 +- 0.0028 with InfoNCE; with VINCE 0.047 +- 0.057, 0.191 +- 0.063, 0.0005 +- 0.0013 (50 %),
0.045 +- 0.012 (25 %), 0.020 +- 0.005 (10 %) and 0.015 +- 0.007 (5 %), in 4.5 minutes: above
what the best critic is worth wherever one was learned at all.

A negative is drawn here as one of the 100 nearest among 100 / p points, which for p = 5 are all 2000; each step draws
the points anew, one draw for the batch. The paper leaves open on which pairs it measures, the size of the output and
whether it is normalized; here 20,000 fresh pairs, 10, and not.

Two columns need no training, with |y - y_1| for the distance. "analytic" is the estimate with the best critic,
log p(y | x) / p(y): what the negatives alone cost. "blind" is the best of c |y|, c = 0.1, 0.3 and 1, critics that never
look at x. Near a point in the tail the others lie further in, so that |y| tells the positive from its negatives: with a
threshold on the likeness of positive and negative, as in the paper's text, VINCE bounds nothing from below
(`losses.vince_bound` says when it does), and a critic trained well ends above the true value.
"""

import argparse
import time

import keras
import numpy as np
from keras import ops
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sslzoo.losses import info_nce_bound

COVARIANCE = np.array([[2.0, 0.4], [0.4, 2.0]])
TRUE = -0.5 * np.log(1 - 0.4**2 / 4)  # 0.0204
PERCENT = (100, 90, 75, 50, 25, 10, 5)
PAPER = (0.01345, 0.01241, 0.00220, 7.29e-5, 1.67e-5, 5.87e-6, 1.97e-6)
NEGATIVES, WIDTH, LAYERS = 100, 10, 5


class Critics(keras.Model):
    """Critics of several seeds for one percentage, trained side by side: all weights have a leading axis of seeds.

    Args:
        pairs: array (S, N, 2), each seed's own points.
        percent: int, of the points that negatives are drawn from.
    """

    def __init__(self, pairs, percent):
        super().__init__()
        self.pairs = np.asarray(pairs, "float32")
        self.pool = round(NEGATIVES * 100 / percent)
        self.random = keras.random.SeedGenerator(0)
        self.g, self.h = ([self.layer(side, depth) for depth in range(LAYERS)] for side in (0, 1))

    def layer(self, side, depth):
        """Kernel and bias of a layer, for each seed."""
        seeds, rows = len(self.pairs), 1 if depth == 0 else WIDTH
        rng = np.random.default_rng([side, depth])
        bound = rows**-0.5  # PyTorch's, whose default is the paper's
        values = (rng.uniform(-bound, bound, (seeds, n, WIDTH)).astype("float32") for n in (rows, 1))
        return [
            self.add_weight(shape=value.shape, initializer=lambda shape, dtype=None, v=value: ops.convert_to_tensor(v))
            for value in values
        ]

    def represent(self, layers, values):
        """Points (S, N) -> representations (S, N, WIDTH)."""
        x = values[..., None]
        for depth, (kernel, bias) in enumerate(layers):
            x = ops.matmul(x, kernel) + bias
            x = ops.relu(x) if depth < LAYERS - 1 else x
        return x

    def bounds(self, x, y, pool):
        """Estimate of each seed, from pairs x, y (S, B) and points `pool` (S, P) to choose negatives among."""
        g, h, others = self.represent(self.g, x), self.represent(self.h, y), self.represent(self.h, pool)
        positive, scores = ops.sum(g * h, axis=-1), ops.matmul(g, ops.transpose(others, (0, 2, 1)))
        if pool.shape[1] > NEGATIVES:
            towards = ops.matmul(h, ops.transpose(others, (0, 2, 1)))
            distances = ops.sum(ops.square(others), axis=-1)[:, None, :] - 2 * towards
            nearest = ops.top_k(-ops.stop_gradient(distances), NEGATIVES)[1]
            scores = ops.take_along_axis(scores, nearest, axis=2)
        return [info_nce_bound(positive[seed], scores[seed]) for seed in range(len(self.pairs))]

    def call(self, index):
        pairs, count = ops.convert_to_tensor(self.pairs), self.pairs.shape[1]
        places = ops.argsort(keras.random.uniform((count,), seed=self.random))[: self.pool]
        batch = ops.take(pairs, index, axis=1)
        return ops.stack(self.bounds(batch[..., 0], batch[..., 1], ops.take(pairs[..., 1], places, axis=1)))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return -ops.sum(y_pred)

    def measure(self, pairs, percent):
        """Mean estimate of each seed on fresh pairs (S, N, 2), with negatives from among them."""
        fresh = Critics(pairs, percent)
        fresh.set_weights(self.get_weights())
        found = fresh.predict(np.arange(pairs.shape[1]), batch_size=500, verbose=0)
        return found.reshape(-1, len(pairs)).mean(axis=0)


def draw(rng, seeds, count):
    return (rng.normal(size=(seeds, count, 2)) @ np.linalg.cholesky(COVARIANCE).T).astype("float32")


def untrained(percent, pairs):
    """Estimates with the best critic, and with one that never sees x; negatives near y_1 itself."""
    x, y = pairs.reshape(-1, 2)[:20_000].T.astype("float64")
    pool = np.random.default_rng(1).normal(0, 2**0.5, (len(x), round(NEGATIVES * 100 / percent)))
    nearest = np.argpartition(np.abs(pool - y[:, None]), NEGATIVES - 1, axis=1)[:, :NEGATIVES]
    pool, rho = np.take_along_axis(pool, nearest, axis=1), 0.2

    def ratio(x, y):
        return -0.5 * np.log(1 - rho**2) - (y - rho * x) ** 2 / (4 * (1 - rho**2)) + y**2 / 4

    def estimate(positive, negative):
        return float(info_nce_bound(positive.astype("float32"), negative.astype("float32")))

    blind = max(estimate(c * np.abs(y), c * np.abs(pool)) for c in (0.1, 0.3, 1.0))
    return estimate(ratio(x, y), ratio(x[:, None], pool)), blind


# ------------------------------------------------------------------ the picture

PAGE, INK, GRAY, BLUE, GOLD = "#fbfaf7", "#222222", "#77736b", "#3c6e9f", "#c9a227"


def picture(path, estimates, exact, blind):
    figure = Figure(figsize=(8.6, 5.0), dpi=110, facecolor=PAGE)
    FigureCanvasAgg(figure)
    figure.text(0.07, 0.93, "Harder negatives, looser bound", fontsize=16, fontweight="bold", color=INK)
    figure.text(
        0.07,
        0.875,
        "Mutual information of two Gaussians in nats, by the share of the points that negatives come from",
        fontsize=10.5,
        color=GRAY,
    )
    axes = figure.add_axes([0.09, 0.12, 0.87, 0.68], facecolor=PAGE)
    place = np.arange(len(PERCENT))
    axes.axhline(TRUE, color=INK, linewidth=1.2)
    axes.text(5.42, TRUE + 0.003, f"true, {TRUE:.4f}", ha="center", fontsize=10, color=INK)
    axes.axhline(0, color="#e6e2d8", linewidth=1, zorder=0)
    axes.plot(place, exact, "--", color=GRAY, linewidth=1.4, label="best critic")
    axes.plot(place, blind, ":", color="#7a4f9a", linewidth=1.4, label="critic that never sees x")
    axes.errorbar(
        place - 0.06,
        estimates.mean(axis=1),
        estimates.std(axis=1),
        fmt="o-",
        color=BLUE,
        capsize=3,
        label=f"trained critic, {estimates.shape[1]} seeds",
    )
    axes.plot(place + 0.06, PAPER, "D", color=GOLD, markersize=6, label="the paper's table 1")
    axes.set(xticks=place, xticklabels=["100 %\nInfoNCE", *(f"{p} %" for p in PERCENT[1:])], xlim=(-0.4, 6.4))
    axes.tick_params(length=0, colors=GRAY, labelsize=10)
    axes.grid(axis="y", color="#e6e2d8", linewidth=0.8)
    axes.legend(frameon=False, fontsize=10, labelcolor=INK)
    for side in axes.spines.values():
        side.set_visible(False)
    figure.savefig(path, facecolor=PAGE)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=100, help="passes over the points (100, the paper's)")
    parser.add_argument("--points", type=int, default=2000, help="pairs to learn from (2000, the paper's)")
    parser.add_argument("--fresh", type=int, default=20_000, help="pairs to measure on (20000)")
    parser.add_argument("--learning-rate", type=float, default=0.03, help="of Adam (0.03, the paper's)")
    parser.add_argument("--seeds", type=int, default=5, help="of points and initial weights (5, the paper's)")
    parser.add_argument("--out", default="toy_mutual_information.png", help="the picture")
    settings = parser.parse_args(argv)
    begin, rng = time.perf_counter(), np.random.default_rng(0)
    pairs, fresh = draw(rng, settings.seeds, settings.points), draw(rng, settings.seeds, settings.fresh)
    print(f"true {TRUE:.5f}\n{'':<14}{'estimate':>10}{'spread':>10}{'paper':>11}{'analytic':>11}{'blind':>11}")
    estimates, exact, blind = [], [], []
    for percent, theirs in zip(PERCENT, PAPER):
        keras.utils.set_random_seed(percent)  # of the order of the points
        model = Critics(pairs, percent)
        model.compile(keras.optimizers.Adam(settings.learning_rate))
        model.fit(np.arange(settings.points), batch_size=128, epochs=settings.epochs, verbose=0)
        estimates.append(model.measure(fresh, percent))
        for column, value in zip((exact, blind), untrained(percent, fresh)):
            column.append(value)
        name = "InfoNCE" if percent == 100 else f"VINCE ({percent}%)"
        spread = f"{np.mean(estimates[-1]):10.5f}{np.std(estimates[-1]):10.5f}"
        print(f"{name:<14}{spread}{theirs:11.2g}{exact[-1]:11.5f}{blind[-1]:11.5f}", flush=True)
    picture(settings.out, np.array(estimates), exact, blind)
    print(f"\n{(time.perf_counter() - begin) / 60:.1f} minutes. Picture: {settings.out}")
    return np.array(estimates), np.array(exact), np.array(blind)


if __name__ == "__main__":
    main()
