"""Fetch Adult, Bank marketing and KDD Cup 99 for people who have a network: ``python -m
studies.paper.fetch FOLDER``.

Adult and Bank marketing come from OpenML by its JSON interface, which also states an MD5 sum of
each file.  KDD Cup 99 is the 10 % file that scikit-learn's ``fetch_kddcup99`` uses, by the SHA-256
sum that scikit-learn states.  The encoded Bank file is computed from the Bank file.  The two census
files have no public download.

Every table is checked by its number of rows and of positive labels before it is written, and
appears under its final name only when it is complete.  A file that is already there is left alone.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit
from urllib.request import urlopen

import pandas as pd

OPENML = "https://www.openml.org"
KDD_URL = "https://ndownloader.figshare.com/files/5976042"
TIMEOUT_SECONDS = 60.0

_ADULT = """age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain
capital-loss hours-per-week native-country income"""
_BANK = """age job marital education default balance housing loan contact day month duration campaign pdays previous
poutcome y"""
_KDD = """duration protocol_type service flag src_bytes dst_bytes land wrong_fragment urgent hot num_failed_logins
logged_in num_compromised root_shell su_attempted num_root num_file_creations num_shells num_access_files
num_outbound_cmds is_host_login is_guest_login count srv_count serror_rate srv_serror_rate rerror_rate srv_rerror_rate
same_srv_rate diff_srv_rate srv_diff_host_rate dst_host_count dst_host_srv_count dst_host_same_srv_rate
dst_host_diff_srv_rate dst_host_same_src_port_rate dst_host_srv_diff_host_rate dst_host_serror_rate
dst_host_srv_serror_rate dst_host_rerror_rate dst_host_srv_rerror_rate label"""
ADULT_COLUMNS = _ADULT.split()
BANK_COLUMNS = _BANK.split()
KDD_COLUMNS = _KDD.split()

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_JOBS = """admin. unemployed management housemaid entrepreneur student blue-collar self-employed retired technician
services"""


class FetchError(RuntimeError):
    """A table could not be had, or is not the one expected; the message is one line and ends with a
    remedy.
    """


@dataclass(frozen=True)
class Table:
    """What a finished table must hold: its rows, and how many of them carry ``label`` in the last
    column.
    """

    rows: int
    label: str | int
    labelled: int


@dataclass(frozen=True)
class Facts:
    """What is known about the files before they are fetched."""

    adult: Table = Table(30_162, ">50K", 7_508)
    adult_test_rows: int = 16_281
    bank: Table = Table(45_211, "yes", 5_289)
    kdd: Table = Table(494_021, "normal.", 97_278)
    kdd_sha256: str = "8045aca0d84e70e622d1148d7df782496f6333bf6eb979a1b0837c42a9fd9561"


FACTS = Facts()


def fetch(
    folder: str | Path, base_url: str = OPENML, *, kdd_url: str = KDD_URL, facts: Facts = FACTS
) -> list[Path]:
    """Write the tables that are not in ``folder`` yet, and return the paths of all of them.

    Another server, or other facts about its files, serve the tests.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    bank = folder / "bank_full.parquet"
    encoded = Table(facts.bank.rows, 1, facts.bank.labelled)
    return [
        _keep(
            folder / "adult_train_complete.parquet", lambda: _adult(base_url, facts), facts.adult
        ),
        _keep(bank, lambda: _bank(base_url), facts.bank),
        _keep(
            folder / "bank_dpagd_encoded.parquet",
            lambda: encode_bank(pd.read_parquet(bank)),
            encoded,
        ),
        _keep(folder / "kddcup99_10pct.parquet", lambda: _kdd(kdd_url, facts), facts.kdd),
    ]


def encode_bank(bank: pd.DataFrame) -> pd.DataFrame:
    """The numeric encoding of the DP-AGD authors, columns x1 to x32 and y, from the columns of
    bank_full.

    The all-zero level is `unknown`, and `divorced` for the marital status.
    """
    columns = [
        bank["age"],
        *(bank["job"] == job for job in _JOBS.split()),
        *(bank["marital"] == level for level in ("single", "married")),
        *(bank["education"] == level for level in ("primary", "secondary", "tertiary")),
        bank["default"] == "yes",
        bank["balance"],
        *(bank[column] == "yes" for column in ("housing", "loan")),
        *(bank["contact"] == level for level in ("telephone", "cellular")),
        30 * bank["month"].map(_MONTHS.index).add(1) + bank["day"],
        bank["duration"],
        bank["campaign"],
        bank["pdays"] != -1,
        bank["pdays"].clip(lower=0),
        bank["previous"],
        *(bank["poutcome"] == level for level in ("other", "failure", "success")),
        bank["y"] == "yes",
    ]
    names = [*(f"x{place}" for place in range(1, len(columns))), "y"]
    return pd.DataFrame(
        {name: column.astype("int32") for name, column in zip(names, columns, strict=True)}
    )


def _adult(base_url: str, facts: Facts) -> pd.DataFrame:
    """The complete rows of the training file; OpenML's table 1590 is the test file followed by the
    training file.
    """
    table = _openml(base_url, 1590, ADULT_COLUMNS).iloc[facts.adult_test_rows :]
    return table[~(table == "?").any(axis=1)].reset_index(drop=True)


def _bank(base_url: str) -> pd.DataFrame:
    """OpenML's table 1461, which names its columns V1 to V16 and its labels 1 (no) and 2 (yes)."""
    table = _openml(base_url, 1461, BANK_COLUMNS)
    return table.assign(y=table["y"].astype(str).replace({"1": "no", "2": "yes"}))


def _kdd(url: str, facts: Facts) -> pd.DataFrame:
    """A gzipped CSV without a header."""
    packed = _get(url)
    _same_sum("sha256", packed, facts.kdd_sha256, url)
    with _reading(url):
        return pd.read_csv(
            io.BytesIO(gzip.decompress(packed)), names=KDD_COLUMNS, keep_default_na=False
        )


def _openml(base_url: str, number: int, columns: list[str]) -> pd.DataFrame:
    """A data set of OpenML by its number, with columns renamed by position; a missing value stays
    ``?``.
    """
    about = f"{base_url.rstrip('/')}/api/v1/json/data/{number}"
    text = _get(about)
    with _reading(about):
        description = json.loads(text)["data_set_description"]
        url = urljoin(about, description["url"])
    content = _get(url)
    if description.get("md5_checksum"):
        _same_sum("md5", content, description["md5_checksum"], url)
    with _reading(url):
        return _arff(content.decode(), columns)


def _arff(text: str, columns: list[str]) -> pd.DataFrame:
    """The rows of a dense ARFF file; its header is only used to count the attributes."""
    lines = text.splitlines()
    start = next(
        (place for place, line in enumerate(lines) if line.strip().lower() == "@data"), len(lines)
    )
    attributes = sum(line.strip().lower().startswith("@attribute") for line in lines[:start])
    if attributes != len(columns):
        raise ValueError(f"{attributes} columns instead of {len(columns)}")
    rows = "\n".join(line for line in lines[start + 1 :] if not line.startswith("%"))
    quote = "'" if "'" in rows else '"'
    return pd.read_csv(
        io.StringIO(rows),
        names=columns,
        skipinitialspace=True,
        keep_default_na=False,
        quotechar=quote,
    )


def _get(url: str) -> bytes:
    """The content behind an http address."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise FetchError(f"{url!r} is not an http address: check the base URL")
    remedy = "check the network and try again, or put the parquet file into the folder by hand"
    try:
        with urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            return bytes(response.read())
    except HTTPError as error:
        error.close()
        raise FetchError(f"cannot fetch {url} (HTTP status {error.code}): {remedy}") from error
    except (OSError, HTTPException) as error:
        raise FetchError(
            f"cannot fetch {url} ({getattr(error, 'reason', error)}): {remedy}"
        ) from error


def _same_sum(kind: str, content: bytes, stated: str, url: str) -> None:
    """Refuse a file whose checksum is not the stated one."""
    if hashlib.new(kind, content, usedforsecurity=False).hexdigest() != stated:
        raise FetchError(f"{url} does not have its stated {kind} sum: fetch it again")


@contextmanager
def _reading(url: str) -> Iterator[None]:
    """Turn whatever an unreadable file raises into one line."""
    try:
        yield
    except (ValueError, KeyError, TypeError, OSError, EOFError, zlib.error) as error:
        reason = " ".join(str(error).split())
        raise FetchError(
            f"cannot read what {url} sent ({reason}): check the base URL and fetch again"
        ) from error


def _keep(path: Path, make: Callable[[], pd.DataFrame], expected: Table) -> Path:
    """Make, check and write a table unless it is there; it gets its name only when it is complete."""
    if path.exists():
        return path
    table = make()
    found = Table(len(table), expected.label, int((table.iloc[:, -1] == expected.label).sum()))
    if found != expected:
        raise FetchError(
            f"{path.name} would have {found}, not {expected}: the server has another version of the table"
        )
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        table.to_parquet(partial, compression="zstd", index=False)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def main(arguments: list[str] | None = None) -> int:
    """Fetch from the command line; the exit status is 1 and the error one line when something
    fails.
    """
    parser = argparse.ArgumentParser(
        prog="python -m studies.paper.fetch", description="Fetch the public data sets."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--base-url", default=OPENML, help="an OpenML server (default: %(default)s)"
    )
    parser.add_argument(
        "--kdd-url", default=KDD_URL, help="the KDD Cup 99 10 %% file (default: %(default)s)"
    )
    chosen = parser.parse_args(arguments)
    try:
        paths = fetch(chosen.folder, chosen.base_url, kdd_url=chosen.kdd_url)
    except FetchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("\n".join(str(path) for path in paths))
    return 0


if __name__ == "__main__":
    sys.exit(main())
