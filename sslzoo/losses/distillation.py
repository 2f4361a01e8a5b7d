"""Self-distillation: a student names the prototypes that its teacher saw in other views of the image.

Reference:
    DINO: Caron et al., "Emerging Properties in Self-Supervised Vision Transformers" (arXiv 2104.14294), eq. 1-4.
"""

from keras import ops

from sslzoo.errors import InvalidInputError
from sslzoo.losses.tensors import check_positive, differ, float32, pairs, static_shape, vector


def dino(student, teacher, center, student_temperature: float = 0.1, teacher_temperature: float = 0.04):
    """Cross-entropy of the student's prototypes under the teacher's, over all pairs of different views.

    loss = mean over images and pairs t != s of -sum_k softmax((g_t - center) / T_t)_k log softmax(g_s / T_s)_k

    Example:
        rng = np.random.default_rng(0)
        student, teacher = rng.normal(size=(16, 4, 10)), rng.normal(size=(16, 2, 10))
        loss = losses.dino(student, teacher, center=np.zeros(10))

    Args:
        student: float tensor (B, S, K), logits of all views.
        teacher: float tensor (B, T, K), logits of the first T views, the global ones; taken as constants.
        center: float tensor (K,), the moving mean of the teacher's logits.
        student_temperature, teacher_temperature: float > 0; the latter may be a scalar tensor, for a schedule.

    Returns:
        Float32 scalar, in nats: >= 0, 0 with one prototype, log K where the student is uniform. Collapse to one
        prototype scores 0, collapse to all alike log K.
    """
    student, teacher = float32(student), ops.stop_gradient(float32(teacher))
    check_positive(student_temperature=student_temperature, teacher_temperature=teacher_temperature)
    theirs, ours = static_shape(teacher), static_shape(student)
    if len(ours) != 3 or len(theirs) != 3 or differ(ours[2], theirs[2]) or differ(ours[0], theirs[0]):
        raise InvalidInputError(
            "student and teacher must have shapes (batch, views, prototypes), alike but for the views. "
            f"Received: student.shape={ours}, teacher.shape={theirs}"
        )
    center = vector(ours[2], center=center)
    views = pairs(theirs[1], ours[1])
    if not views:
        raise InvalidInputError("A student's view needs a teacher's of another. Received: one view")
    targets = ops.softmax((teacher - center) / teacher_temperature, axis=-1)
    named = ops.log_softmax(student / student_temperature, axis=-1)
    each = [-ops.mean(ops.sum(targets[:, t] * named[:, s], axis=-1)) for t, s in views]
    return sum(each) / len(each)
