"""Is one encoder better than another, or is it chance? Paired answers to the same test images.

    python examples/compare.py
    python examples/compare.py simclr-mnist simvae-mnist moco-mnist --dataset mnist --data-dir ~/tensorflow_datasets

Prints accuracies with Wilson's intervals, and for each pair of encoders the difference with Agresti and Min's
interval and the exact p-value of McNemar's test, adjusted by Holm's method. Draws both.
"""

import argparse

import sslzoo


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    zoo = ["simclr-digits", "simvae-digits", "random-digits"]
    parser.add_argument("encoders", nargs="*", default=zoo, help="names, folders or hf:// addresses")
    parser.add_argument("--dataset", default="digits", help="labeled data set (digits)")
    parser.add_argument("--data-dir", help="folder of prepared TFDS data sets")
    parser.add_argument("--out", default="comparison.png", help="picture to write (comparison.png)")
    arguments = parser.parse_args(argv)

    comparison = sslzoo.compare(arguments.encoders, arguments.dataset, data_dir=arguments.data_dir)
    print(comparison)
    comparison.picture(arguments.out)
    print(f"Wrote {arguments.out}")
    return comparison


if __name__ == "__main__":
    main()
