"""Lines of code and of docstring by room: `python tests/count_lines.py [FOLDER]`.

Code is a line that is neither blank, nor only a comment, nor part of a docstring.
"""

import ast
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def count(path):
    """Lines of code and lines of docstring of one Python file."""
    tree = ast.parse(path.read_bytes())
    docstring = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                docstring.update(range(first.lineno, first.end_lineno + 1))
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    code = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in silent and token.type != tokenize.ENCODING:
                code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstring), len(docstring)


def main(folder="sslzoo"):
    """Print a table of rooms (the folders and files right under `folder`) and the largest files."""
    folder = ROOT / folder
    code, docstring, files = Counter(), Counter(), {}
    for path in sorted(folder.rglob("*.py")):
        room = path.relative_to(folder).parts[0]
        lines, words = count(path)
        code[room] += lines
        docstring[room] += words
        files[path.relative_to(folder)] = lines
    print(f"{'room':28}{'code':>8}{'docstring':>12}")
    for room, lines in code.most_common():
        print(f"{room:28}{lines:8,}{docstring[room]:12,}")
    print(f"{'total':28}{code.total():8,}{docstring.total():12,}")
    print("largest: " + ", ".join(f"{name} {files[name]}" for name in sorted(files, key=files.get)[:-6:-1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
