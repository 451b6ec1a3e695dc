"""Counts of the source: sizes, comments, functions, classes, constants, and the walk of one fit.

    python tools/structure.py [--json] [--no-walk] [--source FOLDER]

The walk is a default logistic fit with its summary on the bundled table at ε = 1, δ = 10⁻⁶, with a
ledger, in a process of its own under `sys.setprofile`.  It counts the functions of the source that
are called after `import dpinfer`: neither comprehensions nor lambdas, and no class bodies.
"""

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent.parent / "src"
LONG = 60
"""Lines of a function, its docstring left out."""

MEMBERS = 20
PARAMETERS = 6
STATISTICAL = ("fit", "inference", "mechanisms", "description")
"""Folders whose numbers decide what is reported."""

PLAIN = {-1, 0, 0.5, 1, 2}
"""Literals that say nothing by themselves."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Counts:
    """Counts of some files; docstrings are all strings that stand as statements."""

    files: int = 0
    lines: int = 0
    docstring_lines: int = 0
    comment_words: int = 0
    functions: int = 0
    conditional_expressions: int = 0
    long_functions: int = 0
    large_classes: int = 0
    functions_of_many_parameters: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        mine = asdict(self)
        return Counts(**{name: mine[name] + value for name, value in asdict(other).items()})

    def shares(self) -> dict[str, float]:
        """Return the figures of the table: counts, and some per 1,000 lines."""
        per = 1000 / max(self.lines, 1)
        return {
            "files": self.files,
            "lines": self.lines,
            "docstring_percent": round(self.docstring_lines * per / 10, 1),
            "comment_words_per_kloc": round(self.comment_words * per),
            "functions_per_kloc": round(self.functions * per),
            "conditional_expressions_per_kloc": round(self.conditional_expressions * per, 1),
            "functions_over_60_lines": self.long_functions,
            "classes_over_20_members": self.large_classes,
            "functions_over_6_parameters": self.functions_of_many_parameters,
        }


def counts_of(text: str) -> Counts:
    """Return the counts of one file."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, Function)]
    return Counts(
        files=1,
        lines=len(text.splitlines()),
        docstring_lines=sum(map(_length, filter(_is_text, nodes))),
        comment_words=sum(len(_words(comment)) for comment in comments(text).values()),
        functions=len(functions),
        conditional_expressions=sum(isinstance(node, ast.IfExp) for node in nodes),
        long_functions=sum(_length_of_code(node) > LONG for node in functions),
        large_classes=sum(
            len(members(node)) > MEMBERS for node in nodes if isinstance(node, ast.ClassDef)
        ),
        functions_of_many_parameters=sum(_parameters(node) > PARAMETERS for node in functions),
    )


def comments(text: str) -> dict[int, str]:
    """Return the comments of a file by their line numbers, pragmas left out."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    every = {t.start[0]: t.string for t in tokens if t.type == tokenize.COMMENT}
    pragma = re.compile(r"#\s*(noqa|type:|fmt:|pragma|!)")
    return {number: comment for number, comment in every.items() if not pragma.match(comment)}


def members(node: ast.ClassDef) -> set[str]:
    """Return the names that a class body defines: methods, properties and fields."""
    names = set()
    for statement in node.body:
        if isinstance(statement, Function | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names.add(statement.target.id)
        elif isinstance(statement, ast.Assign):
            names |= {t.id for t in statement.targets if isinstance(t, ast.Name)}
    return names


def _words(comment: str) -> list[str]:
    return re.findall(r"[^\W\d_]\S*", comment)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _length(node: Any) -> int:
    return int(node.end_lineno - node.lineno + 1)


def _length_of_code(node: Function) -> int:
    return _length(node) - (_length(node.body[0]) if _is_text(node.body[0]) else 0)


def _parameters(node: Function) -> int:
    """Return the number of parameters, without self or cls."""
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in every)


def classes_defined_twice(files: dict[str, str]) -> dict[str, list[str]]:
    """Return the class names that are defined more than once, with their places in the source."""
    where = defaultdict(list)
    for name, text in files.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                where[node.name].append(f"{name}:{node.lineno}")
    return {name: places for name, places in sorted(where.items()) if len(places) > 1}


@dataclass(frozen=True)
class Number:
    """A number in a file: a constant of the module, or a literal inside a function.

    ``account`` is "reason" if it is a constant that gives one, "numerical" if it is annotated so,
    "described" if there is a comment or a string beside it, else "bare".
    """

    where: str
    name: str
    value: str
    account: str


def module_constants(name: str, text: str) -> Iterator[Number]:
    """Yield the assignments of a module to names in capitals whose value holds a number."""
    body: list[Any] = ast.parse(text).body
    commented = comments(text)
    for index, statement in enumerate(body):
        target = _target(statement)
        if target is None or not _numbers(statement):
            continue
        numbers = range(statement.lineno - 1, (statement.end_lineno or 0) + 1)
        described = any(number in commented for number in numbers)
        described |= any(map(_is_text, body[index + 1 : index + 2]))
        account = "described" if described else "bare"
        if _has_reason(statement):
            account = "reason"
        if _is_numerical(statement):
            account = "numerical"
        value = " ".join(ast.unparse(statement.value).split())
        yield Number(f"{name}:{statement.lineno}", target, value[:80], account)


def literals(name: str, text: str) -> Iterator[Number]:
    """Yield the numbers inside functions, but for the plainest, indices and axes."""
    every: dict[ast.Constant, str] = {}  # a literal of an inner function is found twice
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function):
            every |= dict.fromkeys(_literals_of(node), node.name)
    for literal, function in sorted(every.items(), key=lambda item: item[0].lineno):
        yield Number(f"{name}:{literal.lineno}", function, repr(literal.value), "literal")


def _target(statement: ast.stmt) -> str | None:
    target: Any = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target = statement.target
    capitals = isinstance(target, ast.Name) and re.fullmatch(r"_?[A-Z][A-Z0-9_]*", target.id)
    return target.id if capitals else None


def _numbers(statement: Any) -> list[float]:
    """Return the numbers in a value; those in indices do not count."""
    return [node.value for node in _outside_indices(statement.value) if _is_number(node)]


def _has_reason(statement: Any) -> bool:
    """Whether the value is a constant with a reason, ``Constant(..., reason="...")``, or a tuple of some."""
    values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
    return bool(values) and all(map(_is_constant, values))


def _is_constant(call: ast.expr) -> bool:
    if not (
        isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("Constant", "ShareTable")
    ):
        return False
    given = {word.arg: word.value for word in call.keywords}
    reason = given.get("reason", call.args[3] if len(call.args) > 3 else None)
    return reason is not None and not (isinstance(reason, ast.Constant) and not reason.value)


def _is_numerical(statement: Any) -> bool:
    """Whether the annotation is ``Numerical[...]``: the value changes nothing that is reported."""
    annotation = getattr(statement, "annotation", None)
    return (
        isinstance(annotation, ast.Subscript) and getattr(annotation.value, "id", "") == "Numerical"
    )


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _outside_indices(node: ast.AST) -> Iterator[Any]:
    yield node
    for name, value in ast.iter_fields(node):
        if isinstance(node, ast.Subscript) and name == "slice":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.keyword) and child.arg in ("axis", "maxsize", "ndmin", "max"):
                continue
            if isinstance(child, ast.AST):
                yield from _outside_indices(child)


def _literals_of(function: Function) -> Iterator[ast.Constant]:
    for statement in function.body:
        for node in _outside_indices(statement):
            if _is_number(node) and node.value not in PLAIN:
                yield node


def walk() -> dict[str, Any]:
    """Run a default logistic fit and its summary, and count what is called."""
    import dpinfer as dp  # noqa: PLC0415  (only in the process of the walk)

    root = Path(dp.__file__).parent.parent
    called: dict[Any, int] = Counter()
    edges: dict[tuple[str, str], int] = Counter()

    def profile(frame: Any, event: str, _: Any) -> None:
        if event != "call" or not _is_ours(frame, root):
            return
        called[frame.f_code] += 1
        caller = frame.f_back
        while caller is not None and not _is_ours(caller, root):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != frame.f_code.co_filename:
            edges[caller.f_code.co_filename, frame.f_code.co_filename] += 1

    with tempfile.TemporaryDirectory() as folder:
        data = dp.datasets.rand_hie()
        threading.setprofile(profile)
        sys.setprofile(profile)
        budget = dp.ApproxDP(1.0, 1e-6)
        ledger = dp.Ledger.create(Path(folder) / "ledger.db", budget, data.schema.unit.name)
        model = dp.LogisticRegression(
            data.formula, schema=data.schema, budget=budget, ledger=ledger
        )
        model.fit(data.table)
        model.result_.summary()
        sys.setprofile(None)
        threading.setprofile(None)
    named = [code for code in called if not code.co_name.startswith("<")]
    by_module = Counter[str]()
    for file, lines in _lines_of(named).items():
        by_module[Path(file).relative_to(root).as_posix()] += len(lines)
    return {
        "modules": len({code.co_filename for code in named}),
        "functions": len(named),
        "functions_with_comprehensions_and_lambdas": len(called),
        "calls": sum(called.values()),
        "edges_of_modules": len(edges),
        "pairs_of_modules_that_call_each_other": sum((b, a) in edges and a < b for a, b in edges),
        "lines_of_functions_called": sum(by_module.values()),
        "lines_by_module": dict(by_module.most_common()),
    }


def _is_ours(frame: Any, root: Path) -> bool:
    """Whether a frame is a function of the source: class bodies and modules are not optimised."""
    code = frame.f_code
    return bool(code.co_flags & 1) and code.co_filename.startswith(f"{root}/")


def _lines_of(codes: Iterable[Any]) -> dict[str, set[int]]:
    """Return the lines of the functions called, by file; those of an inner function count once."""
    first = defaultdict(set)
    for code in codes:
        first[code.co_filename].add(code.co_firstlineno)
    found = {}
    for file, numbers in first.items():
        lines: set[int] = set()
        for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
            if isinstance(node, Function):
                start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                if start in numbers and node.end_lineno is not None:
                    lines |= set(range(start, node.end_lineno + 1))
        found[file] = lines
    return found


def structure(source: Path) -> dict[str, Any]:
    """Return all counts of the packages in a folder, but for the walk."""
    files = {
        path.relative_to(source).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(source.rglob("*.py"))
    }
    by_package: dict[str, Counts] = defaultdict(Counts)
    constants: list[Number] = []
    inside: list[Number] = []
    for name, text in files.items():
        package = "/".join(name.split("/")[:-1][:2])
        by_package[package] += counts_of(text)
        if package.split("/")[-1] in STATISTICAL:
            constants += module_constants(name, text)
            inside += literals(name, text)
    total = sum(by_package.values(), Counts())
    return {
        "packages": {name: by_package[name].shares() for name in sorted(by_package)},
        "total": total.shares(),
        "classes_defined_twice": classes_defined_twice(files),
        "constants": [asdict(number) for number in constants],
        "constants_by_account": dict(Counter(number.account for number in constants)),
        "literals_in_functions": [asdict(number) for number in inside],
        "literals_by_file": dict(Counter(number.where.split(":")[0] for number in inside)),
    }


HEADS = {
    "files": "files",
    "lines": "lines",
    "docstring_percent": "doc %",
    "comment_words_per_kloc": "words/k",
    "functions_per_kloc": "funcs/k",
    "conditional_expressions_per_kloc": "cond/k",
    "functions_over_60_lines": ">60",
    "classes_over_20_members": ">20",
    "functions_over_6_parameters": ">6",
}


def as_text(counts: dict[str, Any]) -> str:
    """Return the counts as text for people."""
    width = max(len(name) for name in [*counts["packages"], "total"])
    rows = [" ".join([" " * width, *(f"{head:>7}" for head in HEADS.values())])]
    for name, shares in [*counts["packages"].items(), ("total", counts["total"])]:
        rows.append(" ".join([f"{name:{width}}", *(f"{shares[key]:>7}" for key in HEADS)]))
    rows += [
        "",
        "doc %: lines of docstrings; words/k, funcs/k, cond/k: words of comments, functions and",
        "conditional expressions per 1,000 lines; >60: functions of more than 60 lines;",
        ">20: classes of more than 20 members; >6: functions of more than 6 parameters",
        "",
        f"class names defined twice: {len(counts['classes_defined_twice'])}",
    ]
    rows += [
        f"  {name}: {', '.join(places)}" for name, places in counts["classes_defined_twice"].items()
    ]
    by_account = counts["constants_by_account"]
    rows += [
        "",
        f"numeric constants of modules in {', '.join(STATISTICAL)}: {len(counts['constants'])}; "
        f"with a reason {by_account.get('reason', 0)}, numerical {by_account.get('numerical', 0)}, described "
        f"{by_account.get('described', 0)}, bare {by_account.get('bare', 0)}",
    ]
    rows += [
        f"  {n['where']} {n['name']} = {n['value']} ({n['account']})" for n in counts["constants"]
    ]
    rows += ["", f"literals inside their functions: {len(counts['literals_in_functions'])}"]
    rows += [f"  {file}: {number}" for file, number in counts["literals_by_file"].items()]
    if "walk" in counts:
        rows += ["", "default logistic fit and summary on the bundled table, ε = 1, δ = 10⁻⁶:"]
        rows += [
            f"  {name.replace('_', ' ')}: {value}"
            for name, value in counts["walk"].items()
            if name != "lines_by_module"
        ]
    return "\n".join(rows)


def main(arguments: list[str] | None = None) -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=SOURCE, help="folder of the packages")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--no-walk", action="store_true", help="leave out the fit")
    parser.add_argument("--walk-here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.walk_here:
        sys.path.insert(0, str(options.source))
        print(json.dumps(walk()))
        return
    counts = structure(options.source)
    if not options.no_walk:
        command = [
            sys.executable,
            __file__,
            "--walk-here",
            "--source",
            str(options.source.resolve()),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        counts["walk"] = json.loads(done.stdout)
    print(json.dumps(counts, indent=1, ensure_ascii=False) if options.json else as_text(counts))


if __name__ == "__main__":
    main()
