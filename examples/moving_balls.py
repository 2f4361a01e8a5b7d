"""Where are the balls? Three encoders of one video, told apart by what they believe of the next frame.

    KERAS_BACKEND=jax python examples/moving_balls.py                 # 2.6 minutes of CPU time
    python examples/moving_balls.py --size 256 --optimizer sgd        # nearest to the paper; hours on a CPU

The experiment of "InfoNCE is a variational autoencoder", section 4. An encoder of two convolutions gives six numbers
for a frame, the centers of mass of three maps. InfoNCE trains it to find the next frame of the video among others, with
one of two critics, each of which is a prior:

    linear      log f(z, z') = z^T W z'                 next latents lie far out in some direction
    Gaussian    log f(z, z') = -|z - z'|^2 / (2 L^2)    next latents lie near the present ones

and regression on the true positions shows what the network can do. Of every encoder, positions are then decoded by
least squares on its frozen output: fitted on the first 700 frames, measured on the last 200.

    mean distance on held-out frames, px   coral     sky    lime    mean     (three videos)
    predicting the mean                     94.6    94.6    92.6    93.9
    untrained encoder                       39.4    44.1    53.3    45.6
    InfoNCE, linear                          3.3    82.7    48.0    44.7
    InfoNCE, Gaussian                        5.2     5.1     5.4     5.3
    supervised                               2.4     2.6     2.4     2.5

The first line predicts each ball's mean position; the second decodes the encoder before any training, whose maps are
random mixtures of the balls, so that their centers already say something. The linear prior finds coral in each of the
three videos, lime in one, sky in none: what it has not told apart is decoded to the middle between the balls in
question. More training hardly mends that: after 100 epochs the first video still gives one ball, after 70 the second
gives two.

Frames are averaged down to --size pixels before the networks see them; distances are in pixels of the 256x256 video.
The paper has 256 pixels and SGD at 0.005, and leaves open the units of z, which decide what that rate means. Here
coordinates run from -1 to 1, L starts at 0.2, and Adam at 0.02 is the default: at 0.005 one Gaussian run of three needs
40 epochs rather than 30, and a run with SGD at 0.005 was still at 48 pixels after 30, and falling.
"""

import argparse
import time

import keras
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sslzoo.data import moving_balls
from sslzoo.methods import InfoNCE
from sslzoo.networks import BilinearCritic, GaussianCritic, center_of_mass_encoder

VIDEO, DIAMETER = 256, 32  # pixels
TRAINING = 700  # of 900 frames
BALLS = ("coral", "sky", "lime")
METHODS = {"linear": "InfoNCE, linear", "gaussian": "InfoNCE, Gaussian", "supervised": "supervised"}


class Pairs(keras.utils.PyDataset):
    """Batches of (frame, next frame), (batch_size, 2, H, W, C), in an order drawn anew for each epoch."""

    def __init__(self, frames, batch_size, seed):
        super().__init__()
        self.frames, self.batch_size, self.rng = frames, batch_size, np.random.default_rng(seed)
        self.on_epoch_end()

    def __len__(self):
        return (len(self.frames) - 1) // self.batch_size

    def __getitem__(self, index):
        first = self.order[index * self.batch_size : (index + 1) * self.batch_size]
        return (np.stack([self.frames[first], self.frames[first + 1]], axis=1),)

    def on_epoch_end(self):
        self.order = self.rng.permutation(len(self.frames) - 1)


def seen(images, size):
    """uint8 frames (T, S, S, 3) -> what the networks see: averaged down to `size`, in [0, 1]."""
    parts = VIDEO // size
    return (images.reshape(-1, size, parts, size, parts, 3).mean((2, 4)) / 255).astype("float32")


def encode(encoder, images, size):
    """(T, 6) for uint8 frames of any number."""
    batches = (images[start : start + 100] for start in range(0, len(images), 100))
    return np.concatenate([encoder.predict(seen(batch, size), verbose=0) for batch in batches])


def train(method, frames, positions, settings, seed):
    """A trained encoder, and its critic if it has one."""
    keras.utils.set_random_seed(seed)  # of the order of frames
    encoder = center_of_mass_encoder(frames.shape[1:], maps=len(BALLS), seed=seed)
    kind, rate = {"adam": (keras.optimizers.Adam, 0.02), "sgd": (keras.optimizers.SGD, 0.005)}[settings.optimizer]
    optimizer = kind(settings.learning_rate or rate)
    if method == "supervised":
        encoder.compile(optimizer, loss="mse")
        targets = (2 * positions.reshape(len(frames), -1) + 1) / VIDEO - 1  # pixels -> the encoder's -1..1
        encoder.fit(frames, targets, batch_size=settings.batch_size, epochs=settings.epochs, verbose=0)
        return encoder, None
    critic = GaussianCritic(settings.length_scale) if method == "gaussian" else BilinearCritic(2 * len(BALLS))
    model = InfoNCE(encoder, critic=critic)
    model.compile(optimizer)
    model.fit(Pairs(frames, settings.batch_size, seed), epochs=settings.epochs, verbose=0)
    return encoder, critic


def measure(encoder, images, positions, size):
    """Positions decoded by least squares (T, 3, 2), and their mean distance from the true ones for each ball (3,)."""
    design = np.column_stack([encode(encoder, images, size), np.ones(len(images))])
    weights = np.linalg.lstsq(design[:TRAINING], positions[:TRAINING].reshape(TRAINING, -1), rcond=None)[0]
    decoded = (design @ weights).reshape(positions.shape)
    return decoded, np.linalg.norm(decoded - positions, axis=2)[TRAINING:].mean(0)


def next_place(encoder, critic, positions, t, size, grid=32):
    """P(z' | z_t) over places of the coral ball, the others being where they are next: (grid, grid), mean 1."""
    ticks = (np.arange(grid) + 0.5) * VIDEO / grid - 0.5
    places = np.repeat(positions[t + 1][None], grid * grid, axis=0)
    places[:, 0] = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    present = encode(encoder, moving_balls.draw(positions[t : t + 1], VIDEO, DIAMETER), size)
    following = [
        encode(encoder, moving_balls.draw(places[start : start + 512], VIDEO, DIAMETER), size)
        for start in range(0, len(places), 512)
    ]
    scores = keras.ops.convert_to_numpy(critic(present, np.concatenate(following)))[0].astype("float64")
    density = np.exp(scores - scores.max())
    return (density / density.mean()).reshape(grid, grid)


# ------------------------------------------------------------------ the picture

PAPER, INK, GRAY = "#fbfaf7", "#222222", "#77736b"
SHADES = {"linear": "#c9a227", "gaussian": "#3c6e9f", "supervised": "#5b8c5a"}


def picture(path, images, positions, decoded, errors, baseline, densities, t):
    figure = Figure(figsize=(12.4, 7.6), dpi=110, facecolor=PAPER)
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 12, left=0.03, right=0.975, top=0.84, bottom=0.06, hspace=0.22, wspace=0.5)
    figure.text(
        0.03,
        0.945,
        "What is believed of the next frame decides what is learned",
        fontsize=17,
        color=INK,
        fontweight="bold",
    )
    figure.text(
        0.03,
        0.905,
        "Positions of three balls, decoded by least squares from six numbers for each frame of a "
        "video; frames that no encoder was trained on",
        fontsize=11,
        color=GRAY,
    )

    def panel(place, title, image=None):
        axes = figure.add_subplot(place, facecolor=PAPER)
        axes.set_title(title, loc="left", fontsize=11, color=INK, pad=6)
        if image is not None:
            axes.imshow(image, extent=(-0.5, VIDEO - 0.5, VIDEO - 0.5, -0.5), interpolation="antialiased")
            axes.set(xticks=[], yticks=[], xlim=(-0.5, VIDEO - 0.5), ylim=(VIDEO - 0.5, -0.5))
            for side in axes.spines.values():
                side.set_visible(False)
        return axes

    colors = np.array(moving_balls.COLORS) / 255

    # A: where they come from and where they go
    ghost = 0.35 * images[t - 1].astype(float) + 0.65 * images[t]
    ghost = np.maximum(images[t], ghost)
    axes = panel(grid[0, 0:3], "A   the balls move", ghost / 255)
    for start, end in zip(positions[t], positions[t + 1]):
        axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "white", "linewidth": 1.6})

    # B to D: true and decoded
    for column, (method, name) in enumerate(METHODS.items(), 1):
        axes = panel(grid[0, 3 * column : 3 * column + 3], f"{' BCD'[column]}   {name}", 0.55 * images[t] / 255)
        for ball, color in enumerate(colors):
            (x, y), (found_x, found_y) = positions[t, ball], decoded[method][t, ball]
            axes.plot([x, found_x], [y, found_y], color=color, linewidth=1.2, alpha=0.8)
            axes.plot(found_x, found_y, "o", markersize=11, markerfacecolor="none", color="white", markeredgewidth=1.6)
            axes.plot(found_x, found_y, ".", markersize=4, color="white", clip_on=True)

    # E: how far off
    box = grid[1, 0:6].get_position(figure)
    labels, ticks = 0.12, 0.03  # room for them inside the box
    axes = figure.add_axes(
        [box.x0 + labels, box.y0 + ticks, box.width - labels - 0.02, box.height - ticks], facecolor=PAPER
    )
    title = "E   mean distance from the true center, pixels; a dot for each ball and video"
    axes.set_title(title, x=-labels / (box.width - labels - 0.02), loc="left", fontsize=11, color=INK, pad=6)
    for row, method in enumerate(reversed(METHODS)):
        per_ball = errors[method]  # (seeds, balls)
        mean = per_ball.mean()
        axes.barh(row, mean, height=0.56, color=SHADES[method], zorder=2)
        axes.text(per_ball.max() + 2, row, f"{mean:.1f}", va="center", fontsize=11, color=INK, fontweight="bold")
        for ball, color in enumerate(colors):
            axes.scatter(
                per_ball[:, ball],
                row + np.linspace(-0.12, 0.12, 3)[ball] + np.zeros(len(per_ball)),
                s=26,
                color=color,
                edgecolor=INK,
                linewidth=0.6,
                zorder=3,
            )
    axes.axvline(baseline, color=GRAY, linestyle=(0, (4, 3)), linewidth=1.2)
    axes.text(baseline - 1.5, 2.62, "predicting the mean position", ha="right", va="center", fontsize=9.5, color=GRAY)
    axes.set(yticks=range(3), yticklabels=reversed(METHODS.values()), xlim=(0, baseline * 1.06), ylim=(-0.5, 2.8))
    axes.tick_params(length=0, colors=GRAY, labelsize=10)
    for label in axes.get_yticklabels():
        label.set(color=INK, fontsize=11)
    axes.grid(axis="x", color="#e6e2d8", linewidth=0.8, zorder=0)
    for side in axes.spines.values():
        side.set_visible(False)

    # F, G: where the coral ball is believed to be next
    for letter, column, method in (("F", 6, "gaussian"), ("G", 9, "linear")):
        place, density = grid[1, column : column + 3], densities[method]
        axes = panel(
            place, f"{letter}   next place of coral: {METHODS[method].split(', ')[1]}", density / density.max()
        )
        axes.images[0].set(cmap="magma", clim=(0, 1), interpolation="bilinear")
        for where, style in ((positions[t, 0], {"markerfacecolor": "none"}), (positions[t + 1, 0], {})):
            axes.plot(*where, "o", markersize=9, color=colors[0], markeredgewidth=1.6, markeredgecolor="white", **style)
    axes.text(1, -0.06, "ring: now    dot: next", transform=axes.transAxes, ha="right", fontsize=9.5, color=GRAY)
    figure.savefig(path, facecolor=PAPER)


# ------------------------------------------------------------------ the experiment


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=32, choices=(16, 32, 64, 128, 256), help="pixels networks see (32)")
    parser.add_argument("--epochs", type=int, default=30, help="passes over the 699 pairs (30, the paper's)")
    parser.add_argument("--batch-size", type=int, default=30, help="pairs per step (30, the paper's)")
    parser.add_argument("--optimizer", choices=("adam", "sgd"), default="adam", help="the paper has SGD")
    parser.add_argument("--learning-rate", type=float, help="0.02 of Adam; 0.005 of SGD, the paper's")
    parser.add_argument("--length-scale", type=float, default=0.2, help="L at the start, of latents in -1..1 (0.2)")
    parser.add_argument("--seeds", type=int, default=3, help="number of videos and initial weights (3)")
    parser.add_argument("--out", default="moving_balls.png", help="the picture")
    settings = parser.parse_args(argv)

    errors, untrained, baselines, begin = {method: [] for method in METHODS}, [], [], time.perf_counter()
    for seed in range(settings.seeds):
        images, positions = moving_balls.moving_balls(seed=seed)
        frames = seen(images[:TRAINING], settings.size)
        decoded, critics, encoders = {}, {}, {}

        mean_positions = positions[:TRAINING].mean(0)
        baselines.append(np.linalg.norm(positions - mean_positions, axis=2)[TRAINING:].mean(0))
        start = center_of_mass_encoder(frames.shape[1:], maps=len(BALLS), seed=seed)
        untrained.append(measure(start, images, positions, settings.size)[1])
        for method in METHODS:
            clock = time.perf_counter()
            encoders[method], critics[method] = train(method, frames, positions[:TRAINING], settings, seed)
            decoded[method], error = measure(encoders[method], images, positions, settings.size)
            errors[method].append(error)
            learned = f", L = {np.exp(float(critics[method].log_length_scale)):.3f}" if method == "gaussian" else ""
            print(
                f"seed {seed}  {METHODS[method]:<20}{error.mean():6.1f} px{learned}  "
                f"({time.perf_counter() - clock:.0f} s)",
                flush=True,
            )
        if seed == 0:
            t = TRAINING + 50
            densities = {
                method: next_place(encoders[method], critics[method], positions, t, settings.size)
                for method in ("gaussian", "linear")
            }
            shown = (images, positions, decoded, densities, t)

    rows = {"predicting the mean": baselines, "untrained encoder": untrained}
    rows |= {METHODS[method]: errors[method] for method in METHODS}
    print(f"\nmean distance on held-out frames, px{''.join(f'{ball:>8}' for ball in BALLS)}    mean")
    for name, values in rows.items():
        print(f"{name:<36}{''.join(f'{value:8.1f}' for value in np.mean(values, axis=0))}{np.mean(values):8.1f}")

    images, positions, decoded, densities, t = shown
    errors = {method: np.array(values) for method, values in errors.items()}
    picture(settings.out, images, positions, decoded, errors, np.mean(baselines), densities, t)
    print(f"\n{(time.perf_counter() - begin) / 60:.1f} minutes. Picture: {settings.out}")


if __name__ == "__main__":
    main()
