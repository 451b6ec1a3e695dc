"""Files that are not read, and what to do with them."""

from collections.abc import Iterable

from dpinfer.errors import InputError

_OTHERS = {
    ".dta": ("a Stata file", "in Python: pandas.read_stata('{file}').to_parquet('{stem}.parquet')"),
    ".sav": ("an SPSS file", "in Python: pandas.read_spss('{file}').to_parquet('{stem}.parquet')"),
    ".zsav": ("an SPSS file", "in Python: pandas.read_spss('{file}').to_parquet('{stem}.parquet')"),
    ".sas7bdat": ("a SAS file", "in Python: pandas.read_sas('{file}', encoding='infer').to_parquet('{stem}.parquet')"),
    ".xpt": ("a SAS file", "in Python: pandas.read_sas('{file}', encoding='utf-8').to_parquet('{stem}.parquet')"),
    ".xlsx": (
        "an Excel file",
        "save the sheet as CSV UTF-8 (comma delimited), with names in the first line",
    ),
    ".xls": (
        "an Excel file",
        "save the sheet as CSV UTF-8 (comma delimited), with names in the first line",
    ),
    ".ods": ("a spreadsheet", "save the sheet as CSV in UTF-8 with commas, with names in the first line"),
    ".rds": ("an R file", "in R: arrow::write_parquet(readRDS('{file}'), '{stem}.parquet')"),
    ".rdata": ("an R file", "in R: load('{file}'), then arrow::write_parquet(TABLE, '{stem}.parquet')"),
    ".tsv": ("separated by tabs", "in Python: pandas.read_csv('{file}', sep='\\t').to_parquet('{stem}.parquet')"),
    ".zip": ("packed", "unpack it; a CSV file may be packed by gzip, as .csv.gz"),
}
_SIGNS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def refusal(file: str, known: Iterable[str]) -> InputError:
    """The error for a table whose name does not end as that of a readable file."""
    for end, (kind, remedy) in _OTHERS.items():
        if file.lower().endswith(end):
            told = remedy.format(file=file, stem=file[: -len(end)])
            return InputError(f"{file!r} is {kind}, which is not read here: write it as Parquet or CSV; {told}")
    common = (".csv", ".parquet")
    others = ", ".join(sorted(set(known) - {*common}))
    return InputError(f"the table {file!r} must end in {' or '.join(common)}, or in {others}: write it as one of them")


def separated(file: str, names: list[str]) -> list[str]:
    """The names in the first line of a CSV file, refused if another sign than the comma separates them.

    Such a file may also have commas for decimal points, and what a comma means must not be guessed from cells.
    """
    for sign, words in _SIGNS.items():
        if sum(name.count(sign) for name in names) >= len(names):  # more of them than commas
            raise InputError(
                f"the names in the first line of {file!r} are separated by {words}, not by commas: write it with "
                "commas, and numbers with decimal points; in Python: "
                f"pandas.read_csv({file!r}, sep={sign!r}, decimal=',').to_parquet(...), without decimal= where numbers "
                "have points"
            )
    return names
