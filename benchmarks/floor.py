"""The floor of every table: an encoder that was never trained, measured as trained ones are.

    python benchmarks/floor.py mnist cifar10              # writes weights/random-<dataset>, which `sslzoo.load` takes
    python benchmarks/floor.py digits --seeds 0 1 2       # benchmarks/results/random-digits.seeds.json: their mean

Network, latent size and preprocessing are those of every recipe for that set; initial weights are Keras' (the papers'
are PyTorch's), and rounded before anything is measured. `python benchmarks/tables.py` afterwards.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from sslzoo import data, evaluation, networks
from sslzoo.evaluation import pictures
from sslzoo.files import module_at, write_beside
from sslzoo.publishing import artifact
from sslzoo.training.settings import SETUPS
from sslzoo.views import Views
from sslzoo.zoo.results import SCHEMA, check_results

ROOT = Path(__file__).resolve().parent.parent
RESULTS, WEIGHTS = ROOT / "benchmarks" / "results", ROOT / "weights"


def encoder(dataset, image_shape, seed):
    """Raw images -> features, as a recipe's encoder is before its first step."""
    setup = SETUPS[dataset]
    network = networks.encoder(setup["network"], image_shape, setup["latent_dim"], seed=seed)
    model = networks.compose(Views(setup["policy"], 1).preprocessor(image_shape), network, name=f"random-{dataset}")
    artifact.round_to_float16(model)
    return model


def results(dataset, report, model, seconds):
    """What results.json says of the floor."""
    setup = SETUPS[dataset]
    return check_results(
        {
            "schema": SCHEMA,
            "name": f"random-{dataset.replace('_', '-')}{'.seeds' if len(report.seeds) > 1 else ''}",
            "method": "Random",
            "dataset": dataset,
            "recipe": f"python benchmarks/floor.py {dataset} --seeds {' '.join(map(str, report.seeds))}",
            "settings": {"network": setup["network"], "latent_dim": setup["latent_dim"], "policy": setup["policy"]},
            "seeds": report.seeds,
            "metrics": report.metrics(),
            "versions": report.versions,
            "wall_seconds": round(seconds),
            "views_seen": 0,
            "license": "apache-2.0",
            "papers": [],
            "description": "The floor of every table: what any method must beat.",
            "evaluation": report.to_dict(),
            "input_shape": list(model.input_shape[1:]),
            "input_range": [0, 255],
            "features": model.output_shape[-1],
            "parameters": model.count_params(),
        }
    )


def publish(model, made, options):
    """Writes one encoder as an entry of the zoo: folder, manifest, golden embeddings. Returns the folder."""
    test_images, test_labels = data.load(made["dataset"], "test", data_dir=options.data_dir)
    shown, labels = test_images[:2000], test_labels[:2000]
    features = evaluation.features(model, shown)
    with tempfile.TemporaryDirectory() as place:
        drawn = [
            pictures.neighbors(shown, features, Path(place, "neighbors.png"), seed=made["seeds"][0]),
            pictures.embedding(
                features, labels, Path(place, "embedding.png"), names=data.class_names(made["dataset"], labels)
            ),
        ]
        target = options.weights / made["name"]
        files = {file.name: file for file in drawn}
        artifact.write(target, model, **made, pictures=files, float16=True, overwrite=True)
    if options.weights == WEIGHTS:
        module_at(ROOT / "recipes" / "zoo.py").enter(target)
    return target


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
    add("--weights", type=Path, default=WEIGHTS, help="folder of the entries, for one seed (weights)")
    add("--out", type=Path, default=RESULTS, help="folder of the numbers, for more seeds (benchmarks/results)")
    options = parser.parse_args(argv)
    for dataset in options.datasets:
        began, reports = time.monotonic(), []
        for seed in options.seeds:
            model = encoder(dataset, data.info(dataset).image_shape, seed)
            reports.append(evaluation.evaluate(model, dataset, options.protocols, options.data_dir, seed=seed))
        report = reports[0] if len(reports) == 1 else module_at(Path(__file__).with_name("reports.py")).mean(reports)
        made = results(dataset, report, model, time.monotonic() - began)
        if len(reports) == 1:
            path = publish(model, made, options)
        else:
            options.out.mkdir(parents=True, exist_ok=True)
            text = json.dumps(made, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"
            path = write_beside(options.out / (made["name"] + ".json"), text.encode())
        print(f"wrote {path}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
