"""Optimizers and learning rates of the self-supervised recipes, where Keras has none or means something else.

Weight decay here is the L2 penalty of the papers' own code: `weight_decay * w` joins the gradient and passes through
the momentum. In Keras' optimizers it is decoupled (w <- w - rate weight_decay w), which is weaker by 1 - momentum.

The momentum is Keras', and that of the LARS paper: the rate is inside the velocity, v <- momentum v + rate g,
w <- w - v. PyTorch, and so the peers' LARS, has it outside: v <- momentum v + g, w <- w - rate v. At a constant rate
the two are one rule; under a schedule they differ by what the rate changes in about 1 / (1 - momentum) steps.
"""

import sslzoo.backend  # noqa: F401 - before Keras

# isort: split
import math
import re

import keras
from keras import ops

from sslzoo import checks
from sslzoo.errors import InvalidInputError, choose

Rate = float | keras.optimizers.schedules.LearningRateSchedule


@keras.saving.register_keras_serializable("sslzoo")
class L2SGD(keras.optimizers.SGD):
    """SGD with momentum whose weight decay is an L2 penalty.

        v <- momentum v + rate (g + weight_decay w),    w <- w - v

    Example:
        import keras
        from sslzoo import optimizers

        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        model.compile(optimizers.L2SGD(0.1, momentum=0.9, weight_decay=1e-4), loss="mse")

    Args:
        learning_rate: float > 0, or a `keras.optimizers.schedules.LearningRateSchedule`.
        momentum: float in [0, 1].
        weight_decay: float >= 0, the penalty is weight_decay / 2 |w|^2.
        exclude_bias_and_norm: bool, no penalty on biases (those of attention have two dimensions), and the scales and
            offsets of normalization.
        nesterov: bool, w <- w - (momentum v + rate (g + weight_decay w)) in the last step.
        **kwargs: what every Keras optimizer takes (`name`, `clipnorm`, `gradient_accumulation_steps` ...).

    Raises:
        InvalidInputError: weight_decay is not a number >= 0.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.01,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        exclude_bias_and_norm: bool = False,
        nesterov: bool = False,
        **kwargs,
    ):
        checks.number(0, weight_decay=weight_decay)
        super().__init__(learning_rate, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay, **kwargs)
        self.exclude_bias_and_norm = exclude_bias_and_norm

    def is_excluded(self, variable) -> bool:
        """Whether `variable` is a bias, or a scale or offset of normalization, and those are left out."""
        return self.exclude_bias_and_norm and (len(variable.shape) < 2 or _is_bias(variable))

    def decay_of(self, variable) -> float:
        """The weight decay in force for `variable`; `exclude_from_weight_decay` of Keras is heard, too."""
        return 0.0 if self.is_excluded(variable) or not self._use_weight_decay(variable) else self.weight_decay

    def direction(self, gradient, variable, learning_rate):
        """What the momentum gathers, for a gradient of the variable's dtype."""
        return gradient + self.decay_of(variable) * ops.convert_to_tensor(variable)

    def update_step(self, gradient, variable, learning_rate):
        gradient = self.direction(ops.cast(gradient, variable.dtype), variable, learning_rate)
        super().update_step(gradient, variable, learning_rate)

    def _apply_weight_decay(self, variables):
        """Keras' decoupled decay: replaced by the penalty in `direction`."""

    def get_config(self):
        return {**super().get_config(), "exclude_bias_and_norm": self.exclude_bias_and_norm}


@keras.saving.register_keras_serializable("sslzoo")
class L2Adam(keras.optimizers.Adam):
    """Adam whose weight decay is an L2 penalty: weight_decay w joins the gradient, as in PyTorch's `Adam`.

    The penalty is divided by the root of the second moment like the rest of the gradient, so weights whose gradients
    are large are held less: AdamW, and Keras' own `weight_decay`, do not divide it.

    Example:
        import keras
        from sslzoo import optimizers

        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        model.compile(optimizers.L2Adam(1e-4, weight_decay=1e-4), loss="mse")

    Args:
        learning_rate: float > 0, or a `keras.optimizers.schedules.LearningRateSchedule`.
        weight_decay: float >= 0, the penalty is weight_decay / 2 |w|^2; none of a variable that `UnitNorm` constrains.
        **kwargs: what `keras.optimizers.Adam` takes (`beta_1`, `epsilon`, `gradient_accumulation_steps` ...).

    Raises:
        InvalidInputError: weight_decay is not a number >= 0.
    """

    def __init__(self, learning_rate: Rate = 0.001, weight_decay: float = 0.0, **kwargs):
        checks.number(0, weight_decay=weight_decay)
        super().__init__(learning_rate, weight_decay=weight_decay, **kwargs)

    def build(self, variables):
        # Vectors held at length 1 have no length to lose, and a penalty on them turns them: the second moment divides
        # each coordinate of it by its own size, also where there is no other gradient.
        units = [each for each in variables if isinstance(each.constraint, keras.constraints.UnitNorm)]
        self._units = {self._var_key(variable) for variable in units}
        super().build(variables)

    def update_step(self, gradient, variable, learning_rate):
        decayed = self._use_weight_decay(variable) and self._var_key(variable) not in self._units
        decay = self.weight_decay if decayed else 0.0
        gradient = ops.cast(gradient, variable.dtype) + decay * ops.convert_to_tensor(variable)
        super().update_step(gradient, variable, learning_rate)

    def _apply_weight_decay(self, variables):
        """Keras' decoupled decay: replaced by the penalty."""


@keras.saving.register_keras_serializable("sslzoo")
class LARS(L2SGD):
    """Layer-wise adaptive rate scaling: each variable moves by a share of its own norm, however long its gradient.

        ratio = trust_coefficient |w| / (|g| + weight_decay |w| + epsilon)
        v <- momentum v + rate ratio (g + weight_decay w),    w <- w - v

    with one ratio per variable, which is 1 where w or g is zero. With `clip` it becomes min(ratio / rate, 1): the
    variable's own rate is `ratio`, and the global rate only its upper limit (known as LARC). The CIFAR recipes of
    solo-learn are `trust_coefficient=0.02, clip=True`.

    Example:
        import keras
        from sslzoo import optimizers

        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        rate = optimizers.warmup_cosine(0.3, total_steps=1000, warmup_steps=100)
        model.compile(optimizers.LARS(rate, weight_decay=1e-6), loss="mse")

    Args:
        learning_rate: float > 0, or a `keras.optimizers.schedules.LearningRateSchedule`: the paper's global rate.
        momentum: float in [0, 1].
        weight_decay: float >= 0, the penalty is weight_decay / 2 |w|^2.
        trust_coefficient: float > 0, the paper's eta.
        clip: bool, limit the variable's own rate by the global one instead of multiplying the two.
        exclude_bias_and_norm: bool, variables of fewer than two dimensions (biases, and the scales and offsets of
            normalization) are trained by SGD with the same momentum, without ratio and penalty, as in SimCLR and BYOL.
        epsilon: float >= 0, so that a vanishing gradient does not make a full step. The paper has none.
        nesterov, **kwargs: as in `L2SGD`.

    Raises:
        InvalidInputError: weight_decay or epsilon is not a number >= 0, or trust_coefficient not one > 0.

    Reference:
        You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks", eq. 6 and algorithm 1.
    """

    def __init__(
        self,
        learning_rate: Rate,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust_coefficient: float = 0.001,
        clip: bool = False,
        exclude_bias_and_norm: bool = True,
        epsilon: float = 1e-8,
        nesterov: bool = False,
        **kwargs,
    ):
        checks.positive(trust_coefficient=trust_coefficient)
        checks.number(0, epsilon=epsilon)
        super().__init__(learning_rate, momentum, weight_decay, exclude_bias_and_norm, nesterov, **kwargs)
        self.trust_coefficient = trust_coefficient
        self.clip = clip
        self.epsilon = epsilon

    def trust_ratio(self, gradient, variable, learning_rate):
        """What the rate of `variable` is multiplied by: float32 scalar > 0."""
        # Not ops.norm, which does not take scalars on every backend.
        w_norm, g_norm = (ops.sqrt(ops.sum(ops.square(ops.cast(x, "float32")))) for x in (variable, gradient))
        defined = ops.logical_and(w_norm > 0, g_norm > 0)
        denominator = g_norm + self.decay_of(variable) * w_norm + self.epsilon
        ratio = self.trust_coefficient * w_norm / ops.where(defined, denominator, 1.0)
        if self.clip:  # at a rate of 0, where warm-up begins, any finite ratio will do
            rate = ops.maximum(ops.cast(learning_rate, "float32"), 1e-30)
            ratio = ops.minimum(ratio, rate) / rate
        return ops.where(defined, ratio, 1.0)

    def direction(self, gradient, variable, learning_rate):
        if self.is_excluded(variable):
            return gradient
        ratio = ops.cast(self.trust_ratio(gradient, variable, learning_rate), variable.dtype)
        return ratio * super().direction(gradient, variable, learning_rate)

    def get_config(self):
        own = {"trust_coefficient": self.trust_coefficient, "clip": self.clip, "epsilon": self.epsilon}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("sslzoo")
class Muon(keras.optimizers.Muon):
    """Keras' Muon, which here moves convolution kernels too: by momentum that is made orthogonal, not by Adam.

        m <- momentum m + g,    u = g + momentum m,    w <- w - rate 0.2 sqrt(max(n, k)) orthogonal(u)

    with u a matrix of n rows and k columns; a kernel (height, width, in, out) is the matrix (height width in, out).
    orthogonal(u) is U V' of u = U S V', to the accuracy of five Newton-Schulz steps, which leave singular values
    between about 0.7 and 1.2. The factor gives the update the root mean square of an update by Adam, so that one rate
    serves both. All else (biases, scales, embeddings, the kernels of attention, which have three dimensions, and those
    that `exclude_layers` names) moves by Adam at the same rate.

    Example:
        import keras
        from sslzoo import optimizers

        model = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Conv2D(4, 3), keras.layers.Flatten()])
        model.compile(optimizers.Muon(4e-3), loss="mse")

    Args:
        learning_rate: float > 0, or a `keras.optimizers.schedules.LearningRateSchedule`.
        weight_decay: float >= 0, decoupled: w <- w - rate weight_decay w, for every variable that decays.
        exclude_layers: list of str, regular expressions; kernels whose path has one move by Adam. None excludes the
            stems, patches and positions, and last layers, of this package's networks (`ENDS`), as Muon's author
            advises; first convolutions that are no stem ("conv1") stay.
        iteration_dtype: str, dtype of the Newton-Schulz steps; "bfloat16" is enough, and faster where the processor
            has such instructions.
        **kwargs: what `keras.optimizers.Muon` takes (`momentum`, `ns_steps`, `gradient_accumulation_steps` ...).

    Raises:
        InvalidInputError: weight_decay is not a number >= 0; `exclude_layers` is no list of regular expressions.
        UnknownNameError: no such `iteration_dtype`.

    References:
        Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024); the factor is that of Liu et
        al., "Muon is Scalable for LLM Training" (arXiv 2502.16982), eq. 4.
    """

    ENDS = ("stem", "patches", "positions", "latent", "mean/", "log_var", "projection", "prototypes", "output")

    def __init__(
        self,
        learning_rate: Rate = 0.004,
        weight_decay: float = 0.0,
        exclude_layers: "list[str] | None" = None,
        iteration_dtype: str = "float32",
        **kwargs,
    ):
        checks.number(0, weight_decay=weight_decay)
        kwargs.setdefault("adam_weight_decay", weight_decay)
        if isinstance(exclude_layers, str):
            raise InvalidInputError(f"exclude_layers must be a list of texts. Received: {exclude_layers=}")
        exclude_layers = list(self.ENDS if exclude_layers is None else exclude_layers)
        for pattern in exclude_layers:
            try:
                re.compile(pattern)
            except (re.error, TypeError) as error:
                raise InvalidInputError(
                    f"exclude_layers must be regular expressions ({error}). Received: {exclude_layers=}"
                ) from error
        choose("iteration_dtype", iteration_dtype, ("float32", "bfloat16", "float16"))
        super().__init__(learning_rate, weight_decay=weight_decay, exclude_layers=exclude_layers, **kwargs)
        self.iteration_dtype = iteration_dtype

    def _should_use_adamw(self, variable) -> bool:
        excluded = any(re.search(pattern, variable.path) for pattern in self.exclude_layers)
        embedding = self.exclude_embeddings and "embedding" in variable.path.lower()
        return excluded or embedding or _is_bias(variable) or len(variable.shape) not in (2, 4)

    def zeropower_via_newtonschulz5(self, x, steps: int):
        """`x`, a matrix or a kernel, with its singular values moved towards 1; float32, of the same shape."""
        matrix = ops.reshape(x, (-1, x.shape[-1]))
        tall = matrix.shape[0] > matrix.shape[1]
        matrix = ops.transpose(matrix) if tall else matrix
        norm = ops.sqrt(ops.sum(ops.square(matrix)))  # at least the largest singular value
        matrix = ops.cast(matrix / (norm + 1e-7), self.iteration_dtype)
        for _ in range(steps):
            gram = ops.matmul(matrix, ops.transpose(matrix))
            polynomial = self.muon_b * gram + self.muon_c * ops.matmul(gram, gram)
            matrix = self.muon_a * matrix + ops.matmul(polynomial, matrix)
        matrix = ops.transpose(matrix) if tall else matrix
        return ops.reshape(ops.cast(matrix, x.dtype), x.shape)

    def lr_adjust(self, x):
        """`x`, a matrix or a kernel, times 0.2 sqrt(max(n, k)): `rms_rate` in place of 0.2, nothing if it is None."""
        if self.rms_rate is None:
            return x
        columns = x.shape[-1]
        return x * (self.rms_rate * math.sqrt(max(math.prod(x.shape[:-1]), columns)))

    def get_config(self):
        return {**super().get_config(), "iteration_dtype": self.iteration_dtype}


def _is_bias(variable):
    name = getattr(variable, "path", variable.name)  # TensorFlow hands its own variables over
    return name.removesuffix(":0").endswith("bias")


def warmup_cosine(
    peak: float, total_steps: int, warmup_steps: int = 0, final: float = 0.0
) -> keras.optimizers.schedules.CosineDecay:
    """A rate that rises linearly from 0, then falls along half a cosine.

    rate(0) = 0 (`peak` without warm-up), rate(warmup_steps) = peak, rate(total_steps) = final, and final ever after.

    Args:
        peak: float > 0.
        total_steps: int > 0, optimizer steps of the whole run, warm-up included.
        warmup_steps: int in [0, total_steps).
        final: float in [0, peak].

    Returns:
        `keras.optimizers.schedules.CosineDecay`, for the `learning_rate` of any optimizer.

    Raises:
        InvalidInputError: an argument outside its range.
    """
    checks.positive(peak=peak)
    checks.positive(total_steps=total_steps)
    if not 0 <= warmup_steps < total_steps:
        raise InvalidInputError(
            f"warmup_steps must be at least 0 and less than total_steps={total_steps}. "
            f"Received: warmup_steps={warmup_steps!r}"
        )
    if not 0 <= final <= peak:
        raise InvalidInputError(f"final must be between 0 and peak={peak}. Received: final={final!r}")
    schedule = keras.optimizers.schedules.CosineDecay
    if not warmup_steps:
        return schedule(float(peak), total_steps, alpha=final / peak)
    return schedule(
        0.0, total_steps - warmup_steps, alpha=final / peak, warmup_target=float(peak), warmup_steps=warmup_steps
    )
