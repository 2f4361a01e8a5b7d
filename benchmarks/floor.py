"""The floor of every table: an encoder that was never trained, measured as trained ones are.

    python benchmarks/floor.py mnist cifar10              # writes benchmarks/results/random-<dataset>.json
    python benchmarks/floor.py digits --seeds 0 1 2       # the mean of three, with its standard error

Network, latent size and preprocessing are those of every recipe for that set; initial weights are Keras' (the papers'
are PyTorch's). The weights come from the seed, so only the numbers are kept. `python benchmarks/tables.py` afterwards.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from sslzoo import evaluation, networks
from sslzoo.evaluation import Report
from sslzoo.files import write_beside
from sslzoo.training.settings import SETUPS
from sslzoo.views import Views
from sslzoo.zoo.results import SCHEMA, check_results

RESULTS = Path(__file__).resolve().parent / "results"


def encoder(dataset, image_shape, seed):
    """Raw images -> features, as a recipe's encoder is before its first step."""
    setup = SETUPS[dataset]
    network = networks.encoder(setup["network"], image_shape, setup["latent_dim"], seed=seed)
    return networks.compose(Views(setup["policy"], 1).preprocessor(image_shape), network, name=f"random-{dataset}")


def results(dataset, report, model, seconds):
    """What results.json says of the floor."""
    setup = SETUPS[dataset]
    return check_results(
        {
            "schema": SCHEMA,
            "name": f"random-{dataset.replace('_', '-')}",
            "method": "Random",
            "dataset": dataset,
            "recipe": f"python benchmarks/floor.py {dataset} --seeds {' '.join(map(str, report.seeds))}",
            "settings": {"network": setup["network"], "latent_dim": setup["latent_dim"], "policy": setup["policy"]},
            "seeds": report.seeds,
            "metrics": report.metrics(),
            "versions": report.versions,
            "wall_seconds": round(seconds),
            "views_seen": 0,
            "licence": "apache-2.0",
            "papers": [{"title": "A Probabilistic Model behind Self-Supervised Learning",
                        "url": "https://arxiv.org/abs/2402.01399"}],
            "description": "An encoder that was never trained: what any method must beat.",
            "evaluation": report.to_dict(),
            "input_shape": list(model.input_shape[1:]),
            "input_range": [0, 255],
            "features": model.output_shape[-1],
            "parameters": model.count_params(),
        }
    )  # fmt: skip


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("datasets", nargs="+", choices=[name for name in SETUPS if " " not in name], metavar="D")
    add("--seeds", nargs="+", type=int, default=[0], metavar="S", help="of the initial weights and the probes (0)")
    add(
        "--protocols",
        nargs="+",
        choices=evaluation.ALL_PROTOCOLS,
        default=[*evaluation.PROTOCOLS, "style"],
        metavar="P",
    )
    add("--data-dir", help="folder of prepared TFDS data sets")
    add("--out", type=Path, default=RESULTS, help="folder to write to (benchmarks/results)")
    options = parser.parse_args(argv)
    from sslzoo import data

    for dataset in options.datasets:
        began, reports = time.monotonic(), []
        for seed in options.seeds:
            model = encoder(dataset, data.info(dataset).image_shape, seed)
            reports.append(evaluation.evaluate(model, dataset, options.protocols, options.data_dir, seed=seed))
        report = reports[0] if len(reports) == 1 else Report.mean(reports)
        made = results(dataset, report, model, time.monotonic() - began)
        options.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(made, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        path = write_beside(options.out / (made["name"] + ".json"), text.encode())
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
