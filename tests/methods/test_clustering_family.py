"""SwAV, ProtoCPC and DeepCluster: what they must do beyond the shared battery."""

import keras
import numpy as np
import pytest
from contract import Flips, head, images, plain_encoder
from keras import ops
from oracle import compiled

from sslzoo import losses
from sslzoo.callbacks import Checkpoint, Journal, Stopwatch
from sslzoo.errors import InvalidInputError, TrainingError
from sslzoo.methods import DeepCluster, ProtoCPC, SimCLR, SwAV, kmeans
from sslzoo.methods.deepcluster import Recluster
from sslzoo.networks import initialize
from sslzoo.optimizers import L2Adam
from sslzoo.views import Views, policy


def to_numpy(tensor):
    return ops.convert_to_numpy(tensor)


def tensor(array):
    return ops.convert_to_tensor(array, dtype="float32")


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sinkhorn(scores, epsilon=0.05):
    return to_numpy(compiled(lambda s: losses.sinkhorn(s, epsilon, 3))(tensor(scores))).astype("float64")


def cross_entropy(q, scores, temperature=0.1):
    return -(q * np.log(softmax(scores / temperature))).sum(-1).mean()


def loss_of(model, outputs, inputs=None):
    return float(to_numpy(compiled(lambda given: sum(model.objective(inputs, given, True).values()))(outputs)))


def swav(prototypes=5, num_views=2, **arguments):
    return SwAV(plain_encoder(), prototypes, views=Flips(num_views), **{"freeze_prototypes": 0} | arguments)


def prototypes_of(model):
    """Rows of unit length, float64 (K, P)."""
    return to_numpy(model.prototype_head.weights[0]).T.astype("float64")


# ---------------------------------------------------------------- k-means


@pytest.mark.parametrize("most", [2, 3])
def test_features_are_whitened_before_they_are_clustered(most):
    z = np.random.default_rng(0).normal(size=(200, 3)) * [10, 1, 0.1] + 5
    u = np.linalg.svd(z - z.mean(axis=0), full_matrices=False)[0][:, :most]
    found = kmeans.whiten_and_normalize(z, most, 0)
    np.testing.assert_allclose(np.abs(found), np.abs(unit(u)), atol=1e-8)


# ---------------------------------------------------------------- SwAV: the objective


def test_swav_predicts_the_siblings_assignment():
    model, z = swav(num_views=3), draw(6, 3, 4)
    scores = np.einsum("bjp,kp->jbk", unit(z), prototypes_of(model))
    pairs = [(u, v) for u in range(3) for v in range(3) if u != v]
    expected = np.mean([cross_entropy(sinkhorn(scores[u]), scores[v]) for u, v in pairs])
    assert loss_of(model, {"z": tensor(z)}) == pytest.approx(expected, rel=1e-4)


def test_local_views_predict_and_never_assign():
    model, z, local = swav(local_views=Flips(2)), draw(6, 2, 4), draw(6, 3, 4, seed=1)
    w = prototypes_of(model)
    large, small = (np.einsum("bjp,kp->jbk", unit(x), w) for x in (z, local))
    each = [
        cross_entropy(sinkhorn(large[u]), view) for u in (0, 1) for view in (large[1 - u], small[0], small[1], small[2])
    ]
    found = loss_of(model, {"z": tensor(z), "local": tensor(local)})
    assert found == pytest.approx(np.mean(each), rel=1e-4)


def test_old_embeddings_are_scored_by_the_prototypes_of_today_and_the_batch_counts_once():
    """Two steps without learning: the second balances over the first batch and its own, not over itself twice."""
    model = swav(queue_size=12, prototypes=5)
    model.compile(optimizer=keras.optimizers.SGD(0.0))
    first, second = draw(4, 2, 4), draw(4, 2, 4, seed=1)
    model.update(None, {"z": tensor(first)})
    queue = to_numpy(model.queue).reshape(12, 2, 4)
    np.testing.assert_allclose(queue[:4], unit(first), atol=1e-6)
    assert not queue[4:].any() and int(to_numpy(model.pointer)) == 4

    model.prototype_head.set_weights([unit(draw(5, 4, seed=9)).T])
    w = prototypes_of(model)
    scores = np.einsum("bjp,kp->jbk", unit(np.concatenate([first, second])), w)
    q = [sinkhorn(scores[u])[4:] for u in (0, 1)]
    expected = np.mean([cross_entropy(q[u], scores[1 - u, 4:]) for u in (0, 1)])
    assert loss_of(model, {"z": tensor(second)}) == pytest.approx(expected, rel=1e-4)


def test_queue_waits_for_its_start_but_fills_from_the_first_step():
    model, without = swav(queue_size=8, queue_start=2), swav()
    z = {"z": tensor(draw(4, 2, 4, seed=1))}
    alone = loss_of(without, z)
    for step in range(4):
        found = loss_of(model, z)
        assert (found == pytest.approx(alone, rel=1e-5)) == (step < 2)
        model.update(None, {"z": tensor(draw(4, 2, 4, seed=10 + step))})
    np.testing.assert_allclose(np.linalg.norm(to_numpy(model.queue), axis=1), 2**0.5, rtol=1e-5)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: keras.optimizers.SGD(1.0, momentum=0.9),
        lambda: L2Adam(0.1, weight_decay=1e-2),  # whose second moment divides a penalty by its own size
    ],
    ids=["SGD", "L2Adam"],
)
def test_prototypes_stay_frozen_then_move_on_the_sphere(optimizer):
    model = swav(freeze_prototypes=2)
    model.compile(optimizer=optimizer())
    start, encoder = prototypes_of(model), to_numpy(model.encoder.weights[0])
    model.fit(images(24), batch_size=12, verbose=0)
    np.testing.assert_allclose(prototypes_of(model), start, atol=1e-6)
    assert np.abs(to_numpy(model.encoder.weights[0]) - encoder).max() > 1e-3
    model.fit(images(24), batch_size=12, verbose=0)
    moved = prototypes_of(model)
    assert np.abs(moved - start).max() > 1e-3
    np.testing.assert_allclose(np.linalg.norm(moved, axis=1), 1.0, atol=1e-5)
    assert int(to_numpy(model.step)) == 4


def test_queue_is_in_the_checkpoint(tmp_path):
    model, again = swav(queue_size=12), swav(queue_size=12)
    for one in (model, again):
        one.compile(optimizer=keras.optimizers.SGD(1e-3))
    model.update(None, {"z": tensor(draw(4, 2, 4))})
    checkpoint(model, tmp_path).write(1)
    checkpoint(again, tmp_path).restore(again)
    assert to_numpy(again.queue).any() and int(to_numpy(again.pointer)) == 4 and int(to_numpy(again.step)) == 1
    np.testing.assert_array_equal(to_numpy(again.queue), to_numpy(model.queue))


def checkpoint(model, folder):
    callback = Checkpoint(folder / "checkpoint.npz", Journal(folder / "history.csv", 1), Stopwatch())
    callback.set_model(model)
    return callback


# ---------------------------------------------------------------- SwAV: multi-crop


def convolutional_encoder(seed=1):
    x = image = keras.Input((8, 8, 1))
    x = keras.layers.Conv2D(6, 3, padding="same", name="hidden")(x)
    x = keras.layers.BatchNormalization(name="norm")(x)
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.Activation("silu")(x))
    return initialize(keras.Model(image, keras.layers.Dense(4, name="latent")(x), name="encoder"), seed)


def small_crops(**arguments):
    return Views(policy("simvae-digits", crop={"scale": (0.1, 0.4)}), 3, seed=1, **arguments)


def test_small_crops_go_through_the_layers_of_the_encoder(tmp_path):
    model = SwAV(convolutional_encoder(), 5, head(), Flips(2), small_crops(size=4), freeze_prototypes=0)
    assert model.local_encoder.input_shape == (None, 4, 4, 1)
    assert all(any(w is v for v in model.encoder.weights) for w in model.local_encoder.weights)
    alone = SwAV(convolutional_encoder(), 5, head(), Flips(2), freeze_prototypes=0)
    assert model.count_params() == alone.count_params()

    outputs = model.compute_output_spec(keras.KerasTensor((6, 8, 8, 1), "uint8"), training=True)
    assert outputs["z"].shape == (6, 2, 6) and outputs["local"].shape == (6, 3, 6)
    model.compile(optimizer=keras.optimizers.SGD(1e-2))
    assert np.isfinite(model.train_on_batch(images(12))).all()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    crop = images(6)[:, 2:6, 2:6].astype("float32") / 255
    np.testing.assert_allclose(to_numpy(loaded.local_encoder(crop)), to_numpy(model.local_encoder(crop)), atol=1e-6)


def test_an_encoder_of_one_size_takes_small_crops_enlarged():
    model = swav(local_views=small_crops())
    assert model.local_encoder is model.encoder
    outputs = model.compute_output_spec(keras.KerasTensor((6, 8, 8, 1), "uint8"), training=True)
    assert outputs["local"].shape == (6, 3, 4)


# ---------------------------------------------------------------- ProtoCPC


def proto_cpc(**arguments):
    return ProtoCPC(plain_encoder(), 5, head(), Flips(2), **arguments)


@pytest.mark.parametrize("prior_momentum", [0.0, 0.9])
def test_proto_cpc_is_the_formula_of_the_derivation(prior_momentum):
    model, s = proto_cpc(prior_momentum=prior_momentum), np.tanh(draw(6, 2, 5))
    p = softmax(draw(6, 2, 5, seed=1) / 0.2)
    q = prior_momentum / 5 + (1 - prior_momentum) * p.mean((0, 1))
    each = [(p[:, u] * s[:, v] / 0.1).sum(1) - np.log((q * np.exp(s[:, v] / 0.1)).sum(1)) for u, v in ((0, 1), (1, 0))]
    outputs = {"student": tensor(s), "teacher": tensor(p)}
    assert loss_of(model, outputs) == pytest.approx(-np.mean(each), rel=1e-4)
    model.update(None, outputs)
    np.testing.assert_allclose(to_numpy(model.prior), q, rtol=1e-5)


def test_the_teacher_follows_before_it_is_asked_and_never_learns():
    model = proto_cpc(momentum=0.75)
    pairs = [(model.teacher_encoder, model.encoder), (model.teacher_projector, model.projector)]
    pairs.append((model.teacher_prototype_head, model.prototype_head))
    trained = {id(w) for w in model.trainable_variables}
    for teacher, student in pairs:
        assert not any(id(w) in trained for w in teacher.weights)
        student.set_weights([w + 1.0 for w in student.get_weights()])
    before = [[to_numpy(w) for w in teacher.weights] for teacher, _ in pairs]
    model(images(4), training=False)
    for arrays, (teacher, _) in zip(before, pairs):
        for old, weight in zip(arrays, teacher.weights):
            np.testing.assert_array_equal(to_numpy(weight), old)
    model(images(4), training=True)
    for arrays, (teacher, student) in zip(before, pairs):
        for old, weight, learned in zip(arrays, teacher.weights, student.weights):
            if learned.trainable:
                np.testing.assert_allclose(to_numpy(weight), old + 0.25, atol=1e-5)


def test_teacher_probabilities_are_sharper_than_the_students():
    model = proto_cpc()
    views = to_numpy(model.make_views(images(6), training=True))[:, 0]
    taught, named = to_numpy(model.teach(views)), to_numpy(model.cluster_probabilities(views))
    np.testing.assert_allclose(taught.sum(1), 1.0, rtol=1e-5)
    assert (taught.max(1) > named.max(1)).all() and (taught.argmax(1) == named.argmax(1)).all()


# ---------------------------------------------------------------- DeepCluster


def three_kinds(n=48, noise=5):
    """Dark, striped and bright images in turn, with a little noise: (n, 8, 8, 1), and their kinds."""
    kind = np.arange(n) % 3
    base = np.stack([np.full((8, 8), 20), np.tile([20, 235], (8, 4)), np.full((8, 8), 235)])[kind]
    noisy = base + np.random.default_rng(0).normal(0, noise, base.shape)
    return noisy.clip(0, 255).astype("uint8")[..., None], kind


def deep_cluster(n=48, clusters=3, **arguments):
    model = DeepCluster(plain_encoder(), n, clusters, **{"views": Flips(2)} | arguments)
    model.compile(optimizer=keras.optimizers.SGD(1e-3, momentum=0.9))
    return model


def indexed(x):
    return {"images": x, "index": np.arange(len(x), dtype="int32")}


def test_recluster_finds_the_clusters():
    x, kind = three_kinds()
    model = deep_cluster()
    found = model.recluster(x)
    labels = to_numpy(model.assignments)
    assert labels.dtype == np.int32 and len({*zip(kind, labels)}) == 3
    assert found["clusters_used"] == 3 and 0 <= found["cluster_nmi"] <= 1
    assert model.recluster(x, epoch=1)["cluster_nmi"] == pytest.approx(1.0)


def test_clusters_count_the_same_whatever_their_size():
    x, kind = three_kinds(60, noise=0)
    x = np.concatenate([x[kind == 0], x[kind == 1][:4], x[kind == 2][:12]])  # 20, 4 and 12 images
    model, plain = deep_cluster(36), deep_cluster(36, balanced=False)
    model.recluster(x)
    plain.recluster(x)
    labels, weights = to_numpy(model.assignments), to_numpy(model.cluster_weights)
    totals = [weights[k] * (labels == k).sum() for k in range(3)]
    np.testing.assert_allclose(totals, 12.0, rtol=1e-5)
    assert sorted((labels == k).sum() for k in range(3)) == [4, 12, 20]
    np.testing.assert_array_equal(to_numpy(plain.cluster_weights), 1.0)


def test_the_loss_is_weighted_cross_entropy_of_the_assignments():
    model, logits = deep_cluster(n=9), draw(4, 2, 3)
    model.assignments.assign([2, 0, 1, 1, 2, 0, 0, 1, 2])
    model.cluster_weights.assign([0.5, 1.5, 2.0])
    inputs = {"images": images(4), "index": np.array([8, 0, 3, 5], "int32")}
    labels = np.array([2, 2, 1, 0])
    weights = np.array([2.0, 2.0, 1.5, 0.5])
    each = [-(weights * np.log(softmax(logits[:, j])[np.arange(4), labels])).mean() for j in range(2)]
    assert loss_of(model, {"logits": tensor(logits)}, inputs) == pytest.approx(np.mean(each), rel=1e-5)


def test_an_index_outside_the_set_is_not_silent():
    model = deep_cluster(n=9)
    for wrong in (9, -1):
        inputs = {"images": images(2), "index": np.array([0, wrong], "int32")}
        assert np.isnan(loss_of(model, {"logits": tensor(draw(2, 2, 3))}, inputs))


def test_reclustering_before_an_epoch_is_what_that_epoch_trains_on():
    """On every backend: assignments, classifier and the optimizer's memory of it, all set from a callback."""
    x, kind = three_kinds()
    model = deep_cluster()
    fitting = {"x": indexed(x), "batch_size": 12, "verbose": 0, "shuffle": False}
    with pytest.warns(UserWarning, match=r"pass sslzoo\.callbacks\.Recluster\(images\)"):
        model.fit(**fitting)  # leaves momentum behind
    model.optimizer.learning_rate = 0.0
    history = model.fit(**fitting, callbacks=[Recluster(x)]).history
    assert len({*zip(kind, to_numpy(model.assignments))}) == 3
    for weight, value in zip(model.classifier.weights, model._fresh_classifier(0)):
        np.testing.assert_array_equal(to_numpy(weight), value)
    momentum = {v.name: to_numpy(v).any() for v in model.optimizer.variables if v.name.endswith("momentum")}
    assert {name for name, left in momentum.items() if not left} == {name for name in momentum if "clusters" in name}
    assert history["clusters_used"] == [3.0] and history["loss"][0] == pytest.approx(np.log(3), abs=0.1)

    model.optimizer.learning_rate = 0.05
    assert model.fit(**fitting, epochs=20).history["loss"][-1] < 0.5


def test_a_resumed_run_has_the_clusters_it_would_have_had(tmp_path):
    x = images(24)

    def run(model, start, *callbacks):
        fitting = {"batch_size": 12, "verbose": 0, "shuffle": False, "epochs": 3, "initial_epoch": start}
        model.fit(indexed(x), **fitting, callbacks=[Recluster(x, every=2), *callbacks])

    whole, resumed = deep_cluster(24, clusters=5), deep_cluster(24, clusters=5)
    saving = checkpoint(whole, tmp_path)
    run(whole, 0, keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, _: epoch or saving.write(1)))
    assert checkpoint(resumed, tmp_path).restore(resumed) == 1
    run(resumed, 1)
    for ours, theirs in zip(resumed.weights, whole.weights):
        np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs), atol=1e-6, err_msg=ours.path)


class Features:
    """Stands in for an encoder: gives the features it was made of."""

    def __init__(self, features):
        self.features = features

    def predict(self, images, **kwargs):
        return self.features


def test_fewer_different_features_than_clusters_leave_some_unused():
    model = deep_cluster(12, clusters=6)
    three = Features(np.repeat(draw(3, 4), 4, axis=0))
    assert model.recluster(images(12), encoder=three)["clusters_used"] == 3
    np.testing.assert_allclose(sorted(to_numpy(model.cluster_weights)), [0, 0, 0, 1, 1, 1], rtol=1e-6)
    for collapsed in (np.ones((12, 4)), np.zeros((12, 4))):
        assert model.recluster(images(12), epoch=1, encoder=Features(collapsed))["clusters_used"] == 1
        assert np.isfinite(loss_of(model, {"logits": tensor(draw(12, 2, 6))}, indexed(images(12))))


def test_broken_features_are_not_clustered():
    model = deep_cluster()
    model.encoder.get_layer("latent").bias.assign(np.full(4, np.nan))
    with pytest.raises(TrainingError, match="Features must be finite"):
        model.recluster(images(48))


# ---------------------------------------------------------------- all of them


def each_method():
    return {"swav": swav(), "queue": swav(queue_size=4), "protocpc": proto_cpc(), "deepcluster": deep_cluster()}


@pytest.mark.parametrize("name", ["queue", "protocpc", "deepcluster"])
def test_batches_of_one_and_embeddings_of_zero_are_defined(name):
    model = each_method()[name]
    last = model.projector.get_layer("projection") if model.projector else model.encoder.get_layer("latent")
    last.set_weights([np.zeros_like(w) for w in last.get_weights()])
    model.compile(optimizer=keras.optimizers.SGD(0.1))
    given = indexed(images(1)) if model.indexed else images(1)
    loss = model.train_on_batch(given, return_dict=True)["loss"]
    assert loss == pytest.approx(model.chance_level(1), abs=0.05)
    assert np.isfinite(model.train_on_batch(given)).all()
    assert all(np.isfinite(to_numpy(weight)).all() for weight in model.weights)


@pytest.mark.parametrize("name", list(each_method()))
def test_cluster_probabilities_and_chance_level(name):
    model = each_method()[name]
    views = to_numpy(model.make_views(images(6), training=True))[:, 0]
    probabilities = to_numpy(model.cluster_probabilities(views))
    assert probabilities.shape == (6, 3 if name == "deepcluster" else 5)
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-5)
    assert model.chance_level(12) == pytest.approx({"protocpc": 0, "deepcluster": np.log(3)}.get(name, np.log(5)))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: swav(prototypes=1), "prototypes must be an integer >= 2. Received: prototypes=1"),
        (lambda: swav(num_views=1), "at least 2 views.*Received: num_views=1"),
        (lambda: swav(temperature=0), "temperature must be a number > 0"),
        (lambda: swav(iterations=0), "iterations must be an integer >= 1"),
        (lambda: swav(queue_size=-1), "queue_size must be an integer >= 0"),
        (lambda: swav(freeze_prototypes=0.5), "freeze_prototypes must be an integer"),
        (lambda: SwAV(plain_encoder(), 5, queue_size=8), "Received: queue_size=8, views=None"),
        (lambda: swav(queue_size=8).update(None, {"z": ops.ones((12, 2, 4))}), "queue of 8 rows.*12 rows"),
        (lambda: swav(queue_size=8)(np.zeros((4, 3, 8, 8, 1))), "remembers 2 views.*Received: 3 views"),
        (lambda: swav(local_views=Flips(2))(np.zeros((4, 2, 8, 8, 1))), "raw images.*Received: views of shape"),
        (lambda: swav(local_views=small_crops(size=4)), r"\(8, 8, 1\) only.*Received: size=\(4, 4\)"),
        (lambda: proto_cpc(momentum=1.5), "momentum must be a number from 0 to 1"),
        (lambda: proto_cpc(prior_momentum=1), "prior_momentum must be below 1"),
        (lambda: deep_cluster(n=4, clusters=5), "at most the number of images, 4. Received: clusters=5"),
        (lambda: deep_cluster(whitened_dim=0), "whitened_dim must be an integer >= 1"),
        (lambda: deep_cluster()(images(4)), "takes {'images': images, 'index': their places.*Received: inputs="),
        (lambda: deep_cluster().recluster(images(5)), "all 48 training images.*Received: 5 images"),
        (lambda: Recluster(images(4), every=0), "every must be an integer >= 1"),
    ],
)
def test_wrong_arguments_are_refused_at_once(build, message):
    with pytest.raises(InvalidInputError, match=message):
        build()


def test_recluster_is_refused_before_training():
    model = deep_cluster()
    with pytest.raises(InvalidInputError, match="all 48 training images"):
        model.fit(indexed(images(48)), verbose=0, callbacks=[Recluster(images(24))])
    other = SimCLR(plain_encoder(), views=Flips(2))
    other.compile(optimizer="sgd")
    with pytest.raises(InvalidInputError, match="Received: SimCLR"):
        other.fit(images(8), verbose=0, callbacks=[Recluster(images(8))])
