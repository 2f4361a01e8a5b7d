"""Methods with a memory bank: what they must do beyond the shared battery."""

import itertools
import warnings

import keras
import numpy as np
import pytest
from contract import Flips, head, images, inputs, plain_encoder, state
from keras import ops
from oracle import gradient

from sslzoo import losses, networks, views
from sslzoo.callbacks import Checkpoint, ClusterBank, Journal, Stopwatch
from sslzoo.errors import ArtifactError, InvalidInputError, UnknownNameError
from sslzoo.methods import CMC, Annulus, Ball, InBatchDiscrimination, InstanceDiscrimination, LocalAggregation
from sslzoo.methods.kmeans import mini_batch_kmeans
from sslzoo.methods.memory_bank import BankMonitor

BATCH, IMAGES, T = 12, 48, 0.2


def to_numpy(tensor):
    return ops.convert_to_numpy(tensor)


def tensor(array):
    return ops.convert_to_tensor(array, dtype="float32")


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def make(method, num_views=1, num_images=IMAGES, **arguments):
    arguments = {"temperature": T, "views": Flips(num_views)} | arguments
    model = method(plain_encoder(), num_images=num_images, **arguments)
    model.compile(optimizer=keras.optimizers.SGD(0.05))
    return model


def given(index=(3, 40, 7, 11)):
    return {"images": tensor(np.zeros((len(index), 8, 8, 1))), "index": ops.convert_to_tensor(np.array(index, "int32"))}


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def terms(model, batch, outputs):
    return {name: float(to_numpy(value)) for name, value in model.objective(batch, outputs, False).items()}


def loss_of(model, z, index=(3, 40, 7, 11), **outputs):
    return sum(terms(model, given(index), {"z": tensor(z), **outputs}).values())


# ---------------------------------------------------------------- the objectives, from their definitions


def reference(model, z, index, near=None, labels=None, aggregate=False):
    """The loss in float64: sets of Python integers, one view at a time."""
    bank = to_numpy(model.bank.rows).astype("float64")
    sums = []
    for i, row in zip(np.repeat(index, z.shape[1]), z.reshape(-1, z.shape[-1])):
        scores = bank @ unit(row) / T
        ball = set(np.argsort(-scores)[:near].tolist()) | {i} if near else set(range(len(bank)))
        close = {j for j in range(len(bank)) if labels is not None and (labels[:, j] == labels[:, i]).any()} | {i}
        positive = ball & close if aggregate else {i}
        everyone = ball if aggregate else (ball - close) | {i}
        p, q = (np.exp(scores[sorted(some)]).sum() for some in (positive, everyone))
        sums.append(-np.log(p / q))
    return np.mean(sums)


CLUSTERS = np.random.default_rng(5).integers(0, 6, (3, IMAGES)).astype("int32")


@pytest.mark.parametrize("num_views", [1, 2])
def test_each_method_is_the_formula_of_its_sets(num_views):
    z, index = draw(4, num_views, 4, seed=2), (3, 40, 7, 11)
    full = make(InstanceDiscrimination, negatives=None)
    assert loss_of(full, z) == pytest.approx(reference(full, z, index), rel=1e-5)
    ball = make(Ball, neighbors=9)
    assert loss_of(ball, z) == pytest.approx(reference(ball, z, index, near=9), rel=1e-5)
    for method, aggregate in ((Annulus, False), (LocalAggregation, True)):
        model = make(method, neighbors=20, clusters=6, clusterings=3)
        alone = reference(model, z, index, near=20)
        assert loss_of(model, z) == pytest.approx(alone, rel=1e-5)  # no clusters made yet: the ball
        model.bank.labels.assign(CLUSTERS)
        expected = reference(model, z, index, near=20, labels=CLUSTERS, aggregate=aggregate)
        assert loss_of(model, z) == pytest.approx(expected, rel=1e-5) and expected < alone


def test_an_inner_radius_leaves_out_the_nearest():
    model, z, index = make(Annulus, neighbors=20, clusters=None, inner=0.25), draw(4, 1, 4), (3, 40, 7, 11)
    bank, sums = to_numpy(model.bank.rows).astype("float64"), []
    for i, row in zip(index, z[:, 0]):
        scores = bank @ unit(row) / T
        ring = {*np.argsort(-scores)[5:20].tolist(), i}
        sums.append(np.log(np.exp(scores[sorted(ring)]).sum()) - scores[i])
    assert loss_of(model, z) == pytest.approx(np.mean(sums), rel=1e-5)


@pytest.mark.parametrize("method", [Ball, Annulus, LocalAggregation])
def test_a_ball_looked_up_is_the_ball_marked_among_all(method, monkeypatch):
    arguments = {} if method is Ball else {"clusters": 6, "clusterings": 3}
    model, z, found = make(method, neighbors=20, **arguments), draw(12, 1, 4).astype("float32"), []
    if arguments:
        model.bank.labels.assign(CLUSTERS)
    for searches in (True, False):
        monkeypatch.setattr(method, "searches", searches)
        batch = given(np.arange(12) * 4)

        def loss(z, batch=batch):
            return sum(model.objective(batch, {"z": z}, False).values())

        found.append((float(to_numpy(loss(tensor(z)))), gradient(loss, z)[0]))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-6)


def test_an_image_without_negatives_has_a_finite_gradient():
    model, z = make(Annulus, neighbors=20, clusters=6, clusterings=3), draw(4, 1, 4).astype("float32")
    model.bank.labels.assign(np.zeros_like(CLUSTERS))  # everyone shares a cluster
    (slope,) = gradient(lambda z: sum(model.objective(given(), {"z": z}, False).values()), z)
    assert loss_of(model, z) == pytest.approx(0, abs=1e-6) and np.abs(slope).max() < 1e-6


def test_a_ball_of_everyone_and_a_small_bank_are_the_full_softmax():
    z = draw(4, 1, 4)
    full = loss_of(make(InstanceDiscrimination, negatives=None), z)
    scores = unit(z[:, 0]) @ to_numpy(make(Ball).bank.rows).T / T
    index = np.array([3, 40, 7, 11], "int32")
    assert full == pytest.approx(float(losses.instance_cross_entropy(scores, index)), rel=1e-5)
    assert loss_of(make(Ball, neighbors=4096), z) == pytest.approx(full, rel=1e-6)
    small = make(InstanceDiscrimination, negatives=4096)
    assert not small.draws and loss_of(small, z) == pytest.approx(full, rel=1e-6)


def test_drawn_negatives_are_the_image_and_what_was_drawn():
    model, z = make(InstanceDiscrimination, negatives=6), draw(2, 1, 4)
    drawn = np.array([40, 5, 5, 3, 17, 20])  # 5 twice; 3 is the first anchor itself, and no negative of it
    bank, sums = to_numpy(model.bank.rows).astype("float64"), []
    for i, row in zip((3, 8), z[:, 0]):
        scores = bank @ unit(row) / T
        sums.append(np.log(np.exp(scores[[i, *(j for j in drawn if j != i)]]).sum()) - scores[i])
    found = loss_of(model, z, (3, 8), drawn=ops.convert_to_tensor(drawn))
    assert found == pytest.approx(np.mean(sums), rel=1e-5)


def test_negatives_are_drawn_anew_and_uniformly_and_repeat_with_the_seed():
    one, same = (make(InstanceDiscrimination, num_images=1000, negatives=400, seed=3) for _ in range(2))
    draws = [to_numpy(one(given(), training=True)["drawn"]) for _ in range(10)]
    assert not np.array_equal(draws[0], draws[1])
    np.testing.assert_array_equal(draws[0], to_numpy(same(given(), training=True)["drawn"]))
    drawn = np.concatenate(draws)
    assert drawn.min() >= 0 and drawn.max() < 1000 and abs(drawn.mean() - 499.5) < 20 and len(set(drawn)) > 950


def test_the_original_form_is_noise_contrastive_estimation():
    model, z = make(InstanceDiscrimination, negatives=6, form="nce"), draw(2, 1, 4)
    drawn = np.array([40, 5, 5, 9, 17, 20])
    scores = unit(z[:, 0]) @ to_numpy(model.bank.rows).T / T
    expected = losses.noise_contrastive(scores[[0, 1], [3, 8]], scores[:, drawn], IMAGES)
    assert loss_of(model, z, (3, 8), drawn=ops.convert_to_tensor(drawn)) == pytest.approx(float(expected), rel=1e-5)


def test_without_a_bank_the_batch_is_the_memory():
    model, z = InBatchDiscrimination(plain_encoder(), views=Flips(2), temperature=T), draw(5, 2, 4)
    model.compile(optimizer=keras.optimizers.SGD(0.05))
    scores = unit(z[:, 0]) @ unit(z[:, 1]).T / T
    found = sum(float(v) for v in model.objective(None, {"z": tensor(z)}, True).values())
    assert found == pytest.approx(float(losses.info_nce(scores)), rel=1e-5)
    (slope,) = gradient(lambda z: sum(model.objective(None, {"z": z}, True).values()), z.astype("float32"))
    assert np.abs(slope[:, 0]).max() > 0.01 and np.abs(slope[:, 1]).max() > 0.01
    model.fit(images(24), batch_size=BATCH, verbose=0)
    with pytest.raises(InvalidInputError, match="exactly 2 views"):
        InBatchDiscrimination(plain_encoder(), views=Flips(1))
    with pytest.raises(InvalidInputError, match="momentum must be above 0; without a memory, InBatchDiscrimination"):
        make(InstanceDiscrimination, momentum=0.0)


# ---------------------------------------------------------------- the bank


def test_the_bank_is_read_then_written_and_no_gradient_reaches_it():
    model = make(Ball, neighbors=9, momentum=0.7)
    assert not any(weight is model.bank.rows for weight in model.trainable_variables)
    expected = to_numpy(model.bank.rows).astype("float64")
    for number in range(3):
        index = np.random.default_rng(number).permutation(IMAGES)[:BATCH].astype("int32")
        batch = {"images": images(IMAGES)[index], "index": index}
        z = to_numpy(model(batch, training=True)["z"])  # statistics of batch normalization move; nothing else does
        loss = reference_with(expected, z, index, near=9)
        np.testing.assert_allclose(to_numpy(model.bank.rows), expected, atol=1e-5)
        model.reset_metrics()
        found = model.train_on_batch(batch, return_dict=True)
        assert float(found["loss"]) == pytest.approx(loss, rel=1e-3)
        expected[index] = unit(0.7 * expected[index] + 0.3 * unit(z[:, 0]))
    np.testing.assert_allclose(to_numpy(model.bank.rows), expected, atol=1e-4)


def reference_with(bank, z, index, near):
    sums = []
    for i, row in zip(index, z[:, 0]):
        scores = bank @ unit(row) / T
        ball = {*np.argsort(-scores)[:near].tolist(), int(i)}
        sums.append(np.log(np.exp(scores[sorted(ball)]).sum()) - scores[i])
    return np.mean(sums)


def test_an_image_remembers_the_mean_of_its_views():
    model, z = make(Ball, num_views=3, momentum=0.5), draw(2, 3, 4)
    before = to_numpy(model.bank.rows)
    model.update(given((5, 9)), {"z": tensor(z)})
    expected = unit(0.5 * before[[5, 9]] + 0.5 * unit(unit(z).mean(axis=1)))
    np.testing.assert_allclose(to_numpy(model.bank.rows)[[5, 9]], expected, atol=1e-6)


def test_the_bank_is_float32_unit_rows_of_a_seed():
    one, same, other = (to_numpy(make(Ball, seed=seed).bank.rows) for seed in (1, 1, 2))
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(one, same)
    assert one.dtype == np.float32 and one.shape == (IMAGES, 4) and np.abs(one - other).max() > 0.1


def test_a_resumed_run_has_the_bank_and_the_draws_it_would_have_had(tmp_path):
    def batch(number):
        index = np.random.default_rng(number).permutation(IMAGES)[:BATCH].astype("int32")
        return {"images": images(IMAGES)[index], "index": index}

    shrinking, drawing = {"neighbors": 9, "anneal_steps": 4}, {"negatives": 20}
    for method, arguments in ((Ball, shrinking), (InstanceDiscrimination, drawing)):
        model, again = (make(method, **arguments) for _ in range(2))
        for number in range(3):
            model.train_on_batch(batch(number))
        checkpoint(model, tmp_path / method.__name__).write(1)
        assert checkpoint(again, tmp_path / method.__name__).restore(again) == 1
        for number in range(3, 6):
            model.train_on_batch(batch(number))
            again.train_on_batch(batch(number))
        for ours, theirs in zip(state(model), state(again)):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
    with pytest.raises(ArtifactError, match="another model"):
        larger = make(InstanceDiscrimination, num_images=60, negatives=20)
        checkpoint(larger, tmp_path / "InstanceDiscrimination").restore(larger)


def checkpoint(model, folder):
    folder.mkdir(exist_ok=True)
    callback = Checkpoint(folder / "checkpoint.npz", Journal(folder / "history.csv", 1), Stopwatch())
    callback.set_model(model)
    return callback


def test_a_filled_bank_holds_what_the_networks_make_of_each_image():
    model, pixels = make(Ball, neighbors=9), images(IMAGES)
    model.fill_bank(pixels, batch_size=20)  # which does not divide the images
    rows = to_numpy(model.bank.rows)
    np.testing.assert_allclose(rows, unit(to_numpy(model.encode(pixels))), atol=1e-5)
    assert rows.dtype == np.float32 and len(model.remembered(pixels)) == IMAGES
    with pytest.raises(InvalidInputError, match=r"all 48 training images.*Received: 5 images"):
        model.fill_bank(pixels[:5])


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="others keep nothing outside of a gradient's tape")
def test_what_is_embedded_for_the_bank_keeps_nothing_for_gradients(monkeypatch):
    import torch

    model, kept = make(Ball, neighbors=9), []
    embed = model.embed
    monkeypatch.setattr(
        model, "embed", lambda *args, **more: kept.append(torch.is_grad_enabled()) or embed(*args, **more)
    )
    model.fill_bank(images(IMAGES))
    model.remembered(images(IMAGES))
    assert kept and not any(kept) and torch.is_grad_enabled()


def test_similar_images_are_remembered():
    """Twelve images, each with a bank row of its own after training; noisy copies find it."""
    model = make(InstanceDiscrimination, num_images=BATCH, negatives=None, temperature=0.1)
    model.compile(optimizer=keras.optimizers.Adam(0.02))
    model.fit(inputs(model, BATCH), batch_size=BATCH, epochs=60, verbose=0)
    noisy = images(BATCH).astype("float32") + np.random.default_rng(0).normal(0, 4, (BATCH, 8, 8, 1))
    assert (model.remembered(noisy.clip(0, 255), batch_size=5) == np.arange(BATCH)).mean() > 0.9
    others = model.remembered(images(BATCH), batch_size=5, index=np.arange(BATCH))
    rows = to_numpy(model.bank.rows)
    cosines = unit(to_numpy(model.encode(images(BATCH)))) @ rows.T - 9 * np.eye(BATCH)
    np.testing.assert_array_equal(others, cosines.argmax(axis=1))  # none finds itself
    labels = np.arange(BATCH) % 3
    history = model.fit(
        inputs(model, BATCH),
        batch_size=BATCH,
        epochs=3,
        verbose=0,
        callbacks=[BankMonitor(images(BATCH), labels, labels, every=2)],
    ).history
    assert len(history["bank_accuracy"]) == 2 and history["bank_accuracy"][-1] > 0.9


# ---------------------------------------------------------------- schedules and clusters


def test_a_ball_begins_as_everyone_and_ends_as_itself():
    z = draw(4, 1, 4)
    model, full, end = make(Ball, neighbors=9, anneal_steps=5), make(Ball), make(Ball, neighbors=9)
    sizes, found = [], []
    for step in range(8):
        model.step.assign(step)
        sizes.append(float(model.radius()))
        found.append(loss_of(model, z))
    assert sizes == pytest.approx([48, 40.2, 32.4, 24.6, 16.8, 9, 9, 9])
    assert found[0] == pytest.approx(loss_of(full, z), rel=1e-6)
    assert found[5:] == pytest.approx([loss_of(end, z)] * 3, rel=1e-6)
    assert all(first >= second for first, second in itertools.pairwise(found))
    model.step.assign(0)
    model.fit(inputs(model), batch_size=BATCH, verbose=0)
    assert int(to_numpy(model.step)) == 4


def test_the_step_curve_is_instance_discrimination_until_its_end():
    z = draw(4, 1, 4)
    model = make(LocalAggregation, neighbors=9, clusters=4, anneal_steps=5, curve="step")
    for step, expected in ((0, make(Ball)), (4, make(Ball)), (5, make(Ball, neighbors=9))):
        model.step.assign(step)
        assert loss_of(model, z) == pytest.approx(loss_of(expected, z), rel=1e-6)


def test_clusters_are_made_of_the_bank_and_repeat():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, IMAGES)
    rows = unit(np.eye(4)[kind] + 0.05 * rng.normal(size=(IMAGES, 4))).astype("float32")
    labels = mini_batch_kmeans(rows, 3, seed=1)
    assert labels.dtype == np.int32 and labels.shape == (IMAGES,) and len({*zip(kind, labels)}) == 3
    model, again = (make(Annulus, clusters=3, clusterings=4) for _ in range(2))
    for one in (model, again):
        one.bank.rows.assign(rows)
    calls = []
    found = model.cluster_bank(epoch=2, progress=calls.append)
    again.cluster_bank(epoch=2)
    made = to_numpy(model.bank.labels)
    assert calls == [1, 2, 3, 4] and 0 <= found["cluster_nmi"] <= 1
    assert made.shape == (4, IMAGES) and all(len({*zip(kind, labels)}) == 3 for labels in made)
    np.testing.assert_array_equal(made, to_numpy(again.bank.labels))
    assert model.cluster_bank(epoch=3)["cluster_nmi"] == pytest.approx(1.0)
    assert not np.array_equal(mini_batch_kmeans(draw(200, 4), 5, 0), mini_batch_kmeans(draw(200, 4), 5, 1))


@pytest.mark.slow
def test_the_callback_makes_clusters_between_epochs(capsys):
    model = make(LocalAggregation, clusters=5, clusterings=2)
    seen = []

    class Look(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append(to_numpy(self.model.bank.labels))

    history = model.fit(
        inputs(model), batch_size=BATCH, epochs=6, verbose=1, callbacks=[ClusterBank(every=2, start=1), Look()]
    ).history
    assert (seen[0] == np.arange(IMAGES)).all()  # alone, until the bank was written
    changed = [not np.array_equal(first, second) for first, second in itertools.pairwise(seen)]
    assert changed == [True, False, True, False, True]
    assert len(history["cluster_nmi"]) == 5 and "2/2" in capsys.readouterr().out
    assert all(labels.max() < 5 for labels in seen[1:])
    with pytest.raises(InvalidInputError, match="Received: Ball"):
        make(Ball).fit(inputs(make(Ball)), batch_size=BATCH, verbose=0, callbacks=[ClusterBank()])
    with pytest.raises(InvalidInputError, match=r"clusters must be an integer >= 2\. Received: clusters=None"):
        make(LocalAggregation, clusters=None)


# ---------------------------------------------------------------- CMC


def cmc(**arguments):
    model = CMC(plain_encoder(), plain_encoder(5), IMAGES, views=Flips(1), temperature=T, **arguments)
    model.compile(optimizer=keras.optimizers.SGD(0.05))
    return model


def test_clusters_that_nobody_makes_bring_a_warning():
    model = make(Annulus, clusters=4)
    with pytest.warns(UserWarning, match=r"pass sslzoo\.callbacks\.ClusterBank\(\)"):
        model.fit(inputs(model), batch_size=BATCH, verbose=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Each image is alone")
        model.fit(inputs(model), batch_size=BATCH, verbose=0, callbacks=[ClusterBank()])
        model.cluster_bank()
        model.fit(inputs(model), batch_size=BATCH, verbose=0)


def test_cmc_finds_each_modality_in_the_bank_of_the_other():
    for settings, single in (
        ({"negatives": None}, make(InstanceDiscrimination, negatives=None)),
        ({"neighbors": 9}, make(Ball, neighbors=9)),
        ({"neighbors": 20, "inner": 0.25}, make(Annulus, neighbors=20, clusters=None, inner=0.25)),
        ({"neighbors": 20, "clusters": 6, "clusterings": 3}, make(Annulus, neighbors=20, clusters=6, clusterings=3)),
    ):
        model, z, expected = cmc(**settings), draw(4, 1, 8), 0.0
        for part, bank in ((z[..., :4], model.color_bank), (z[..., 4:], model.lightness_bank)):
            single.bank.rows.assign(bank.rows)
            if bank.labels is not None:
                bank.labels.assign(CLUSTERS)
                single.bank.labels.assign(CLUSTERS)
            expected += loss_of(single, part)
        assert loss_of(model, z) == pytest.approx(expected, rel=1e-5)
        model.update(given(), {"z": tensor(z)})
        before = to_numpy(cmc(**settings).lightness_bank.rows)[3]
        mine = unit(0.5 * before + 0.5 * unit(z[0, 0, :4]))  # but remembers it in its own
        np.testing.assert_allclose(to_numpy(model.lightness_bank.rows)[3], mine, atol=1e-6)


@pytest.mark.slow
def test_cmc_clusters_each_bank():
    model = cmc(neighbors=20, clusters=4, clusterings=2)
    history = model.fit(inputs(model), batch_size=BATCH, epochs=3, verbose=0, callbacks=[ClusterBank()]).history
    assert len(history["cluster_nmi"]) == 2
    labels = [to_numpy(bank.labels) for _, bank in model.banks()]
    assert not np.array_equal(*labels) and all(one.max() < 4 for one in labels)


def lab_encoders(seed=0):
    return (
        networks.on_part(networks.encoder("mlp-small", (8, 8, c[1] - c[0]), 5, seed=seed), (8, 8, 3), channels=c)
        for c in ((0, 1), (1, 3))
    )


@pytest.mark.slow
def test_cmc_of_color_images_is_published_with_its_colors(tmp_path):
    """Raw RGB in, both representations out; gray images have no color to speak of."""
    model = CMC(*lab_encoders(), 16, views=views.Views("mi-cifar10-lab", 1, seed=0), negatives=8)
    model.compile(optimizer="sgd")
    x = np.random.default_rng(0).integers(0, 256, (16, 8, 8, 3)).astype("uint8")
    model.fit({"images": x, "index": np.arange(16)}, batch_size=8, verbose=0)
    encoder = model.parts((8, 8, 3))["encoder"]
    found = encoder.predict(x, verbose=0)
    assert found.shape == (16, 10)
    np.testing.assert_allclose(found, to_numpy(model.encode(x)), atol=1e-5)
    encoder.save(tmp_path / "encoder.keras")
    loaded = keras.saving.load_model(tmp_path / "encoder.keras")
    np.testing.assert_allclose(loaded.predict(x, verbose=0), found, atol=1e-5)
    gray = np.repeat(x[..., :1], 3, axis=-1)
    lightness, color = np.split(encoder.predict(gray, verbose=0), 2, axis=1)
    assert color.std(axis=0).max() < 1e-3 < lightness.std(axis=0).min()


def test_on_part_takes_images_of_any_size():
    color = networks.on_part(networks.encoder("airnet", (None, None, 2), None), (None, None, 3), channels=(1, 3))
    images = np.random.default_rng(0).normal(size=(2, 24, 28, 3)).astype("float32")
    features = ops.convert_to_numpy(color(images))
    images[..., 0] = 0.0
    np.testing.assert_array_equal(ops.convert_to_numpy(color(images)), features)
    with pytest.raises(InvalidInputError, match="image_shape must be"):
        networks.on_part(networks.encoder("mlp-small", (3, 8, 3), 5), (None, None, 3), rows=(5, 8))


def test_on_part_sees_its_part_alone():
    first, second = lab_encoders()
    lower = networks.on_part(networks.encoder("mlp-small", (3, 8, 3), 5), (8, 8, 3), rows=(5, 8))
    x = draw(3, 8, 8, 3).astype("float32")
    for network, part in ((first, np.s_[..., 0:1]), (second, np.s_[..., 1:3]), (lower, np.s_[:, 5:8])):
        alone = np.zeros_like(x)
        alone[part] = x[part]
        np.testing.assert_array_equal(to_numpy(network(alone)), to_numpy(network(x)))
        assert np.abs(to_numpy(network(x - alone)) - to_numpy(network(x))).max() > 1e-3
    for wrong in ({"channels": (2, 4)}, {"channels": (0, 2)}, {"rows": (0, 4)}):
        with pytest.raises(InvalidInputError, match=r"Received: network of \(None, 8, 8, 1\)"):
            networks.on_part(networks.encoder("mlp-small", (8, 8, 1), 5), (8, 8, 3), **wrong)


# ---------------------------------------------------------------- wrong ways, and what they have in common


@pytest.mark.slow
@pytest.mark.parametrize("method", [InstanceDiscrimination, Ball, Annulus, LocalAggregation])
def test_an_index_outside_is_refused_or_makes_the_loss_nan_and_moves_nothing(method):
    model = make(method, num_images=5, **({"clusters": 3} if method in (Annulus, LocalAggregation) else {}))
    batch, before = inputs(model, 6), state(model)
    with pytest.raises(InvalidInputError, match=r"5 training images, 0..4. Received: index=5"):
        model(batch)
    if keras.backend.backend() == "torch":
        with pytest.raises(InvalidInputError, match="Received: index=5"):
            model.fit(batch, batch_size=6, verbose=0)
    else:
        assert np.isnan(model.fit(batch, batch_size=6, verbose=0).history["loss"]).all()
        assert all(np.isfinite(array).all() for array in state(model))
        bank = next(i for i, weight in enumerate(model.weights) if weight is model.bank.rows)
        np.testing.assert_array_equal(state(model)[bank], before[bank])


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (images(4), "InstanceDiscrimination takes {'images': images, 'index'.*Received: inputs="),
        ({"images": images(4)}, r"Received: inputs=\['images'\]"),
        ({"images": images(4), "index": np.zeros(4, "float32")}, r"integer tensor.*dtype=float32, shape=\(4,\)"),
        ({"images": images(4), "index": np.zeros((4, 1), "int32")}, r"integer tensor.*dtype=int32, shape=\(4, 1\)"),
    ],
)
def test_inputs_without_a_proper_index_are_refused(batch, message):
    with pytest.raises(InvalidInputError, match=message):
        make(InstanceDiscrimination)(batch)


def two_streams(*heads):
    return CMC(plain_encoder(), plain_encoder(5), 9, *heads)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: make(Ball, neighbors=0), InvalidInputError, "neighbors=0"),
        (lambda: make(Ball, momentum=1.5), InvalidInputError, "momentum=1.5"),
        (lambda: make(Ball, temperature=0), InvalidInputError, "temperature=0"),
        (lambda: make(Ball, anneal_steps=-1), InvalidInputError, "anneal_steps=-1"),
        (lambda: make(Ball, curve="linaer"), UnknownNameError, "linear"),
        (lambda: make(Ball, num_images=1), InvalidInputError, "num_images=1"),
        (lambda: make(InstanceDiscrimination, form="softmix"), UnknownNameError, "softmax"),
        (lambda: make(InstanceDiscrimination, negatives=0), InvalidInputError, "negatives=0"),
        (lambda: make(Annulus, clusters=None), InvalidInputError, "clusters=None, inner=None"),
        (lambda: make(Annulus, clusters=3, inner=0.1), InvalidInputError, "clusters=3, inner=0.1"),
        (lambda: make(Annulus, clusters=49), InvalidInputError, "number of images, 48. Received: clusters=49"),
        (lambda: make(Annulus, clusters=None, inner=1.5), InvalidInputError, "inner=1.5"),
        (lambda: make(Ball).cluster_bank(), InvalidInputError, "clusters=None"),
        (lambda: ClusterBank(every=0), InvalidInputError, "every=0"),
        (
            lambda: CMC(plain_encoder(), plain_encoder(), 9, head(), None),
            InvalidInputError,
            "lightness in 6, color in 4",
        ),
        (
            lambda: CMC(plain_encoder(), plain_encoder(), 9, head(), keras.Sequential()),
            InvalidInputError,
            "built Functional",
        ),
        (lambda: CMC(plain_encoder(), next(lab_encoders()), 9), InvalidInputError, "same views"),
    ],
)
def test_settings_that_cannot_be_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_chance_is_the_loss_of_a_collapsed_encoder():
    for model in (
        make(InstanceDiscrimination, negatives=None),
        make(InstanceDiscrimination, negatives=1000),
        make(Ball, neighbors=4096),
        make(Ball, neighbors=9, anneal_steps=3),
        cmc(negatives=None),
    ):
        for _, bank in model.banks():
            bank.rows.assign(np.full(bank.rows.shape, 0.5))
        z = np.ones((4, 1, model.embedding_dim))
        assert loss_of(model, z) == pytest.approx(model.chance_level(BATCH), rel=1e-5)
    assert make(InstanceDiscrimination, num_images=50_000).chance_level(1) == pytest.approx(np.log(4097))
    assert make(Ball, num_images=50_000).chance_level(1) == pytest.approx(np.log(4097))
    assert InBatchDiscrimination(plain_encoder()).chance_level(128) == pytest.approx(np.log(128))
    assert make(Annulus, clusters=3).chance_level(1) is None
    assert make(InstanceDiscrimination, form="nce").chance_level(1) is None
