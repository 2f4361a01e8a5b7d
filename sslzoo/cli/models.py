"""`sslzoo list, info, verify`: what there is, and whether it is what was published."""

from sslzoo import zoo
from sslzoo.cli import shared
from sslzoo.cli.command import Answer, argument, command


@command(
    argument("--method", metavar="M", help="only models of this method (SimVAE)"),
    argument("--dataset", metavar="D", help="only models trained on this data set (fashion_mnist)"),
    argument("--tag", metavar="T", help="only models of this tag, the end of a name (long), or of none (default)"),
)
def list_(method, dataset, tag):
    """Show the models of the zoo.

    The numbers are the first of each protocol: fixed beforehand, not the best on the test set.

    examples:
      sslzoo list
      sslzoo list --dataset mnist --tag default
      sslzoo list --method simvae --json
    """
    models = zoo.list_models(method, dataset, tag)
    return Answer(models, f"{models}\n")


@command(shared.MODEL, shared.REVISION)
def info(name, revision):
    """Show all that is known about one model.

    Size, parts, every number with its protocol, the paper's beside it, and how to train it again.

    examples:
      sslzoo info simvae-mnist
      sslzoo info runs/mine --json
      sslzoo info hf://someone/their-model
    """
    model = zoo.info(name, revision)
    return Answer(model, f"{model}\n")


@command(
    argument("name", nargs="?", metavar="NAME", help="a name of `sslzoo list` (all)"),
    argument("--hub", action="store_true", help="look at the Hub, too"),
)
def verify(name, hub):
    """Compare models with the hashes in the manifest.

    Exits with 1 if a file differs, or if there was nothing to compare at all.

    examples:
      sslzoo verify
      sslzoo verify simvae-mnist --hub
      sslzoo verify --json
    """
    findings = zoo.verify(name, hub=hub)
    words = {True: "ok", False: "FAILED", None: "not checked"}
    lines = []
    for finding in findings:
        files = f"{finding['files']} files, " if finding["ok"] else ""
        lines.append(f"{words[finding['ok']]}: {finding['name']}, {finding['where']}: {files}{finding['place']}\n")
        lines += [f"    {problem}\n" for problem in finding["problems"]]
    verdicts = [finding["ok"] for finding in findings]
    return Answer(findings, "".join(lines), 0 if True in verdicts and False not in verdicts else 1)
