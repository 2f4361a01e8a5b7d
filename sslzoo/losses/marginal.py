"""Objectives that fix the marginal: what embeddings of all images together are to look like.

LeJEPA and VISReg ask for samples of N(0, I). `invariance` pulls the views of an image together, around the center of
its global views. The other terms do not push images apart one from the other; they hold the distribution of all of them
against a standard normal one, along random directions ("slices"), where it is a question about numbers. Directions are
an argument, so that nothing here is random: draw them anew for each step, with `directions`.

Alignment and uniformity ask for the uniform distribution on the unit sphere. There is no slice: images repel in pairs,
and the uniform distribution is where the repulsion is least.

Terms are unweighted, float32 scalars, to be minimized; inputs of any float dtype are taken to float32 first.

References:
    LeJEPA: Balestriero and LeCun, "LeJEPA: Provable and Scalable Self-Supervised Learning Without the Heuristics"
        (arXiv 2511.08544), definitions 2 and 3: the Epps-Pulley statistic of slices, and the whole loss.
    VISReg: "Variance-Invariance-Sketching Regularization" (arXiv 2606.02572): invariance, scale, shape and center.
    Alignment and uniformity: Wang and Isola, "Understanding Contrastive Representation Learning through Alignment and
        Uniformity on the Hypersphere" (arXiv 2005.10242), section 4.1.
"""

import math

import keras
import numpy as np
from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError
from sslzoo.losses.tensors import check_pairs, differ, float32, grouped, static_shape, unit

# Where the characteristic function is looked at: t = 0 ... 3, which stands for [-3, 3], everything there being even.
KNOTS = np.linspace(0.0, 3.0, 17)
WINDOW = np.exp(-(KNOTS**2) / 2)  # of the standard normal distribution, and the weight of each t
TRAPEZOID = 2 * (KNOTS[1] - KNOTS[0]) * np.where(np.isin(np.arange(17), (0, 16)), 0.5, 1.0)


def directions(size: int, count: int, seed: "int | keras.random.SeedGenerator"):
    """Random directions: float32 (size, count), columns uniform on the unit sphere.

    Args:
        size: int >= 1, D, of the embeddings.
        count: int >= 1.
        seed: int, for the same ones each time, or `keras.random.SeedGenerator`.
    """
    return unit(keras.random.normal((size, count), dtype="float32", seed=seed), axis=0)


def sigreg(z, directions):
    """Sketched isotropic Gaussian regularization: how far slices of the embeddings are from N(0, 1).

    Along each direction a, with x = z a over the B images of a view, the Epps-Pulley statistic

        B integral of |mean exp(i t x) - exp(-t^2/2)|^2 exp(-t^2/2) dt   over [-3, 3], by 17 knots on [0, 3],

    averaged over directions and views.

    Example:
        z = np.random.default_rng(0).normal(size=(32, 4, 8))
        a = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0]
        statistic = losses.sigreg(z, directions=a)

    Args:
        z: float tensor (B, J, D), embeddings of J views; each view is compared with N(0, I) by itself.
        directions: float tensor (D, K), columns of unit length.

    Returns:
        Float32 scalar >= 0, of about the same size for any B while z is N(0, I), and growing with B otherwise:
        about `B integral (1 - exp(-t^2/2))^2 exp(-t^2/2) dt` where all embeddings are 0, where its gradient vanishes,
        and more where all are at another point.
    """
    z, directions = _sliced(z, directions)
    # Knots lie evenly, so each is one turn of the last: one sine and cosine for all of them. At t = 0 nothing is wrong.
    turn = ops.einsum("bjd,dk->bjk", z, directions) * float(KNOTS[1])
    turn_cos, turn_sin = ops.cos(turn), ops.sin(turn)
    cos, sin, statistic = turn_cos, turn_sin, 0.0
    for window, weight in zip(WINDOW[1:], (TRAPEZOID * WINDOW)[1:]):
        error = ops.square(ops.mean(cos, axis=0) - float(window)) + ops.square(ops.mean(sin, axis=0))
        statistic += float(weight) * ops.mean(error)
        cos, sin = cos * turn_cos - sin * turn_sin, sin * turn_cos + cos * turn_sin
    return ops.cast(ops.shape(z)[0], "float32") * statistic


def lejepa_terms(z, directions, num_global: int | None = None) -> dict:
    """The two terms of LeJEPA.

    invariance = mean over images, views and coordinates of (z_v - mean over global views of z)^2
    sigreg     = `sigreg` of all views

    Example:
        z = np.random.default_rng(0).normal(size=(32, 4, 8))
        a = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0]
        terms = losses.lejepa_terms(z, a, num_global=2)

    Args:
        z: float tensor (B, J, D), embeddings of J views, the global ones first.
        directions: float tensor (D, K), columns of unit length; the paper's K is 1024.
        num_global: int in 1..J, how many views are global; None for all.

    Returns:
        dict of float32 scalars >= 0: "invariance" (pull) and "sigreg" (fixes the marginal).
    """
    return {"invariance": view_invariance(z, num_global), "sigreg": sigreg(z, directions)}


def visreg_terms(z, directions, num_global: int | None = None) -> dict:
    """The four terms of VISReg: scale and shape of the marginal are asked for by themselves.

    invariance = as in LeJEPA
    scale      = mean over views and coordinates of (1 - std)^2, std over the B images, divided by B
    shape      = sliced Wasserstein distance of the standardized embeddings to N(0, I): mean over views and slices of
                 (i-th smallest of the B numbers - Phi^-1(i / (B + 1)))^2
    center     = mean over views and coordinates of (mean over images)^2

    `shape` standardizes by (std + 1e-4) held constant, so that it moves points against each other and leaves their
    spread to `scale`, whose gradient is there also where embeddings have collapsed.

    Example:
        z = np.random.default_rng(0).normal(size=(32, 4, 8))
        a = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0]
        terms = losses.visreg_terms(z, a)

    Args:
        z, directions, num_global: as in `lejepa_terms`; the paper has 4096 directions.

    Returns:
        dict of float32 scalars >= 0: "invariance" (pull), "scale", "shape" and "center" (fix the marginal).
    """
    invariance = view_invariance(z, num_global)
    z, directions = _sliced(z, directions)
    mean = ops.mean(z, axis=0)
    variance = ops.mean(ops.square(z - mean), axis=0)
    # The root's slope is infinite where nothing varies; there the deviation is 0, and so is its gradient.
    alive = variance > 1e-24
    deviation = ops.where(alive, ops.sqrt(ops.where(alive, variance, 1.0)), 0.0)
    standard = (z - mean) / (ops.stop_gradient(deviation) + 1e-4)
    slices = ops.sort(ops.einsum("bjd,dk->bjk", standard, directions), axis=0)
    count = ops.cast(ops.shape(z)[0], "float32")
    ranks = ops.arange(1, ops.shape(z)[0] + 1, dtype="float32") / (count + 1.0)
    normal = math.sqrt(2.0) * ops.erfinv(2.0 * ranks - 1.0)
    return {
        "invariance": invariance,
        "scale": ops.mean(ops.square(1.0 - deviation)),
        "shape": ops.mean(ops.square(slices - normal[:, None, None])),
        "center": ops.mean(ops.square(mean)),
    }


def view_invariance(z, num_global: int | None = None):
    """Mean squared distance, per coordinate, of each view from the center of the global views of its image.

    J / 2 times this, summed over coordinates, is SimVAE's prior of unit variance, where all views are global.

    Example:
        z = np.random.default_rng(0).normal(size=(32, 4, 8))
        distance = losses.view_invariance(z, num_global=2)

    Args:
        z: float tensor (B, J, D), the global views first.
        num_global: int in 1..J, or None for all.

    Returns:
        Float32 scalar >= 0.
    """
    z = grouped(z)
    views = static_shape(z)[1]
    num_global = views if num_global is None else checks.count(num_global=num_global)
    if num_global > views:
        raise InvalidInputError(f"num_global must be at most {views}, the views. Received: num_global={num_global}")
    return ops.mean(ops.square(z - ops.mean(z[:, :num_global], axis=1, keepdims=True)))


def _sliced(z, directions):
    """Both as float32, if they have the shapes of embeddings of views and of directions."""
    z, directions = grouped(z), float32(directions)
    if len(static_shape(directions)) != 2 or differ(directions.shape[0], z.shape[2]):
        raise InvalidInputError(
            f"directions must have shape ({z.shape[2]}, K), one direction a column. "
            f"Received: directions.shape={static_shape(directions)}"
        )
    return z, directions


def align_uniform_terms(z_a, z_b, t: float = 2.0) -> dict:
    """The two terms of Wang and Isola: views of an image agree, and images spread evenly over the unit sphere.

    alignment  = mean over images of |z - z'|^2
    uniformity = mean over both views of log mean_{i != j} exp(-t |z_i - z_j|^2), a view's images among themselves

    Example:
        z_a, z_b = np.random.default_rng(0).normal(size=(2, 32, 8))
        terms = losses.align_uniform_terms(z_a, z_b)

    Args:
        z_a, z_b: float tensors (B, D), first and second view of each image; normalized here, B >= 2. A row of zeros
            has a cosine of 0 with any other, and no gradient.
        t: float > 0, how near another image must be to matter: a Gaussian kernel of variance 1 / (2 t).

    Returns:
        dict of float32 scalars: "alignment" in [0, 4] (pull) and "uniformity" in [-4 t, 0] (push). Both are 0 where
        all embeddings are equal, and the gradient of uniformity vanishes there.

    Reference:
        Wang and Isola, "Understanding Contrastive Representation Learning through Alignment and Uniformity on the
        Hypersphere" (arXiv 2005.10242), section 4.1, with the alpha of 2 of its released code.
    """
    checks.positive(t=t)
    z_a, z_b = unit(z_a), unit(z_b)
    check_pairs(least=2, z_a=z_a, z_b=z_b)
    return {
        "alignment": 2.0 - 2.0 * ops.mean(ops.sum(z_a * z_b, axis=1)),  # |z - z'|^2 of unit rows
        "uniformity": (_uniformity(z_a, t) + _uniformity(z_b, t)) / 2.0,
    }


def _uniformity(z, t):
    """Log of the mean Gaussian kernel between unit rows, each with all others."""
    count = ops.shape(z)[0]
    energies = t * (2.0 * ops.matmul(z, ops.transpose(z)) - 2.0)  # -t |z_i - z_j|^2
    others = ops.where(ops.eye(count, dtype="bool"), -float("inf"), energies)
    count = ops.cast(count, "float32")
    return ops.logsumexp(others) - ops.log(count * (count - 1.0))
