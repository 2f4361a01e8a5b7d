"""Nearest neighbors in a memory bank, inside a compiled step: `losses.nearest` against a score matrix and `top_k`.

    KERAS_BACKEND=jax python benchmarks/bank.py                        # top 4096 of 50,000 x 128 for a batch of 256
    KERAS_BACKEND=torch python benchmarks/bank.py --rounds 9

Three figures, each beside its reference in the same run; times are those of the processor:

    marking    `within`, which marks the ball among all images: what a step does under XLA, against the plain
               `top_k(matmul(queries, transpose(bank)))` of the backend. The target is 1.5 x at most
    search     `nearest` of one block, what a step does under PyTorch, and in blocks of 16,384, as it does with more
               than 65,536 images; against the same. Rounds take turns
    memory     what XLA sets aside for one search of ever larger banks (JAX only): in blocks it does not grow
"""

import argparse
import statistics

import keras
import numpy as np
from keras import ops
from views import clock

from sslzoo.losses import nearest, within


def unit(x):
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype("float32")


def compiled(function):
    """`function` as one program, as a training step would have it; PyTorch runs it as it is, as Keras does."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return jax.jit(function)
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=True)
    return function


def seconds(function, *arrays):
    """By `views.clock`."""
    now = clock()
    start = now()
    for tensor in keras.tree.flatten(function(*arrays)):
        ops.convert_to_numpy(tensor)
    return now() - start


def memory(function, queries, rows, size):
    """Bytes of temporary buffers that XLA sets aside for a search in a bank of `rows` rows."""
    import jax

    bank = jax.ShapeDtypeStruct((rows, size), "float32")
    return jax.jit(function).lower(queries, bank).compile().memory_analysis().temp_size_in_bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000, help="of the bank (50,000)")
    parser.add_argument("--size", type=int, default=128, help="numbers in a row (128)")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--count", type=int, default=4096, help="nearest rows (4096)")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    bank = ops.convert_to_tensor(unit(rng.normal(size=(arguments.rows, arguments.size))))
    queries = ops.convert_to_tensor(unit(rng.normal(size=(arguments.batch_size, arguments.size))))
    count = arguments.count

    def plain(queries, bank):
        return ops.top_k(ops.matmul(queries, ops.transpose(bank)), count)

    def one_block(queries, bank):
        return nearest(queries, bank, count, block=max(arguments.rows, 65_536))

    def in_blocks(queries, bank):
        return nearest(queries, bank, count, block=16_384)

    def marking(queries, bank):
        return within(ops.matmul(queries, ops.transpose(bank)), count)

    searches = {"plain": plain, "marking": marking, "one block": one_block, "blocks of 16,384": in_blocks}
    programs = {name: compiled(search) for name, search in searches.items()}
    for program in programs.values():
        seconds(program, queries, bank)
    times = {name: [] for name in programs}
    for _ in range(arguments.rounds):
        for name, program in programs.items():
            times[name].append(seconds(program, queries, bank))
    reference = statistics.median(times["plain"])
    print(
        f"{keras.backend.backend()}: top {count:,} of {arguments.rows:,} x {arguments.size} "
        f"for {arguments.batch_size} queries"
    )
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:<18}{1000 * median:9.1f} ms {median / reference:7.2f} x plain")
    if keras.backend.backend() == "jax":
        print("\ntemporary memory of one search, MB      " + "".join(f"{rows:>12,}" for rows in ROWS))
        blocks = lambda queries, bank: nearest(queries, bank, count)  # noqa: E731
        for name, search in (("plain", plain), ("nearest", blocks)):
            found = [memory(search, queries, rows, arguments.size) / 1e6 for rows in ROWS]
            print(f"{name:<40}" + "".join(f"{megabytes:12,.0f}" for megabytes in found))


ROWS = (50_000, 200_000, 1_000_000)

if __name__ == "__main__":
    main()
