"""Pages of the site that are made from the code and from results.json files, while MkDocs builds it.

MkDocs calls `on_files`, `on_page_markdown` and `on_post_build`. Links that are right in the repository are turned into
those of the site: a method's file into its page of the API, a model's folder into its page of the gallery.
"""

import argparse
import importlib
import inspect
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

from sslzoo import cli
from sslzoo.files import module_at
from sslzoo.methods import METHODS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
digit, gallery = (module_at(HERE / f"{name}.py") for name in ("digit", "gallery"))
WRITTEN = {  # pages that stand outside docs/
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
WIDE = {  # page of a wide table -> what does not stand beside it
    "methods.md": ["navigation", "toc"],
    "choosing.md": ["toc"],
}
ROOMS = {  # in the order in which data flow
    "sslzoo": "What most people need.",
    "sslzoo.errors": "What can go wrong, one type per kind of fault.",
    "sslzoo.data": "Images from data sets, folders, arrays and files.",
    "sslzoo.augment": "Random transforms of images that Keras lacks.",
    "sslzoo.views": "Several random views of each image.",
    "sslzoo.networks": "Encoders, decoders, heads and backbones.",
    "sslzoo.losses": "The objectives as functions of tensors.",
    "sslzoo.optimizers": "Optimizers and schedules that Keras lacks.",
    "sslzoo.methods": "The methods, each a `keras.Model`.",
    "sslzoo.zoo": "Loading, listing and checking published models.",
    "sslzoo.evaluation": "Measuring what an encoder has learned.",
    "sslzoo.publishing": "Writing and uploading models.",
    "sslzoo.callbacks": "Watching training.",
    "sslzoo.training": "Recipes: settings, runs, folders.",
    "sslzoo.downstream": "Using an encoder: classifiers, comparisons, health, maps.",
}


def on_files(files, config):
    """Adds the pages that no file holds."""
    contents = {page: (ROOT / source).read_text(encoding="utf-8") for source, page in WRITTEN.items()}
    contents |= _api_pages() | {"command_line.md": _command_line()} | gallery.pages() | digit.pages()
    for path, content in contents.items():
        files.append(File.generated(config, path, content=content))
    for path, source in gallery.pictures().items():
        files.append(File.generated(config, path, abs_src_path=str(source)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Turns links that are right in the repository into those of the site, and makes room for wide tables."""
    source = page.file.src_uri
    if source in WIDE:
        page.meta.setdefault("hide", WIDE[source])
    home = next((path for path, written in WRITTEN.items() if written == source), f"docs/{source}")

    def link(match):
        words, target = match["words"], match["target"]
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, _, anchor = target.partition("#")
        inside = _on_site(posixpath.normpath(posixpath.join(posixpath.dirname(home), path)))
        if inside is None:  # a file that the site does not show
            return words if match["sign"] != "!" else ""
        relative = posixpath.relpath(inside.partition("#")[0], posixpath.dirname(source) or ".")
        anchor = anchor or inside.partition("#")[2]
        return f"{match['sign']}[{words}]({relative}{'#' + anchor if anchor else ''})"

    if source.startswith(("gallery/", "api/")):
        return markdown
    return re.sub(r"(?P<sign>!?)\[(?P<words>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)", link, markdown)


def on_post_build(config):
    """Leaves out the theme's source maps: a twentieth of the site, for those who debug its scripts."""
    for file in Path(config["site_dir"]).rglob("*.map"):
        file.unlink()


def _on_site(path):
    """Where the site has what the repository has at `path`; None if nowhere."""
    if path in WRITTEN:
        return WRITTEN[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if match := re.fullmatch(r"sslzoo/methods/(\w+)\.py", path):
        name = next((name for name in METHODS if name.replace("-", "_") == match[1]), None)
        return f"api/methods.md#{_home(METHODS[name])}" if name else None
    if match := re.fullmatch(r"weights/([\w.-]+)/pictures/(\S+)", path):
        return f"gallery/pictures/{match[1]}/{match[2]}"
    if match := re.fullmatch(r"weights/([\w.-]+)(/README\.md)?", path):
        return f"gallery/{match[1]}.md"
    return "gallery/index.md" if path == "weights" else None


# ---------------------------------------------------------------------- Python API


def _home(thing):
    return f"{thing.__module__}.{thing.__qualname__}"


def _public(room):
    """Name -> class or function, of what a room shows and documents."""
    module = importlib.import_module(room)
    names = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    things = {name: getattr(module, name) for name in names}
    return {
        name: thing
        for name, thing in things.items()
        if (inspect.isclass(thing) or inspect.isfunction(thing))
        and (thing.__module__ or "").startswith("sslzoo.")
        and inspect.getdoc(thing)
    }


def _api_pages():
    pages, rows, shown = {}, [], set()
    for room, words in ROOMS.items():
        try:
            things = {name: thing for name, thing in _public(room).items() if _home(thing) not in shown}
        except ModuleNotFoundError:
            continue
        if not things:
            continue
        shown |= {_home(thing) for thing in things.values()}
        page = f"{room.rpartition('.')[2] if '.' in room else 'top'}.md"
        rows.append(f"| [`{room}`]({page}) | {words} | {', '.join(f'`{name}`' for name in things)} |")
        parts = [f"# `{room}`", words]
        for name, thing in things.items():
            members = "\n    options:\n      members: false" if name in ("Pretrainer",) else ""
            parts.append(f"::: {_home(thing)}{members}")
        pages[f"api/{page}"] = "\n\n".join(parts) + "\n"
    head = "# Python API\n\nEvery public name, where it is imported from. `import sslzoo` imports no backend.\n\n"
    pages["api/index.md"] = head + "| module | holds | names |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    return pages


# ---------------------------------------------------------------------- command line


def _command_line():
    parser = cli._parser()
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    parts = ["# Command line", f"```{{.text .help}}\n{parser.format_help()}```"]
    for name, command in groups[0].choices.items():
        parts.append(f"## sslzoo {name}\n\n```{{.text .help}}\n{command.format_help()}```")
    return "\n\n".join(parts) + "\n"
