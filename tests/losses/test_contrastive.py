from functools import partial

import keras
import numpy as np
import pytest
from keras import ops
from oracle import check, compiled, gradient

from sslzoo import losses
from sslzoo.errors import InvalidInputError


def draw(*shape, seed=0, scale=1.0):
    return (scale * np.random.default_rng(seed).normal(size=shape)).astype("float32")


def tensor(array):
    return ops.convert_to_tensor(array, dtype="float32")


def value(loss, *given):
    """The scalar `loss(*given)`, which must be float32 whatever is given."""
    found = compiled(loss)(*map(ops.convert_to_tensor, given))
    assert keras.backend.standardize_dtype(found.dtype) == "float32" and found.shape == ()
    return float(ops.convert_to_numpy(found))


# ---------------------------------------------------------------- float64 references, written from the formulas


def cosine(a, b):
    return a @ b / np.sqrt((a @ a) * (b @ b))


def nt_xent_reference(z_a, z_b, temperature):
    """SimCLR, algorithm 1: l(2k-1, 2k) + l(2k, 2k-1), summed over k, over 2 N."""
    z = np.stack([z_a, z_b], axis=1).reshape(-1, z_a.shape[1])  # views of an image are neighbors, as in the paper
    sums = []
    for i in range(len(z)):
        scores = {j: cosine(z[i], z[j]) / temperature for j in range(len(z)) if j != i}
        sums.append(-np.log(np.exp(scores[i ^ 1]) / sum(map(np.exp, scores.values()))))
    return np.mean(sums)


def dcl_reference(z_a, z_b, temperature, sigma=None):
    """DCL, eq. 5 and 6, averaged over both views: the sum leaves out the view itself and its positive."""
    pair = np.array([cosine(a, b) for a, b in zip(z_a, z_b)])
    weight = np.ones(len(pair)) if sigma is None else 2 - np.exp(pair / sigma) / np.exp(pair / sigma).mean()
    sums = []
    for own, other in ((z_a, z_b), (z_b, z_a)):
        for i in range(len(own)):
            rest = [cosine(own[i], z[j]) / temperature for z in (own, other) for j in range(len(own)) if j != i]
            sums.append(-weight[i] * pair[i] / temperature + np.log(np.exp(rest).sum()))
    return np.mean(sums)


def info_nce_reference(scores):
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return -np.mean([np.log(p[i, i]) for i in range(len(p))])


def queue_nce_reference(q, k, queue, temperature):
    sums = []
    for one, key in zip(q, k):
        positive = np.exp(cosine(one, key) / temperature)
        negatives = [np.exp(one @ row / np.sqrt(one @ one) / temperature) for row in queue]
        sums.append(-np.log(positive / (positive + sum(negatives))))
    return np.mean(sums)


def test_values_and_gradients_equal_float64_references():
    z_a, z_b, queue = draw(4, 3, seed=1), draw(4, 3, seed=2), draw(5, 3, seed=3)
    for t in (0.1, 0.7):
        check(partial(losses.nt_xent, temperature=t), partial(nt_xent_reference, temperature=t), z_a, z_b)
        check(partial(losses.dcl, temperature=t), partial(dcl_reference, temperature=t), z_a, z_b)
        check(partial(losses.queue_nce, temperature=t), partial(queue_nce_reference, temperature=t), z_a, z_b, queue)
    check(losses.info_nce, info_nce_reference, draw(5, 5, seed=4, scale=2.0))
    index = np.array([2, 0, 2], "int32")
    check(
        lambda s: losses.instance_cross_entropy(s, ops.convert_to_tensor(index)),
        lambda s: -np.mean([np.log(np.exp(s[i, j]) / np.exp(s[i]).sum()) for i, j in enumerate(index)]),
        draw(3, 4, seed=5),
    )
    weights = draw(4, 3, seed=6)
    check(
        lambda x: ops.sum(losses.unit(x) * tensor(weights)),
        lambda x: sum(w @ row / np.sqrt(row @ row) for w, row in zip(weights.astype("float64"), x)),
        z_a,
    )


def test_terms_are_the_parts_of_the_loss():
    z_a, z_b, queue = draw(6, 5, seed=1), draw(6, 5, seed=2), draw(7, 5, seed=3)
    scores, index = draw(6, 6), np.arange(6, dtype="int32")
    pull = -np.mean([cosine(a, b) for a, b in zip(z_a, z_b)]) / 0.5
    for terms, loss, given, alignment in [
        (losses.nt_xent_terms, losses.nt_xent, (z_a, z_b, 0.5), pull),
        (losses.dcl_terms, losses.dcl, (z_a, z_b, 0.5), pull),
        (losses.queue_nce_terms, losses.queue_nce, (z_a, z_b, queue, 0.5), pull),
        (losses.info_nce_terms, losses.info_nce, (scores,), -np.trace(scores) / 6),
        (losses.instance_terms, losses.instance_cross_entropy, (scores, index), -np.trace(scores) / 6),
    ]:
        parts = compiled(terms)(*map(ops.convert_to_tensor, given))
        assert list(parts) == ["alignment", "contrast"]
        alone, contrast = (float(ops.convert_to_numpy(part)) for part in parts.values())
        assert alone == pytest.approx(alignment, rel=1e-5)
        assert alone + contrast == pytest.approx(value(loss, *given), rel=1e-5)


# ---------------------------------------------------------------- closed forms


def test_collapse_costs_the_log_of_the_number_of_candidates():
    same = tensor(np.ones((128, 4)))
    assert value(losses.nt_xent, same, same, 0.5) == pytest.approx(5.541264, abs=1e-5)  # log 255: not itself
    assert value(losses.dcl, same, same, 0.1) == pytest.approx(np.log(254), rel=1e-4)  # nor its other view
    assert value(losses.queue_nce, same, same, ops.full((64, 4), 0.5), 0.07) == pytest.approx(np.log(65), rel=1e-5)
    assert value(losses.info_nce, draw(30, 1).repeat(30, 1)) == pytest.approx(3.401197, abs=1e-5)
    assert value(losses.instance_cross_entropy, ops.zeros((3, 10)), ops.arange(3)) == pytest.approx(np.log(10))


def test_decoupled_loss_is_simclrs_with_the_positive_taken_out_of_the_sum():
    z_a, z_b, t = draw(6, 5, seed=1), draw(6, 5, seed=2), 0.5
    rows = []
    for a, b, own, other in [(a, b, z_a, z_b) for a, b in zip(z_a, z_b)] + [(b, a, z_b, z_a) for a, b in zip(z_a, z_b)]:
        every = sum(np.exp(cosine(a, z) / t) for z in (*own, *other)) - np.exp(1 / t)
        rows.append(np.log(every - np.exp(cosine(a, b) / t)) - np.log(every))
    simclr = value(losses.nt_xent, z_a, z_b, t)
    assert value(losses.dcl, z_a, z_b, t) == pytest.approx(simclr + np.mean(rows), rel=1e-5)
    # Orthonormal images with equal views: -1/T + log(2 B - 2), below 0 for small T.
    z = tensor(np.eye(4))
    assert value(losses.dcl, z, z, 0.2) == pytest.approx(-5 + np.log(6), abs=1e-5)


def test_weights_of_the_decoupled_loss_are_constants_that_pull_distant_pairs_harder():
    z_a, z_b = draw(5, 4, seed=1), draw(5, 4, seed=2)
    expected = dcl_reference(*(z.astype("float64") for z in (z_a, z_b)), 0.3, 0.5)
    assert value(losses.dcl, z_a, z_b, 0.3, 0.5) == pytest.approx(expected, rel=1e-5)
    # Where every pair is alike, the weights are 1.
    same = np.stack([draw(4, seed=4)] * 5)
    assert value(losses.dcl, same, same, 0.3, 0.5) == pytest.approx(np.log(8), rel=1e-5)
    pair = np.array([cosine(a, b) for a, b in zip(z_a.astype("float64"), z_b)])
    weight = 2 - np.exp(pair / 0.5) / np.exp(pair / 0.5).mean()

    def held(a, b):  # the reference with its weights held, whose slopes are those with a stop-gradient
        return dcl_reference(a, b, 0.3) + np.mean([(1 - w) * cosine(x, y) / 0.3 for w, x, y in zip(weight, a, b)])

    check(partial(losses.dcl, temperature=0.3, sigma=0.5), held, z_a, z_b)
    assert weight[pair.argmin()] > 1 > weight[pair.argmax()]


def test_orthonormal_images_with_identical_views():
    z = tensor(np.eye(4))
    assert value(losses.nt_xent, z, z, 0.5) == pytest.approx(0.594438, abs=1e-6)
    assert value(losses.nt_xent, z, z, 0.5) == pytest.approx(np.log(1 + 6 * np.exp(-2)), abs=1e-6)
    queue = tensor(np.eye(8)[4:])
    z = tensor(np.eye(8)[:4])
    assert value(losses.queue_nce, z, z, queue, 0.5) == pytest.approx(np.log(1 + 4 * np.exp(-2)), abs=1e-6)


def test_random_embeddings_cost_a_little_more_than_collapse():
    """E exp(s / T) of random directions is about exp(1 / (2 T^2 d)): the losses' values at initialization."""
    z_a, z_b = draw(128, 64, seed=1), draw(128, 64, seed=2)
    assert value(losses.nt_xent, z_a, z_b, 0.5) == pytest.approx(np.log(255) + 1 / (2 * 0.25 * 64), abs=0.02)
    queue = ops.convert_to_numpy(losses.unit(tensor(draw(4096, 128, seed=3))))
    q = draw(64, 128, seed=4)
    expected = np.log1p(4096 * np.exp(1 / (2 * 0.07**2 * 128) - 1 / 0.07))
    assert value(losses.queue_nce, q, q, queue, 0.07) == pytest.approx(expected, abs=2e-3)  # about 0.0057


# ---------------------------------------------------------------- invariances


def test_order_of_images_and_of_views_and_length_do_not_matter():
    z_a, z_b, queue = draw(6, 5, seed=1), draw(6, 5, seed=2), draw(7, 5, seed=3)
    order, lengths = (
        np.random.default_rng(0).permutation(6),
        np.array([[1e-3], [0.1], [1], [3], [50], [2e4]], "float32"),
    )
    loss = value(losses.nt_xent, z_a, z_b, 0.2)
    for one, other in [(z_b, z_a), (z_a[order], z_b[order]), (z_a * lengths, z_b / lengths)]:
        assert value(losses.nt_xent, one, other, 0.2) == pytest.approx(loss, rel=1e-5)
    assert value(losses.nt_xent, z_a, z_b[order], 0.2) != pytest.approx(loss, rel=1e-3)

    loss = value(losses.queue_nce, z_a, z_b, queue, 0.2)
    for one, other, rows in [
        (z_a[order], z_b[order], queue),
        (z_a, z_b, queue[::-1].copy()),
        (5 * z_a, z_b / 9, queue),
    ]:
        assert value(losses.queue_nce, one, other, rows, 0.2) == pytest.approx(loss, rel=1e-5)
    assert value(losses.queue_nce, z_a, z_b, 2 * queue, 0.2) != pytest.approx(loss, rel=1e-3)  # rows are used as given


def test_a_constant_added_to_a_row_of_scores_changes_nothing():
    scores = draw(5, 5)
    loss = value(losses.info_nce, scores)
    assert value(losses.info_nce, scores + draw(5, 1, seed=1, scale=3.0)) == pytest.approx(loss, rel=1e-5)
    assert value(losses.info_nce, scores + draw(1, 5, seed=2, scale=3.0)) != pytest.approx(loss, rel=1e-3)


def test_a_view_is_not_its_own_candidate():
    """Were it one, a single image would cost log(1 + e^((1 - s) / T)), and its views would be pushed together."""
    for apart in (draw(1, 3, seed=1), draw(1, 3, seed=2)):
        assert value(losses.nt_xent, apart, draw(1, 3, seed=3), 0.1) == pytest.approx(0.0, abs=1e-6)
    for slope in gradient(lambda a, b: losses.nt_xent(a, b, 0.1), draw(1, 3, seed=1), draw(1, 3, seed=3)):
        np.testing.assert_allclose(slope, 0.0, atol=1e-6)


# ---------------------------------------------------------------- numbers at the edge


def test_unit_vectors():
    x = np.array([[3.0, 4.0], [0.0, 0.0], [3e-8, -4e-8], [3e15, 4e15]], "float32")
    expected = [[0.6, 0.8], [0.0, 0.0], [0.6, -0.8], [0.6, 0.8]]
    np.testing.assert_allclose(ops.convert_to_numpy(losses.unit(x)), expected, rtol=1e-6)
    np.testing.assert_allclose(ops.convert_to_numpy(losses.unit(x.T.copy(), axis=0)), np.transpose(expected), rtol=1e-6)
    (slope,) = gradient(lambda t: ops.sum(losses.unit(t)), x)
    assert np.isfinite(slope).all() and (slope[1] == 0).all()


def test_zero_vectors_have_a_loss_and_no_gradient():
    z_a, z_b, queue = draw(3, 4, seed=1), draw(3, 4, seed=2), draw(5, 4, seed=3)
    z_a[1] = 0

    def pair(a, b):
        return losses.nt_xent(a, b, 0.1)

    def against_queue(a, b):
        return losses.queue_nce(a, b, ops.convert_to_tensor(queue), 0.1)

    for loss, arrays in [(pair, (z_a, z_b)), (against_queue, (z_a, z_b)), (pair, (0 * z_a, 0 * z_a))]:
        assert np.isfinite(value(loss, *arrays))
        slopes = gradient(loss, *arrays)
        assert all(np.isfinite(slope).all() for slope in slopes)
        assert (slopes[0][1] == 0).all()
    assert value(losses.nt_xent, 0 * z_a, 0 * z_a, 0.1) == pytest.approx(np.log(5))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_inputs_are_safe(dtype):
    """Squares of 300 and scores of 1 / 0.01 have no room in a half-precision sum; nor has a mask of -1e9 in float16."""
    z_a, z_b, queue = (draw(6, 16, seed=seed, scale=300.0) for seed in (1, 2, 3))
    scores, index = draw(6, 6, scale=20_000.0), np.arange(6, dtype="int32")
    for array in (z_a, z_b, queue):
        array[2] = 0
    for loss, arrays in [
        (lambda a, b: losses.nt_xent(a, b, 0.01), (z_a, z_b)),
        (lambda a, b: losses.dcl(a, b, 0.01, 0.5), (z_a, z_b)),
        (lambda a, b, c: losses.queue_nce(a, b, losses.unit(c), 0.01), (z_a, z_b, queue)),
        (losses.info_nce, (scores,)),
        (lambda s: losses.instance_cross_entropy(s, ops.convert_to_tensor(index)), (scores,)),
    ]:

        def in_half(*given, loss=loss):
            return loss(*(ops.cast(one, dtype) for one in given))

        exact = [ops.convert_to_numpy(ops.cast(ops.cast(array, dtype), "float32")) for array in arrays]
        assert value(in_half, *arrays) == pytest.approx(value(loss, *exact), rel=1e-5)
        assert all(np.isfinite(slope).all() for slope in gradient(in_half, *arrays))


@pytest.mark.parametrize("outside", [-1, 4, 10**6])
def test_an_index_outside_makes_the_loss_nan_and_moves_nothing(outside):
    index = np.array([0, outside], "int32")
    scores = draw(2, 4)
    assert np.isnan(value(losses.instance_cross_entropy, scores, index))
    (slope,) = gradient(lambda s: losses.instance_terms(s, ops.convert_to_tensor(index))["alignment"], scores)
    np.testing.assert_allclose(slope, [[-0.5, 0, 0, 0], [0, 0, 0, 0]])


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="only TensorFlow traces with unknown sizes")
def test_unknown_batch_sizes():
    import tensorflow as tf

    matrix = tf.TensorSpec((None, 3))
    queue = tensor(draw(5, 3))

    @tf.function(input_signature=[matrix, matrix], jit_compile=False)
    def traced(a, b):
        return losses.nt_xent(a, b, 0.5), losses.queue_nce(a, b, queue, 0.5), losses.info_nce(a @ tf.transpose(b))

    a, b = tensor(draw(4, 3, seed=1)), tensor(draw(4, 3, seed=2))
    eager = losses.nt_xent(a, b, 0.5), losses.queue_nce(a, b, queue, 0.5), losses.info_nce(a @ tf.transpose(b))
    assert list(map(float, traced(a, b))) == pytest.approx(list(map(float, eager)), rel=1e-6)


# ---------------------------------------------------------------- wrong ways


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: losses.nt_xent(draw(4, 3), draw(5, 3), 0.5), r"z_a and z_b.*z_a.shape=\(4, 3\), z_b.shape=\(5, 3\)"),
        (lambda: losses.dcl(draw(1, 3), draw(1, 3), 0.5), r"at least 2 images.*Received: z_a.shape=\(1, 3\)"),
        (lambda: losses.nt_xent(draw(4, 2, 3), draw(4, 2, 3), 0.5), r"two matrices.*Received: z_a.shape=\(4, 2, 3\)"),
        (lambda: losses.queue_nce(draw(4, 3), draw(4, 2), draw(5, 3), 0.5), r"q and k.*k.shape=\(4, 2\)"),
        (lambda: losses.queue_nce(draw(4, 3), draw(4, 3), draw(5, 2), 0.5), r"\(rows, 3\).*queue.shape=\(5, 2\)"),
        (lambda: losses.info_nce(draw(4, 3)), r"square matrix.*Received: scores.shape=\(4, 3\)"),
        (lambda: losses.info_nce(draw(4)), r"square matrix.*Received: scores.shape=\(4,\)"),
        (lambda: losses.nt_xent(draw(4, 3), draw(4, 3), -1.0), "temperature must be a number > 0. Received: .*-1"),
        (lambda: losses.dcl(draw(4, 3), draw(4, 3), 0.0), "temperature must be a number > 0. Received"),
        (lambda: losses.dcl(draw(4, 3), draw(4, 3), 0.1, -0.5), "sigma must be a number > 0. Received"),
        (lambda: losses.queue_nce(draw(4, 3), draw(4, 3), draw(5, 3), np.nan), "temperature must be a number > 0"),
        (lambda: losses.pair_log_density(draw(4, 3), draw(4, 3), 0.0), "temperature must be a number > 0"),
        (lambda: losses.instance_terms(draw(4, 9), np.zeros(3, "int32")), r"index.shape=\(3,\)"),
    ],
)
def test_shapes_and_numbers_that_do_not_fit_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
