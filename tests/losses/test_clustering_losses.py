"""Sinkhorn, swapped prediction, ProtoCPC and pseudo-labels against float64 NumPy, and what may not go wrong."""

import keras
import numpy as np
import pytest
from keras import ops
from oracle import check, compiled, gradient

from sslzoo import losses
from sslzoo.errors import InvalidInputError


def draw(*shape, seed=0, scale=1.0):
    return scale * np.random.default_rng(seed).normal(size=shape)


def cosines(*shape, seed=0):
    """Scores as methods make them, in [-1, 1]."""
    return np.tanh(draw(*shape, seed=seed))


def swapped(*scores):
    return float(compiled(lambda *s: losses.swapped_prediction(s))(*map(tensor, scores)))


def tensor(array, dtype="float32"):
    return ops.cast(ops.convert_to_tensor(np.asarray(array, "float32")), dtype)


def to_numpy(tensor):
    return ops.convert_to_numpy(tensor)


def sinkhorn_of(scores, *settings, **named):
    return to_numpy(compiled(lambda s: losses.sinkhorn(s, *settings, **named))(tensor(scores)))


# ---------------------------------------------------------------- float64 references, written from the formulas


def sinkhorn_reference(scores, epsilon, iterations, weights=None):
    """The published algorithm, on exponentials: rows are prototypes, columns are samples."""
    q = np.exp(scores / epsilon).T * (1.0 if weights is None else weights)
    k, b = q.shape
    q /= q.sum()
    for _ in range(iterations):
        q /= k * q.sum(axis=1, keepdims=True)
        if weights is None:
            q /= b * q.sum(axis=0, keepdims=True)
        else:
            q *= weights / q.sum(axis=0, keepdims=True)
    return (q / q.sum(axis=0)).T


def log_softmax_reference(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def swapped_reference(scores, targets, temperature):
    """Targets q of the assigning views, given apart: no gradient flows into them."""
    losses = []
    for u, q in enumerate(targets):
        for v, s in enumerate(scores):
            if u != v:
                losses.append(-(q * log_softmax_reference(s / temperature)).sum(1).mean())
    return np.mean(losses)


def proto_cpc_reference(student, teacher, temperature, prior=None):
    """GEDI, appendix H, last line, with a minus."""
    n = len(student)
    q = teacher.sum(0) / n if prior is None else prior
    total = 0.0
    for i in range(n):
        numerator = np.exp(teacher[i] @ student[i] / temperature)
        total += np.log(numerator / (q * np.exp(student[i] / temperature)).sum())
    return -total / n


def softmax(x):
    return np.exp(log_softmax_reference(x))


# ---------------------------------------------------------------- sinkhorn


@pytest.mark.parametrize("shape", [(6, 3), (8, 8), (5, 12), (1, 4)])
@pytest.mark.parametrize("iterations", [1, 3, 10])
def test_sinkhorn_equals_the_published_algorithm(shape, iterations):
    scores = cosines(*shape, seed=sum(shape))
    expected = sinkhorn_reference(scores, 0.05, iterations)
    np.testing.assert_allclose(sinkhorn_of(scores, 0.05, iterations), expected, rtol=2e-4, atol=1e-6)


def test_sinkhorn_of_zeros_is_uniform():
    np.testing.assert_allclose(sinkhorn_of(np.zeros((6, 3)), 0.05, 3), 1 / 3, rtol=1e-6)


def test_rows_sum_to_one_and_columns_to_their_share():
    q = sinkhorn_of(cosines(64, 8), 0.5, 3)
    np.testing.assert_allclose(q.sum(1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(q.sum(0), 8.0, rtol=0.02)
    rough, fine = (np.abs(sinkhorn_of(cosines(64, 8), 0.05, n).sum(0) - 8.0).max() for n in (1, 20))
    assert fine < rough / 2


def test_balance_breaks_a_collapse_that_softmax_would_keep():
    """All samples prefer prototype 0, some more than others: each prototype still gets its share of them."""
    scores = np.zeros((8, 2))
    scores[:, 0] = np.linspace(0.5, 0.9, 8)
    assert (softmax(scores / 0.05)[:, 0] > 0.99).all()
    q = sinkhorn_of(scores, 0.05, 20)
    assert (q[:4, 1] > 0.5).all() and (q[4:, 0] > 0.5).all()


def test_sinkhorn_is_equivariant_to_permutations_and_blind_to_constants():
    scores, rng = cosines(10, 4), np.random.default_rng(1)
    rows, columns = rng.permutation(10), rng.permutation(4)
    q = sinkhorn_of(scores, 0.05, 3)
    np.testing.assert_allclose(sinkhorn_of(scores[rows][:, columns], 0.05, 3), q[rows][:, columns], atol=1e-5)
    np.testing.assert_allclose(sinkhorn_of(scores + 5.0, 0.05, 3), q, atol=1e-4)
    shifted = scores + rng.normal(size=(1, 4))  # of a prototype: balance takes it out again
    np.testing.assert_allclose(sinkhorn_of(shifted, 0.05, 3), q, atol=1e-4)


def test_rows_of_weight_zero_have_no_say_and_others_as_much_as_they_weigh():
    scores = cosines(9, 4)
    part = sinkhorn_of(scores[3:], 0.05, 3)
    weights = tensor([0] * 3 + [1] * 6)
    q = sinkhorn_of(scores, 0.05, 3, weights)
    np.testing.assert_allclose(q[3:], part, atol=1e-5)
    np.testing.assert_allclose(q.sum(1), 1.0, rtol=1e-6)

    twice = sinkhorn_of(np.concatenate([scores, scores[:2]]), 0.05, 3)[:9]
    np.testing.assert_allclose(sinkhorn_of(scores, 0.05, 3, tensor([2] * 2 + [1] * 7)), twice, atol=1e-5)
    assert np.isfinite(sinkhorn_of(scores, 0.05, 3, tensor(np.zeros(9)))).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sinkhorn_is_safe_where_exponentials_overflow(dtype):
    scores = 10 * cosines(12, 5)  # scores / epsilon up to 200: exp overflows even float32
    q = to_numpy(losses.sinkhorn(tensor(scores, dtype), 0.05, 3))
    assert q.dtype == np.float32 and np.isfinite(q).all()
    rounded = to_numpy(ops.cast(tensor(scores, dtype), "float32")).astype("float64")
    np.testing.assert_allclose(q, sinkhorn_reference(rounded, 0.05, 3), rtol=1e-3, atol=1e-5)


def test_a_prototype_far_from_everything_still_gets_its_share():
    """exp(-1 / 0.005) is 0 in float32: the published algorithm divides 0 by 0 here."""
    scores = np.ones((6, 3)) * [1.0, 1.0, -1.0]
    np.testing.assert_allclose(sinkhorn_of(scores, 0.005, 3), 1 / 3, rtol=1e-4)


def test_assignments_have_no_gradient():
    (slope,) = gradient(lambda s: ops.sum(ops.square(losses.sinkhorn(s, 0.05, 3)) + 0.0 * s), cosines(4, 3).astype("f"))
    np.testing.assert_array_equal(slope, 0.0)


# ---------------------------------------------------------------- swapped prediction


@pytest.mark.parametrize(("views", "assigning"), [(2, None), (3, None), (4, 2), (3, 1)])
def test_swapped_prediction_equals_its_reference(views, assigning):
    scores = [cosines(5, 4, seed=v) for v in range(views)]
    targets = [sinkhorn_reference(s.astype("f").astype("d"), 0.05, 3) for s in scores[:assigning]]
    check(
        lambda *s: losses.swapped_prediction(s, 0.1, 0.05, 3, assigning),
        lambda *s: swapped_reference(s, targets, 0.1),
        *scores,
        rtol=1e-4,
        atol=1e-4,
    )


def test_swapped_prediction_with_a_queue_equals_its_reference():
    scores, queue = [cosines(3, 4, seed=v) for v in range(3)], [cosines(6, 4, seed=9 + v) for v in range(2)]
    full = [sinkhorn_reference(np.concatenate(pair), 0.05, 3)[6:] for pair in zip(queue, scores)]
    queued = [tensor(q) for q in queue]

    def loss(weights):
        return lambda *s: losses.swapped_prediction(s, 0.1, 0.05, 3, 2, queued, weights)

    check(loss(None), lambda *s: swapped_reference(s, full, 0.1), *scores, rtol=1e-4, atol=1e-4)
    empty = [sinkhorn_reference(s, 0.05, 3) for s in scores[:2]]
    check(loss(tensor(np.zeros(6))), lambda *s: swapped_reference(s, empty, 0.1), *scores, rtol=1e-4, atol=1e-4)


def test_terms_are_the_pull_and_the_push():
    scores = [cosines(5, 4, seed=v) for v in range(2)]
    terms = losses.swapped_terms([tensor(s) for s in scores], 0.1)
    pushes = [np.log(np.exp(s / 0.1).sum(1)).mean() for s in scores]
    assert float(terms["contrast"]) == pytest.approx(np.mean(pushes), rel=1e-5)
    loss = losses.swapped_prediction([tensor(s) for s in scores], 0.1)
    assert float(terms["alignment"] + terms["contrast"]) == pytest.approx(float(loss), rel=1e-6)


def test_swapped_prediction_closed_forms():
    zeros = np.zeros((8, 3))
    assert swapped(zeros, zeros) == pytest.approx(np.log(3), rel=1e-6)
    collapsed = np.tile([0.9, 0.1, -0.5], (8, 1))  # all images in one place: targets say nothing about them
    assert swapped(collapsed, collapsed) >= np.log(3)
    separate = 2 * np.eye(4).repeat(2, 0) - 1  # two images on each prototype: 1 to their own, -1 to the others
    assert swapped(separate, separate) == pytest.approx(3 * np.exp(-20), abs=1e-6)
    shuffled = np.roll(separate, 2, axis=0)  # views that belong to other images
    assert swapped(separate, shuffled) > 10


# ---------------------------------------------------------------- ProtoCPC


@pytest.mark.parametrize("shape", [(5, 4), (1, 3), (3, 8)])
def test_proto_cpc_equals_its_reference(shape):
    student, teacher = cosines(*shape, seed=1), softmax(cosines(*shape, seed=2) / 0.2)
    check(
        lambda s: losses.proto_cpc(s, tensor(teacher), 0.1),
        lambda s: proto_cpc_reference(s, teacher, 0.1),
        student,
        rtol=1e-4,
        atol=1e-4,
    )


def test_proto_cpc_with_a_prior_from_elsewhere():
    student, teacher = cosines(5, 4, seed=1), softmax(cosines(5, 4, seed=2) / 0.2)
    prior = softmax(draw(4, seed=3))
    check(
        lambda s: losses.proto_cpc(s, tensor(teacher), 0.1, tensor(prior)),
        lambda s: proto_cpc_reference(s, teacher, 0.1, prior),
        student,
        rtol=1e-4,
        atol=1e-4,
    )


def test_the_teacher_has_no_gradient():
    student, teacher = cosines(4, 3).astype("f"), softmax(cosines(4, 3, seed=1)).astype("f")
    slope = gradient(lambda s, t: losses.proto_cpc(s, t, 0.1), student, teacher)
    assert np.abs(slope[0]).max() > 0.01
    np.testing.assert_array_equal(slope[1], 0.0)


def test_proto_cpc_closed_forms():
    teacher = tensor(softmax(draw(6, 3)))
    assert float(losses.proto_cpc(tensor(np.zeros((6, 3))), teacher)) == pytest.approx(0.0, abs=1e-6)
    assert float(losses.proto_cpc(tensor(np.full((6, 3), 7.0)), teacher)) == pytest.approx(0.0, abs=1e-5)

    one_cluster = tensor(np.tile([1.0, 0.0, 0.0], (6, 1)))
    assert float(losses.proto_cpc(tensor(cosines(6, 3)), one_cluster)) == pytest.approx(0.0, abs=1e-5)

    balanced = np.eye(3).repeat(2, 0)
    assert float(losses.proto_cpc(tensor(balanced), tensor(balanced), 0.05)) == pytest.approx(-np.log(3), abs=1e-5)


def test_proto_cpc_is_least_at_the_information_of_its_targets():
    """max_s p.s - log sum q exp(s) = KL(p || q), reached at s = log p / q."""
    p = softmax(draw(6, 4, seed=3))
    q = p.mean(0)
    information = (p * np.log(p / q)).sum(1).mean()
    at_best = float(losses.proto_cpc(tensor(np.log(p / q)), tensor(p), 1.0))
    assert at_best == pytest.approx(-information, rel=1e-4)
    for seed in range(5):
        assert float(losses.proto_cpc(tensor(np.log(p / q) + 0.1 * draw(6, 4, seed=seed)), tensor(p), 1.0)) > at_best


# ---------------------------------------------------------------- pseudo-labels


@pytest.mark.parametrize("weighted", [False, True])
def test_pseudo_labels_equal_cross_entropy(weighted):
    logits, labels = draw(5, 4, seed=1), np.array([3, 0, 0, 2, 3], "int32")
    weights = np.array([0.5, 2.0, 1.0, 0.0, 1.5]) if weighted else np.ones(5)
    check(
        lambda x: sum(losses.pseudo_label_terms(x, labels, tensor(weights) if weighted else None).values()),
        lambda x: -(weights * log_softmax_reference(x)[np.arange(5), labels]).mean(),
        logits,
    )


def test_pseudo_labels_of_zero_logits_cost_log_k():
    terms = losses.pseudo_label_terms(ops.zeros((6, 5)), np.arange(6, dtype="int32") % 5)
    assert float(terms["alignment"]) == 0.0
    assert float(terms["contrast"]) == pytest.approx(np.log(5), rel=1e-6)


# ---------------------------------------------------------------- all of them


def case(dtype, scale=1.0, n=4):
    """Each loss on inputs of a dtype: name -> scalar."""
    a, b = (tensor(scale * cosines(n, 3, seed=seed), dtype) for seed in (1, 2))
    probabilities = tensor(softmax(cosines(n, 3, seed=3) / 0.1), dtype)
    labels = np.arange(n, dtype="int32") % 3
    weights = tensor([1, 0, 1, 0][:n], dtype)
    return compiled(
        lambda a, b, probabilities: {
            "swapped": losses.swapped_prediction([a, b]),
            "queue": losses.swapped_prediction([a, b], queue=[b, a], queue_weights=weights),
            "proto_cpc": losses.proto_cpc(a, probabilities),
            "pseudo_labels": sum(losses.pseudo_label_terms(a, labels).values()),
        }
    )(a, b, probabilities)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_stays_close_to_float32(dtype):
    exact = case("float32")
    for name, value in case(dtype).items():
        assert keras.backend.standardize_dtype(value.dtype) == "float32", name
        assert float(value) == pytest.approx(float(exact[name]), rel=0.05, abs=0.05), name


@pytest.mark.parametrize(("scale", "n"), [(0.0, 4), (1.0, 1), (1000.0, 4)])
def test_zeros_single_images_and_huge_scores_are_finite(scale, n):
    assert np.isfinite([float(v) for v in case("float16", scale, n).values()]).all()


def two(*shapes):
    return [tensor(cosines(*shape)) for shape in shapes]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: losses.sinkhorn(ops.zeros((2, 3, 4))), r"matrix.*Received: scores.shape=\(2, 3, 4\)"),
        (lambda: losses.sinkhorn(ops.zeros((2, 3)), epsilon=0), "epsilon must be a number > 0.*epsilon=0"),
        (lambda: losses.sinkhorn(ops.zeros((2, 3)), iterations=0), "iterations must be an integer >= 1"),
        (lambda: losses.swapped_prediction(two((4, 3))), "two or more matrices"),
        (lambda: losses.swapped_prediction(two((4, 3), (4, 5))), "of one shape"),
        (lambda: losses.swapped_prediction(two((4, 3), (5, 3))), "of one shape"),
        (lambda: losses.swapped_prediction(two((4, 3), (4, 3)), num_assigning=3), "from 1 to .*Received.*=3"),
        (lambda: losses.swapped_prediction(two((4, 3), (4, 3)), queue=two((4, 3))), "each of the 2 views"),
        (lambda: losses.swapped_prediction(two((4, 3), (4, 3)), temperature=-1), "Received: temperature=-1"),
        (lambda: losses.proto_cpc(*two((4, 3), (4, 2))), "alike"),
        (lambda: losses.proto_cpc(*two((4,), (4,))), "matrices"),
        (lambda: losses.pseudo_label_terms(ops.zeros((4, 3)), np.zeros((4, 1), "int32")), r"labels.shape=\(4, 1\)"),
        (lambda: losses.pseudo_label_terms(ops.zeros((4, 3)), np.zeros(5, "int32")), r"labels.shape=\(5,\)"),
        (lambda: losses.pseudo_label_terms(ops.zeros((4,)), np.zeros(4, "int32")), "must be a matrix"),
        (
            lambda: losses.pseudo_label_terms(ops.zeros((4, 3)), np.zeros(4, "int32"), ops.ones((4, 1))),
            r"weights must be a vector of 4 numbers. Received: weights.shape=\(4, 1\)",
        ),
        (lambda: losses.sinkhorn(ops.zeros((4, 3)), weights=ops.ones((4, 1))), r"weights.shape=\(4, 1\)"),
        (lambda: losses.proto_cpc(*two((4, 3), (4, 3)), prior=ops.ones((4, 3))), r"prior.shape=\(4, 3\)"),
        (lambda: losses.proto_cpc(*two((4, 3), (4, 3)), prior=0.3), r"of 3 numbers. Received: prior.shape=\(\)"),
        (lambda: losses.cluster_terms(*two((4, 3), (4, 3)), prior=ops.ones(2)), r"prior.shape=\(2,\)"),
        (
            lambda: losses.swapped_prediction(
                two((4, 3), (4, 3)), queue=two((5, 3), (5, 3)), queue_weights=ops.ones(4)
            ),
            r"queue_weights must be a vector of 5 numbers. Received: queue_weights.shape=\(4,\)",
        ),
        (lambda: losses.swapped_prediction(two((4, 3), (4, 3)), queue=two((5, 4), (5, 4))), r"queue.*\(5, 4\)"),
        (lambda: losses.dino(*two((4, 2, 3), (4, 2, 3)), center=ops.ones(1)), r"center.shape=\(1,\)"),
        (lambda: losses.dino(*two((4, 2, 3), (4, 2, 3)), ops.ones(3), teacher_temperature=-0.04), "=-0.04"),
        (lambda: losses.dino(*two((4, 2, 3), (4, 2, 3)), ops.ones(3), teacher_temperature=0), "teacher_temperature=0"),
    ],
)
def test_wrong_shapes_and_settings_are_refused(build, message):
    with pytest.raises(InvalidInputError, match=message):
        build()


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_of_no_cluster_is_not_a_number(label):
    """Backends clip, wrap or fill."""
    terms = losses.pseudo_label_terms(ops.zeros((4, 3)), np.array([0, 1, label, 2]))
    assert np.isnan(to_numpy(terms["alignment"])) and np.isfinite(to_numpy(terms["contrast"]))


def test_a_teacher_s_temperature_may_be_a_tensor():
    student, teacher = draw(4, 3, 5), draw(4, 2, 5, seed=1)
    plain, given = (losses.dino(student, teacher, np.zeros(5), 0.1, t) for t in (0.04, tensor(0.04)))
    assert float(plain) == pytest.approx(float(given), rel=1e-6)
