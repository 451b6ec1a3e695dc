"""A spec: a question of a table with its budget, as a TOML file, options of a command or both (options win).

Every key is known, of the right kind, and named in errors as the user wrote it: ``[model] knee`` or
``--knee``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from reprlib import repr as short
from typing import Any

from dpinfer.asking.rules import Rule, one_of
from dpinfer.errors import InputError
from dpinfer.estimators.aliases import HERE, IN_OPTIONS, IN_SPECS, model_advice
from dpinfer.fit.choose import TARGETS
from dpinfer.fit.step_plan import TARGET_ALIASES
from dpinfer.schema.columns import did_you_mean
from dpinfer.schema.toml import read_toml

Options = Mapping[tuple[str, str], Any]
"""Values by section and key; None where an option was not given."""


def _text(value: str) -> bool:
    return bool(value.strip()) and value.isprintable()


_WORD = {"type": "string", "minLength": 1}
_ABOVE = {"type": "number", "minimum": 1e-20, "maximum": 1e20}
_TEXT = Rule("text in quotes", _WORD, _text)
_FILE = Rule("a path in quotes", _WORD, _text)
_FORMULA = Rule(
    "text in quotes", _WORD, lambda value: bool(value.strip())
)  # may have several lines
_FLAG = Rule("true or false", {"type": "boolean"})
_TRUE = Rule("true, or left out", {"type": "boolean", "enum": [True]})
_COUNT = Rule(
    "a whole number from 1 to 100 million", {"type": "integer", "minimum": 1, "maximum": 10**8}
)
_SEED = Rule("a whole number, 0 or more", {"type": "integer", "minimum": 0})
_POSITIVE = Rule("a number above 0 (1e-20 to 1e20)", _ABOVE)
_NOT_NEGATIVE = Rule(
    "0 or a number above (to 1e20)", {"type": "number", "minimum": 0, "maximum": 1e20}
)
_INSIDE = Rule(
    "a number strictly between 0 and 1",
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
)
_LEVEL = Rule(
    "a number between 0 and 1, at least 0.5",
    {"type": "number", "minimum": 0.5, "exclusiveMaximum": 1},
)
_SHARES = Rule(
    "three positive numbers: [2, 1, 1]",
    {"type": "array", "minItems": 3, "maxItems": 3, "items": _ABOVE},
)
_CUTS = Rule(
    "a list of times: [1, 2, 5]",
    {"type": "array", "minItems": 1, "maxItems": 11, "items": _ABOVE},
)
_ADJACENCY = one_of(["replace", "add-remove", "replace-unit", "add-remove-unit"])
RULES: dict[str, dict[str, Rule]] = {
    "data": {
        "path": _FILE,
        "schema": _FILE,
        "formula": _FORMULA,
        "dataset": one_of(["rand_hie"]),
    },
    "model": {
        "loss": one_of(HERE),
        "knee": _POSITIVE,
        "quantile": _INSIDE,
        "bandwidth": _POSITIVE,
        "penalty": _NOT_NEGATIVE,
        "target": one_of(TARGETS, former=TARGET_ALIASES),
        "tail": one_of(["balanced", "cautious", "all"]),
        "far_values": one_of(["clip", "strict"]),
        "exposure": _TEXT,
        "cuts": _CUTS,
        "horizon": _POSITIVE,
    },
    "privacy": {
        "epsilon": _POSITIVE,
        "delta": _INSIDE,
        "rho": _POSITIVE,
        "none": _TRUE,
        "mechanism": one_of(["objective", "output"]),
        "shares": _SHARES,
        "adjacency": _ADJACENCY,
        "neighbours": _ADJACENCY,  # another name of the same
        "ledger": _FILE,
    },
    "output": {"folder": _FILE, "title": _TEXT, "level": _LEVEL},
    "study": {
        "replicates": _COUNT,
        "seed": _SEED,
        "level": _LEVEL,
        "checkpoint": _FLAG,
    },
}
_OPTIONS = {("data", "path"): "DATA", ("output", "folder"): "--out"}
# Keys that an option replaces together.
_TOGETHER = (("epsilon", "delta", "rho", "none"), ("adjacency", "neighbours"))


@dataclass(frozen=True)
class Spec:
    """Sections of keys; ``folder`` is that of the file, and ``options`` are the keys given as options."""

    sections: Mapping[str, dict[str, Any]]
    folder: Path | None = None
    options: frozenset[tuple[str, str]] = frozenset()

    def __getitem__(self, section: str) -> dict[str, Any]:
        return self.sections[section]

    def optional(self, section: str, key: str) -> bool:
        """Tell whether a key came as an option, or would have to."""
        return self.folder is None or (section, key) in self.options

    def name_of(self, section: str, key: str) -> str:
        """Return a key as the user would write it."""
        if self.optional(section, key):
            return _OPTIONS.get((section, key), f"--{key}")
        return f"[{section}] {key}"

    def path(self, section: str, key: str) -> Path:
        """Return the path under a key: relative to the folder of the spec, or to the current one for
        an option.
        """
        path = Path(self[section][key])
        if self.folder is None or self.optional(section, key):
            return path
        return self.folder / path

    def file(self, section: str, key: str, remedy: str = "check the path") -> Path:
        """Return the path of a file that exists; a table may be a folder of files, or a pattern."""
        path = self.path(section, key)
        if _is_there(path, several=(section, key) == ("data", "path")):
            return path
        if not self.optional(section, key):
            remedy += "; a path is relative to the folder of the spec"
        raise InputError(
            f"{self.name_of(section, key)}: there is no file {short(self[section][key])}: {remedy}"
        )

    def exactly_one(self, section: str, keys: tuple[str, ...], example: str) -> None:
        """Raise `InputError` unless exactly one of some keys is given."""
        if sum(key in self[section] for key in keys) == 1:
            return
        owner = f"[{section}] needs"
        names: Iterable[str] = keys
        if self.folder is None:
            owner = "this command needs"
            names = [self.name_of(section, key) for key in keys]
        raise InputError(f"{owner} exactly one of {', '.join(names)}, for example {example}")


def _is_there(path: Path, *, several: bool) -> bool:
    """Tell whether there is a file; or, where ``several`` will do, a folder or a pattern."""
    try:
        if several and (path.is_dir() or has_magic(str(path))):
            return True
        return path.is_file()
    except (OSError, ValueError):
        return False


def of_file(path: Path, options: Options | None = None) -> Spec:
    """Read a spec file, overruled by options.  A budget given by options replaces that of the file
    as a whole.
    """
    name = f"the spec {str(path)!r}"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except ValueError as fault:
        raise InputError(f"{name} is not valid TOML: {fault}") from None
    document = read_toml(text, name)
    for section, entries in document.items():
        check_name("the spec", "section", section, RULES)
        if not isinstance(entries, dict):
            raise InputError(
                f"{section} is a section of the spec: write [{section}] on a line of its own"
            )
        for key, value in entries.items():
            check_name(f"[{section}]", "key", key, RULES[section])
            check(f"[{section}] {key}", value, RULES[section][key])
    sections = {section: dict(document.get(section, {})) for section in RULES}
    given = _given(options or {})
    for keys in _TOGETHER:
        if any(("privacy", key) in given for key in keys):
            for key in keys:
                sections["privacy"].pop(key, None)
    return _overruled(Spec(sections, path.parent), given)


def of_options(options: Options) -> Spec:
    """Return a spec made of options alone."""
    return _overruled(Spec({section: {} for section in RULES}), _given(options))


def _given(options: Options) -> Options:
    return {key: value for key, value in options.items() if value is not None}


def _overruled(spec: Spec, given: Options) -> Spec:
    spec = Spec(spec.sections, spec.folder, frozenset(given))
    for (section, key), value in given.items():
        check(spec.name_of(section, key), value, RULES[section][key])
        spec[section][key] = value
    return spec


def check(name: str, value: Any, rule: Rule) -> None:
    """Raise `InputError` if a value breaks a rule; ``name`` is the key as the user wrote it."""
    if rule.holds(value):
        return
    if rule is RULES["model"]["loss"] and isinstance(value, str):
        instead = model_advice(value)
        if instead is not None:
            spelling = IN_OPTIONS if name.startswith("--") else IN_SPECS
            raise InputError(f"{name} has no {short(value)}: {instead.sentence(spelling)}")
    raise InputError(f"{name} must be {rule.description}, not {short(value)}")


def check_name(owner: str, kind: str, name: str, known: Iterable[str]) -> None:
    """Raise `InputError` if a name is not among the known ones."""
    if name not in known:
        raise InputError(f"{owner} has no {kind} {short(name)}: {did_you_mean(name, known)}")
