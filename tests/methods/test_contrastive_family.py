"""SimCLR, MoCo and parametric instance discrimination: what they must do beyond the shared battery."""

import keras
import numpy as np
import pytest
from contract import Flips, head, images, inputs, plain_encoder, state
from keras import ops
from oracle import gradient

from sslzoo import losses
from sslzoo.errors import InvalidInputError
from sslzoo.methods import DCL, DINO, NNCLR, AlignUniform, MoCo, ParametricInstanceDiscrimination, SimCLR

BATCH = 12


def to_numpy(tensor):
    return ops.convert_to_numpy(tensor)


def make(method, num_views=2, with_head=False, **arguments):
    projector = head() if with_head else None
    return method(plain_encoder(), projector=projector, views=Flips(num_views), **arguments)


def compiled(model, learning_rate=0.1):
    model.compile(optimizer=keras.optimizers.SGD(learning_rate))
    return model


def step(model, given):
    """One training step on a batch: {"loss": ..., term: ...} of that batch."""
    model.reset_metrics()
    return model.train_on_batch(given, return_dict=True)


def terms(model, given, outputs, training=False):
    return {name: float(to_numpy(value)) for name, value in model.objective(given, outputs, training).items()}


def tensor(array):
    return ops.convert_to_tensor(array, dtype="float32")


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def softmax_reference(positive, candidates):
    """Terms in float64: positives (N,), candidates (N, K)."""
    return {"alignment": -np.mean(positive), "contrast": np.mean(np.log(np.exp(candidates).sum(1)))}


# ---------------------------------------------------------------- SimCLR


def test_simclr_compares_each_view_with_all_others_of_the_batch():
    z = normal(5, 2, 4)
    flat = unit(z.reshape(10, 4))
    scores = flat @ flat.T / 0.3
    others = scores[~np.eye(10, dtype=bool)].reshape(10, 9)
    expected = softmax_reference(scores[np.arange(10), np.arange(10) ^ 1], others)
    model = make(SimCLR, temperature=0.3)
    assert terms(model, None, {"z": tensor(z)}) == pytest.approx(expected, rel=1e-5)


def test_simclr_embeds_both_views_in_one_pass_and_after_the_head():
    """Batch statistics over both views, as in the paper: 24 views of 12 images."""
    model = make(SimCLR, with_head=True)
    z = to_numpy(model(images(BATCH), training=True)["z"])
    views = ops.concatenate([tensor(images(BATCH)) / 255, tensor(images(BATCH)[:, :, ::-1]) / 255])
    both = to_numpy(head()(plain_encoder()(views, training=True), training=True))
    np.testing.assert_allclose(z[:, 0], both[:BATCH], atol=1e-5)
    np.testing.assert_allclose(z[:, 1], both[BATCH:], atol=1e-5)


def test_simclr_does_not_train_on_one_image():
    with pytest.raises(InvalidInputError, match=r"at least 2.*Received: a batch of 1 image"):
        compiled(make(SimCLR)).fit(images(1), batch_size=1, verbose=0)
    with pytest.raises(InvalidInputError, match=r"at least 2.*Received: a batch of 1 image"):  # the loss would be 0
        compiled(make(SimCLR)).evaluate(images(1), batch_size=1, verbose=0)


# ---------------------------------------------------------------- MoCo, step by step


class Recursion:
    """MoCo's algorithm 1 on NumPy arrays, the two networks run by plain Keras."""

    def __init__(self, model):
        self.momentum, self.temperature = model.momentum, model.temperature
        self.queue, self.pointer = to_numpy(model.queue).astype("float64"), 0
        self.student, self.teacher = plain_encoder(), plain_encoder()
        self.learned = [weight.trainable for weight in self.student.weights]

    def step(self, batch, student_weights):
        self.student.set_weights(student_weights)
        moved = zip(self.teacher.get_weights(), student_weights, self.learned)
        m = self.momentum
        self.teacher.set_weights([m * old + (1 - m) * new if learned else old for old, new, learned in moved])
        first, second = tensor(batch) / 255, tensor(batch[:, :, ::-1]) / 255
        q = unit(to_numpy(self.student(first, training=True)).astype("float64"))
        k = unit(to_numpy(self.teacher(second, training=True)).astype("float64"))
        positive = (q * k).sum(1) / self.temperature
        negatives = q @ self.queue.T / self.temperature
        slots = (self.pointer + np.arange(len(k))) % len(self.queue)
        self.queue[slots] = k
        self.pointer = (self.pointer + len(k)) % len(self.queue)
        return softmax_reference(positive, np.concatenate([positive[:, None], negatives], axis=1))


@pytest.mark.parametrize("queue_size", [24, 20])  # 20: the queue's end falls inside a batch
def test_moco_keeps_the_order_of_its_algorithm(queue_size):
    """EMA, keys, logits against the old queue, enqueue, optimizer: any other order gives other numbers by step 2."""
    model = compiled(make(MoCo, queue_size=queue_size, momentum=0.6, temperature=0.2), learning_rate=0.5)
    reference = Recursion(model)
    for number in range(4):
        batch = images(BATCH, seed=number)
        expected = reference.step(batch, model.encoder.get_weights())
        found = step(model, batch)
        assert {term: found[term] for term in model.terms} == pytest.approx(expected, rel=1e-4, abs=1e-4)
        np.testing.assert_allclose(to_numpy(model.queue), reference.queue, atol=1e-5)
        assert int(to_numpy(model.pointer)) == reference.pointer == (number + 1) * BATCH % queue_size
        # Statistics of batch normalization too: the teacher's own, never averaged with the student's.
        for ours, theirs in zip(model.teacher_encoder.get_weights(), reference.teacher.get_weights()):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_moco_teacher_stays_with_momentum_1_and_follows_with_0():
    still, copy = (compiled(make(MoCo, with_head=True, queue_size=24, momentum=m)) for m in (1.0, 0.0))
    start = [still.teacher_encoder.get_weights(), still.teacher_projector.get_weights()]
    for number in range(2):
        before = [copy.encoder.get_weights(), copy.projector.get_weights()]
        for model in (still, copy):
            step(model, images(BATCH, seed=number))
    for model, expected in [(still, start), (copy, before)]:
        for part, theirs in zip((model.teacher_encoder, model.teacher_projector), expected):
            for weight, ours, old in zip(part.weights, part.get_weights(), theirs):
                if not weight.path.split("/")[-1].startswith("moving"):
                    np.testing.assert_array_equal(ours, old)
    assert not np.array_equal(still.encoder.get_weights()[0], start[0][0])


def test_moco_trains_the_student_alone():
    model = make(MoCo, with_head=True)
    students = [*model.encoder.trainable_variables, *model.projector.trainable_variables]
    assert {id(weight) for weight in model.trainable_variables} == {id(weight) for weight in students}
    views, weights = images(4).astype("float32") / 255, tensor(normal(4, 6))
    (slope,) = gradient(lambda x: ops.sum(model.teach(x) * weights) + ops.sum(x), views)
    np.testing.assert_array_equal(slope, np.ones_like(views))
    (slope,) = gradient(lambda x: ops.sum(model.embed(x) * weights) + ops.sum(x), views)
    assert np.abs(slope - 1).max() > 0.01


def test_moco_positive_of_equal_views_and_equal_networks_is_1_over_t():
    model = make(MoCo, with_head=True, temperature=0.07)
    x = images(6).astype("float32")[:, None] / 255
    outputs = model(np.concatenate([x, x], axis=1), training=False)
    assert terms(model, None, outputs)["alignment"] == pytest.approx(-1 / 0.07, rel=1e-6)


def test_moco_queue_starts_as_unit_rows_of_a_seed():
    queue, same, other = (to_numpy(make(MoCo, queue_size=64, seed=seed).queue) for seed in (1, 1, 2))
    np.testing.assert_allclose(np.linalg.norm(queue, axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(queue, same)
    assert np.abs(queue - other).max() > 0.1
    assert np.abs(queue.mean(0)).max() < 0.3


def test_moco_goes_on_from_a_file_as_if_never_stopped(tmp_path):
    model = compiled(make(MoCo, with_head=True, queue_size=20, momentum=0.6))
    for number in range(3):
        step(model, images(BATCH, seed=number))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert int(to_numpy(loaded.pointer)) == 36 % 20
    for number in range(3, 5):
        ours, theirs = (step(one, images(BATCH, seed=number)) for one in (model, loaded))
        assert ours == pytest.approx(theirs, rel=1e-6)
    for ours, theirs in zip(state(model), state(loaded)):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_moco_symmetric_is_the_mean_of_both_directions_and_remembers_both_keys():
    both = make(MoCo, queue_size=48, symmetric=True)
    one = make(MoCo, queue_size=48)
    views = to_numpy(one.make_views(images(BATCH), training=False))
    directions = [terms(one, None, one(given, training=False)) for given in (views, views[:, ::-1].copy())]
    expected = {term: np.mean([terms[term] for terms in directions]) for term in one.terms}
    assert terms(both, None, both(views, training=False)) == pytest.approx(expected, rel=1e-5)

    before = to_numpy(both.queue)
    keys = to_numpy(both(views, training=False)["keys"])
    both.update(None, {"keys": tensor(keys)})
    np.testing.assert_array_equal(to_numpy(both.queue)[:24], keys.reshape(24, -1))
    np.testing.assert_array_equal(to_numpy(both.queue)[24:], before[24:])
    assert not np.allclose(keys[:, 0], keys[:, 1], atol=1e-3)


def test_moco_zero_embeddings_leave_a_finite_queue():
    model = compiled(make(MoCo, queue_size=24))
    latent = model.encoder.get_layer("latent")
    for weight in (*latent.weights, *model.teacher_encoder.get_layer("latent").weights):
        weight.assign(np.zeros(weight.shape))
    loss = step(model, images(BATCH))["loss"]
    assert loss == pytest.approx(model.chance_level(BATCH), rel=1e-6)  # log 25: every score is 0
    assert all(np.isfinite(array).all() for array in state(model))


def test_moco_refuses_more_keys_than_the_queue_holds():
    with pytest.raises(InvalidInputError, match=r"has room for 8.*Received: a batch of 12 images"):
        compiled(make(MoCo, queue_size=8)).fit(images(BATCH), batch_size=BATCH, verbose=0)


def test_moco_publishes_the_student():
    parts = make(MoCo, with_head=True).parts((8, 8, 1))
    assert set(parts) == {"encoder", "projection"}
    assert parts["encoder"].output_shape == (None, 4) and parts["projection"].output_shape == (None, 6)


# ---------------------------------------------------------------- parametric instance discrimination


@pytest.mark.parametrize("temperature", [None, 0.3])
def test_instances_are_classes_of_a_softmax(temperature):
    model = make(ParametricInstanceDiscrimination, 3, num_images=7, temperature=temperature)
    vectors, z = normal(7, 4, seed=1), normal(2, 3, 4, seed=2)
    model.class_vectors.assign(vectors)
    index = np.array([5, 0], "int32")
    if temperature is None:
        scores = z.reshape(6, 4) @ vectors.T
    else:
        scores = unit(z.reshape(6, 4)) @ unit(vectors).T / temperature
    own = [scores[3 * i + view, index[i]] for i in range(2) for view in range(3)]
    given = {"images": tensor(np.zeros((2, 8, 8, 1))), "index": ops.convert_to_tensor(index)}
    assert terms(model, given, {"z": tensor(z)}) == pytest.approx(softmax_reference(own, scores), rel=1e-5)


def test_instances_are_learned_by_their_place_not_their_order():
    """Twelve images in changing order: only with the right index do the classes become certain."""
    given = inputs(make(ParametricInstanceDiscrimination, num_images=BATCH), BATCH)
    losses = {}
    for right in (True, False):
        model = make(ParametricInstanceDiscrimination, num_images=BATCH, temperature=0.1)
        model.compile(optimizer=keras.optimizers.Adam(0.05))
        for number in range(40):
            order = np.random.default_rng(number).permutation(BATCH)
            index = given["index"][order] if right else given["index"]
            losses[right] = float(step(model, {"images": given["images"][order], "index": index})["loss"])
    assert losses[True] < 0.5 < 1.5 < losses[False]


def test_filled_class_vectors_stand_at_their_images():
    model, pixels = make(ParametricInstanceDiscrimination, num_images=BATCH), images(BATCH)
    model.fill_class_vectors(pixels, batch_size=5)  # which does not divide the images
    vectors = to_numpy(model.class_vectors)
    np.testing.assert_allclose(vectors, unit(to_numpy(model.encode(pixels))), atol=1e-5)
    assert vectors.dtype == np.float32
    with pytest.raises(InvalidInputError, match=rf"all {BATCH} training images.*Received: 5 images"):
        model.fill_class_vectors(pixels[:5])


def test_class_vectors_are_trained_and_not_published():
    model = make(ParametricInstanceDiscrimination, num_images=9)
    assert any(weight is model.class_vectors for weight in model.trainable_variables)
    np.testing.assert_allclose(np.linalg.norm(to_numpy(model.class_vectors), axis=1), 0.01, rtol=1e-6)
    assert set(model.parts((8, 8, 1))) == {"encoder"}


def test_an_index_outside_is_refused_or_makes_the_loss_nan():
    model = compiled(make(ParametricInstanceDiscrimination, num_images=5))
    given = inputs(model, 6)
    with pytest.raises(InvalidInputError, match=r"5 training images, 0..4. Received: index=5"):
        model(given)
    if keras.backend.backend() == "torch":
        with pytest.raises(InvalidInputError, match="Received: index=5"):
            model.fit(given, batch_size=6, verbose=0)
    else:
        assert np.isnan(model.fit(given, batch_size=6, verbose=0).history["loss"]).all()
        assert all(np.isfinite(array).all() for array in state(model))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (images(4), "takes {'images': images, 'index'.*Received: inputs="),
        ({"images": images(4)}, r"Received: inputs=\['images'\]"),
        ({"images": images(4), "index": np.zeros(4, "float32")}, r"integer tensor.*dtype=float32, shape=\(4,\)"),
        ({"images": images(4), "index": np.zeros((4, 1), "int32")}, r"integer tensor.*dtype=int32, shape=\(4, 1\)"),
    ],
)
def test_inputs_without_a_proper_index_are_refused(given, message):
    with pytest.raises(InvalidInputError, match=message):
        make(ParametricInstanceDiscrimination, num_images=9)(given)


# ---------------------------------------------------------------- DINO


@pytest.mark.parametrize(("step", "sharp"), [(0, 0.04), (2, 0.055), (4, 0.07), (9, 0.07)])
def test_the_temperature_of_dinos_teacher_rises_over_the_first_steps(step, sharp):
    model = make(DINO, prototypes=7, warmup_steps=4)
    model.step.assign(step)
    center = normal(7, seed=3).astype("float32")
    model.center.assign(center)
    z, teacher = tensor(normal(6, 2, 4)), tensor(normal(6, 2, 7, seed=1))
    cosines = unit(normal(6, 2, 4)) @ to_numpy(model.prototype_head.weights[0])
    found = terms(model, None, {"z": z, "teacher": teacher})["alignment"]
    expected = losses.dino(tensor(cosines), teacher, tensor(center), 0.1, sharp)
    assert found == pytest.approx(float(to_numpy(expected)), rel=1e-4)


# ---------------------------------------------------------------- all of them


def test_chance_is_the_loss_of_a_collapsed_encoder():
    for model in (
        make(SimCLR, temperature=0.1),
        make(DCL, temperature=0.1),
        make(NNCLR, predictor=head(size=4), queue_size=24),
        make(AlignUniform),
        make(DINO, prototypes=7),
        make(MoCo, queue_size=24, symmetric=True),
        make(ParametricInstanceDiscrimination, num_images=30, temperature=0.1),
    ):
        latent = model.encoder.get_layer("latent")
        latent.kernel.assign(np.zeros(latent.kernel.shape))
        latent.bias.assign(np.ones(latent.bias.shape))
        if isinstance(model, DINO):
            [kernel] = model.prototype_head.weights
            kernel.assign(np.zeros(kernel.shape))
        if isinstance(model, NNCLR):
            model.queue.assign(np.full((24, 4), 0.5))
        if isinstance(model, MoCo):
            model.teacher_encoder.set_weights(model.encoder.get_weights())
            model.queue.assign(np.full((24, 4), 0.5))
        if model.indexed:
            model.class_vectors.assign(np.ones((30, 4)))
        given = inputs(model, BATCH)
        if model.indexed:
            given = {name: ops.convert_to_tensor(array) for name, array in given.items()}
        found = terms(model, given, model(given, training=False))
        assert sum(found.values()) == pytest.approx(model.chance_level(BATCH), rel=1e-5, abs=1e-5)
    assert make(SimCLR).chance_level(128) == pytest.approx(5.541264, abs=1e-6)
    assert make(MoCo).chance_level(128) == pytest.approx(np.log(4097))
    assert make(ParametricInstanceDiscrimination, num_images=60_000).chance_level(1) == pytest.approx(np.log(60_000))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: make(SimCLR, temperature=0.0), "temperature must be a number > 0.*Received: temperature=0"),
        (lambda: make(SimCLR, num_views=3), "exactly 2 views.*Received: num_views=3"),
        (lambda: make(MoCo, temperature=-1), "Received: temperature=-1"),
        (lambda: make(MoCo, momentum=1.5), "momentum must be a number from 0 to 1.*Received: momentum=1.5"),
        (lambda: make(MoCo, momentum=True), "Received: momentum=True"),
        (lambda: make(MoCo, queue_size=0), "queue_size must be an integer >= 1.*Received: queue_size=0"),
        (lambda: make(MoCo, queue_size=64.0), "Received: queue_size=64.0"),
        (lambda: make(MoCo, num_views=1), "exactly 2 views.*Received: num_views=1"),
        (lambda: make(ParametricInstanceDiscrimination, num_images=1), "integer >= 2.*Received: num_images=1"),
        (lambda: make(ParametricInstanceDiscrimination, num_images=4, temperature=0), "Received: temperature=0"),
    ],
)
def test_wrong_arguments_are_refused_at_once(build, message):
    with pytest.raises(InvalidInputError, match=message):
        build()
