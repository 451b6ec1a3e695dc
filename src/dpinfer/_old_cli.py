"""The command line.  Exit codes: 0 done, 1 a fault of dpinfer itself, 2 an error of the user's, 130 interrupted.

An error is one line on stderr that starts with ``error:``.  It names files, keys and columns, never a value of the
data.  Files are written under another name and then renamed, so a reader never sees half of one.
"""

import csv
import io
import os
import sys
import tomllib
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from reprlib import repr as short
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer

import dpinfer as dp
from dpinfer.data import files
from dpinfer.data.formula import parse
from dpinfer.errors import BudgetError, DpinferError, InputError
from dpinfer.fit.plan import default_plan

_HELP = """Do the intervals of a plan cover, and how long are they?  A study on bootstrap replicates of a table.

The study reads the records without noise: it is NOT PRIVATE, and says so in everything it writes.

SPEC is a TOML file; what is left out has a default, except the data and the budget:

\b
  \\[data]
  path = "table.parquet"     # or .csv; relative to the spec, as is schema
  schema = "schema.toml"     # what is public about the columns
  formula = "y ~ a + b"
  dataset = "rand_hie"       # bundled; instead of the three keys above
  \\[model]
  loss = "logistic"          # or "huber_hinge", with knee = 1.0
  penalty = 0.001            # default: one that is valid for the budget
  \\[privacy]
  epsilon = 1.0              # pure; with delta = 1e-6, (epsilon, delta)
  rho = 0.1875               # zCDP, instead of epsilon
  none = true                # noise off, instead of epsilon
  mechanism = "objective"    # or "output"; default: by kind of budget
  shares = \\[2, 1, 1]         # weights of estimate, Hessian, covariance
  \\[study]
  replicates = 1000
  seed = 0
  level = 0.95
  device = "cuda"            # default: numpy; needs torch
  checkpoint = true          # keep a file in --out to resume from
"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")


def main() -> None:
    """Run the program and exit with its code."""
    try:
        code = app(prog_name="dpinfer", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except DpinferError as fault:
        code = _fail(str(fault))
    except MemoryError:
        code = _fail("there is not enough memory: take fewer columns or records, or a machine with more")
    except OSError as fault:
        where = "" if fault.filename is None else f" {str(fault.filename)!r}"
        code = _fail(f"cannot read or write{where} ({fault.strerror}): check the path, its rights and the disk")
    except Exception as fault:
        code = _unexpected(fault)
    if code == 130:
        print("interrupted", file=sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)


def _unexpected(fault: Exception) -> int:
    """A wrong command line, or a fault of ours; then no message and no traceback, which could quote the data."""
    if hasattr(fault, "format_message"):
        return _fail(f"{fault.format_message().rstrip('.')}; see dpinfer --help")
    last = traceback.extract_tb(fault.__traceback__)[-1]
    place = f"{type(fault).__name__}, {Path(last.filename).name} line {last.lineno}"
    return _fail(f"this is a fault of dpinfer itself ({place}): please report it with this line", 1)


def _fail(message: str, code: int = 2) -> int:
    print("error:", " ".join(message.split()), file=sys.stderr)
    return code


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Differentially private regression with honest confidence intervals."""
    if version:
        print(f"dpinfer {dp.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command(help=_HELP)
def coverage(
    spec: Annotated[Path, typer.Argument(help="The TOML file that describes the study.", metavar="SPEC")],
    out: Annotated[Path | None, typer.Option(help="Folder for a JSON, a CSV and a PNG file.", metavar="DIR")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the study as JSON and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar, no list of files.")] = False,
) -> None:
    """Study the intervals of a plan."""
    given = _read_spec(spec)
    if given["study"].pop("checkpoint", False):
        if out is None:
            raise InputError("[study] checkpoint keeps its file in the output folder: give --out DIR, or drop the key")
        given["study"]["checkpoint"] = out / "resume.json"
    arguments = _arguments(given, spec.parent)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=out).close()  # a folder that cannot be written to fails here, not after the study
    study = dp.simulate.coverage(**arguments, progress=not quiet and sys.stderr.isatty())
    if out is not None:
        for name, content in _files(study).items():
            _write(out / name, content)
            if not quiet:
                print("wrote", out / name, file=sys.stderr)
    if "checkpoint" in arguments:
        arguments["checkpoint"].unlink(missing_ok=True)
    print(study.to_json() if as_json else study.summary())


def _arguments(given: Mapping[str, dict[str, Any]], folder: Path) -> dict[str, Any]:
    """What `dp.simulate.coverage` is called with."""
    model = {"loss": _loss(given["model"]), "plan": _plan(given["privacy"]), "penalty": given["model"].get("penalty")}
    if "device" in given["study"]:
        _check_device(given["study"]["device"])
    return _data(given["data"], folder) | model | given["study"]


_Rule = tuple[str, Callable[[Any], bool]]  # in words, and as a test


def _one_of(*words: str) -> _Rule:
    return (" or ".join(f'"{word}"' for word in words), lambda value: value in words)


_TEXT = ("text in quotes", lambda value: isinstance(value, str) and bool(value.strip()))
_FLAG = ("true or false", lambda value: isinstance(value, bool))
_TRUE = ("true, or left out", lambda value: value is True)
_COUNT = ("a whole number from 1 to 100 million", lambda value: type(value) is int and 1 <= value <= 10**8)
_SEED = ("a whole number, 0 or more", lambda value: type(value) is int and value >= 0)
_POSITIVE = ("a number above 0 (1e-20 to 1e20)", lambda value: type(value) in (int, float) and 1e-20 <= value <= 1e20)
_NOT_NEGATIVE = ("0 or a number above (to 1e20)", lambda value: type(value) in (int, float) and 0 <= value <= 1e20)
_INSIDE = ("a number strictly between 0 and 1", lambda value: type(value) in (int, float) and 0 < value < 1)
_SHARES = ("three positive numbers: [2, 1, 1]", lambda v: type(v) is list and [*map(_POSITIVE[1], v)] == [True] * 3)
_BUDGETS = {"epsilon": _POSITIVE, "delta": _INSIDE, "rho": _POSITIVE, "none": _TRUE}
_RULES: dict[str, dict[str, _Rule]] = {
    "data": {"path": _TEXT, "schema": _TEXT, "formula": _TEXT, "dataset": _one_of("rand_hie")},
    "model": {"loss": _one_of("logistic", "huber_hinge"), "knee": _POSITIVE, "penalty": _NOT_NEGATIVE},
    "privacy": {**_BUDGETS, "mechanism": _one_of("objective", "output"), "shares": _SHARES},
    "study": {"replicates": _COUNT, "seed": _SEED, "level": _INSIDE, "device": _TEXT, "checkpoint": _FLAG},
}


def _read_spec(path: Path) -> dict[str, dict[str, Any]]:
    """The sections of a spec, each key known and of the right kind."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as fault:
        raise InputError(f"the spec {str(path)!r} is not valid TOML: {fault}") from None
    for section, entries in document.items():
        _check_name("the spec", "section", section, _RULES)
        if not isinstance(entries, dict):
            raise InputError(f"{section} is a section of the spec: write [{section}] on a line of its own")
        for key, value in entries.items():
            _check_name(f"[{section}]", "key", key, _RULES[section])
            words, holds = _RULES[section][key]
            if not holds(value):
                raise InputError(f"[{section}] {key} must be {words}, not {short(value)}")
    return {section: document.get(section, {}) for section in _RULES}


def _check_name(owner: str, kind: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        near = get_close_matches(name, known, 1)
        remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise InputError(f"{owner} has no {kind} {short(name)}: {remedy}")


def _exactly_one(section: str, given: Mapping[str, Any], keys: tuple[str, ...], example: str) -> None:
    if sum(key in given for key in keys) != 1:
        raise InputError(f"[{section}] needs exactly one of {', '.join(keys)}, for example {example}")


def _loss(given: Mapping[str, Any]) -> dp.Loss:
    if given.get("loss") == "huber_hinge":
        return dp.HuberHinge(given.get("knee", 1.0))
    if "knee" in given:
        raise InputError('[model] knee belongs to loss = "huber_hinge": set that loss, or drop the knee')
    return dp.Logistic()


def _plan(given: Mapping[str, Any]) -> dp.Plan:
    """The default plan of the budget, but for the mechanism and the shares that are given."""
    _exactly_one("privacy", given, ("epsilon", "rho", "none"), "epsilon = 1.0")
    if "delta" in given and "epsilon" not in given:
        raise BudgetError("[privacy] delta goes with epsilon: give both, or drop delta")
    budget: dp.PureDP | dp.ZCDP | dp.ApproxDP | dp.NoPrivacy = dp.NoPrivacy()
    if "rho" in given:
        budget = dp.ZCDP(given["rho"])
    elif "epsilon" in given:
        budget = dp.ApproxDP(given["epsilon"], given["delta"]) if "delta" in given else dp.PureDP(given["epsilon"])
    plan = default_plan(budget)
    if "mechanism" in given:
        objective = given["mechanism"] == "objective"
        plan = replace(plan, mechanism=dp.ObjectivePerturbation() if objective else dp.OutputPerturbation())
    if "shares" in given:
        first, second, third = budget.split(*given["shares"])
        plan = replace(plan, estimate=first, hessian=second, covariance=third)
    return plan


def _check_device(device: str) -> None:
    """Refuse a device that torch does not have; without torch, the study itself says so."""
    try:
        import torch  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415  (an optional extra)

        torch.empty(1, dtype=torch.float64, device=device)
    except ImportError:
        return
    except Exception:
        raise InputError(f"[study] device {short(device)} is not here or lacks float64: drop the key") from None


def _data(given: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Table, schema and formula."""
    _exactly_one("data", given, ("path", "dataset"), 'dataset = "rand_hie"')
    for key, example in (("schema", "schema.toml"), ("formula", "y ~ a + b")):
        if "path" in given and key not in given:
            raise InputError(f'[data] path needs {key} beside it, for example {key} = "{example}"')
    found: dict[str, Any] = {"formula": given["formula"]} if "formula" in given else {}
    if "schema" in given:
        found["schema"] = dp.Schema.read(_file("schema", given["schema"], folder))
    if "path" in given:
        return found | {"X": _table(_file("path", given["path"], folder), found["schema"], found["formula"])}
    bundled = dp.datasets.rand_hie()
    return {"X": bundled.table, "schema": bundled.schema, "formula": bundled.formula} | found


def _file(key: str, name: str, folder: Path) -> Path:
    if not (folder / name).is_file():
        raise InputError(f"[data] {key}: there is no file {short(name)}; a path is relative to the folder of the spec")
    return folder / name


def _table(path: Path, schema: "dp.Schema", formula: str) -> Any:
    """The columns of a file that the formula needs."""
    outcome, terms = parse(formula, schema)
    try:
        return files.read(path, [outcome, *terms.columns])
    except InputError as fault:
        raise InputError(f"[data] path: {fault}") from None


def _files(study: "dp.simulate.Study") -> dict[str, bytes]:
    from dpinfer import plot  # noqa: PLC0415

    rows, sheet, picture = study.table(), io.StringIO(), io.BytesIO()
    csv.writer(sheet, lineterminator="\n").writerows([list(rows[0]), *(row.values() for row in rows)])
    with warnings.catch_warnings(action="ignore"):  # a letter that the font lacks
        plot.coverage(study).savefig(picture, format="png")
    texts = {"study.json": study.to_json() + "\n", "coverage.csv": sheet.getvalue()}
    return {name: text.encode() for name, text in texts.items()} | {"coverage.png": picture.getvalue()}


def _write(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
