"""The command line: `sslzoo COMMAND ...`, a function for each command in the modules of this folder.

Results go to standard output, everything else (progress, remarks, errors) to standard error. Exit codes: 0, all went
well; 1, a check failed or not all images were embedded; 2, wrong usage, or an error that the message explains;
3, another fault; 130 and 141, interrupted.

Nothing here imports Keras before a command needs it: `--help`, `list` and `info` answer at once.
"""

import argparse
import contextlib
import json
import sys
import traceback

import sslzoo
from sslzoo.cli import comparing, diagnosing, exploring, features, fine_tuning, making, measuring, models
from sslzoo.environment import check_environment, ends_quietly, in_a_line, is_closed_pipe, quiet_backends
from sslzoo.errors import InvalidInputError, SSLZooError, printable
from sslzoo.files import plain

# One more command is one more function here, in the order of `sslzoo --help`.
COMMANDS = (
    models.list_,
    models.info,
    features.embed,
    features.search,
    measuring.evaluate,
    measuring.views,
    fine_tuning.finetune,
    fine_tuning.predict,
    comparing.compare,
    diagnosing.doctor,
    exploring.explore,
    making.train,
    making.publish,
    making.seal,
    making.manifest,
    models.verify,
)
_EPILOG = """\
exit codes: 0 all went well; 1 a check failed, or not all images were embedded; 2 wrong usage, or an explained error;
            3 another fault

environment:
  KERAS_BACKEND      tensorflow, jax or torch
  SSLZOO_WEIGHTS     a folder of model folders, looked at first
  SSLZOO_MANIFEST    another weights_manifest.json
  TFDS_DATA_DIR      a folder of prepared TFDS data sets
  HF_TOKEN, HF_HOME, HF_HUB_OFFLINE, HF_ENDPOINT    as the Hugging Face Hub's client reads them

`sslzoo COMMAND --help` says more about each command."""


@ends_quietly
def main(argv: "list[str] | None" = None) -> int:
    """Runs one command.

    Args:
        argv: words of the command line after the program's name; None for those of this process.

    Returns:
        int, the exit code: 0 all went well, 1 a check failed or not all images were embedded, 2 wrong usage or an
            explained error, 3 another fault; 130 after Ctrl-C, 141 if whoever reads the output stopped.

    Raises:
        SystemExit: with 2 on wrong usage, with 0 after --help or --version.
    """
    for stream in (sys.stdout, sys.stderr):  # names of files may hold bytes that are no text; help has an "é"
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    parser = _parser()
    if not (sys.argv[1:] if argv is None else argv):
        parser.print_help()
        return 2
    arguments = vars(parser.parse_args(argv))
    command, as_json = arguments.pop("command"), arguments.pop("json")
    try:
        check_environment()
        quiet_backends()
        if as_json and str(arguments.get("output")) == "-":
            raise InvalidInputError("Standard output takes the features or JSON, not both. Received: --output=- --json")
        if as_json and (asked := {"-h", "--help", "--show"} & set(arguments.get("flags", ()))):
            raise InvalidInputError(f"What a recipe prints of itself is no JSON. Received: --json, {asked.pop()}")
        # Keras prints progress bars; standard output is for the answer.
        with contextlib.nullcontext() if command.prints else contextlib.redirect_stdout(sys.stderr):
            answer = command.run(**arguments)
        if as_json:
            print(json.dumps(answer.record, indent=1, allow_nan=False, default=plain), flush=True)
        else:
            print(answer.text if answer.raw else printable(answer.text), end="", flush=True)
        return answer.code
    except KeyboardInterrupt:
        print("sslzoo: interrupted", file=sys.stderr)
        return 130
    except (SSLZooError, OSError, ImportError) as error:
        if is_closed_pipe(error):
            raise
        print("sslzoo: " + in_a_line(error), file=sys.stderr)
        return 2
    except Exception:  # Python would end with 1, which is an answer
        traceback.print_exc()
        return 3


def _parser():
    parser = argparse.ArgumentParser(
        prog="sslzoo",
        description="Trained self-supervised image encoders: find them, use them, measure them, publish your own.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sslzoo {sslzoo.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_to(commands)
    return parser
