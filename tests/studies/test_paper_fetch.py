"""Fetching, against a real server on this machine that speaks the part of OpenML's interface that
is used.
"""

import gzip
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from studies.paper import data, fetch

REAL = os.environ.get("DPINFER_DATA")
FILES = [
    "adult_train_complete.parquet",
    "bank_full.parquet",
    "bank_dpagd_encoded.parquet",
    "kddcup99_10pct.parquet",
]
ADULT = """@relation adult
@attribute age numeric
ATTRIBUTES
@data
25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Male, 0, 0, 40, Cuba, >50K
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, Japan, <=50K

% a comment
18, ?, 103497, Some-college, 10, Never-married, ?, Own-child, White, Female, 0, 0, 30, Japan, >50K
44, Private, 160323, HS-grad, 10, Divorced, Sales, Husband, Black, Male, 7688, 0, 40, 'Outlying-US(Guam-USVI-etc)', >50K
""".replace(
    "ATTRIBUTES", "\n".join(f"@ATTRIBUTE '{name}' {{ a, b }}" for name in fetch.ADULT_COLUMNS[1:])
)
BANK = """@RELATION bank
ATTRIBUTES
@DATA
58,management,married,tertiary,no,2143,yes,no,unknown,5,may,261,1,-1,0,unknown,1
33,entrepreneur,married,secondary,no,-2,yes,yes,unknown,5,may,76,1,120,3,success,2
""".replace("ATTRIBUTES", "\n".join(f"@ATTRIBUTE V{place} REAL" for place in range(1, 18)))
KDD = (
    "0,tcp,http,SF,181,5450,"
    + "0," * 35
    + "normal.\n"
    + "0,icmp,ecr_i,SF,1032,0,"
    + "0.5," * 35
    + "smurf.\n"
)


class Server:
    """Paths and what they answer; ``url`` is where it listens and ``asked`` what it was asked for."""

    def __init__(self, url: str, packed_kdd: bytes) -> None:
        self.url, self.asked = url, []
        self.pages: dict[str, tuple[int, bytes]] = {"/kdd.gz": (200, packed_kdd)}
        self.facts = fetch.Facts(
            adult=fetch.Table(2, ">50K", 1),
            adult_test_rows=1,
            bank=fetch.Table(2, "yes", 1),
            kdd=fetch.Table(2, "normal.", 1),
            kdd_sha256=hashlib.sha256(packed_kdd).hexdigest(),
        )
        self.offer(1590, ADULT)
        self.offer(1461, BANK)

    def offer(self, number: int, arff: str, **changes: object) -> None:
        """Serve an ARFF file and its description; a relative address is resolved against the
        description's.
        """
        sum_ = hashlib.md5(arff.encode(), usedforsecurity=False).hexdigest()
        description = {
            "id": str(number),
            "url": f"{self.url}/data/v1/download/{number}.arff",
            "md5_checksum": sum_,
        }
        about = {"data_set_description": description | changes}
        self.pages[f"/api/v1/json/data/{number}"] = (200, json.dumps(about).encode())
        self.pages[f"/data/v1/download/{number}.arff"] = (200, arff.encode())

    def fetch(self, folder: Path, **changes: object) -> list[Path]:
        facts = replace(self.facts, **changes)
        return fetch.fetch(folder, self.url, kdd_url=f"{self.url}/kdd.gz", facts=facts)


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            status, body = state.pages.get(self.path, (412, b'{"error": {"code": "111"}}'))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state = Server(f"http://127.0.0.1:{http.server_port}", gzip.compress(KDD.encode()))
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        http.shutdown()
        thread.join()


def test_the_tables_have_the_documented_columns_and_values(server, tmp_path):
    folder = tmp_path / "new" / "folder"
    assert [path.name for path in server.fetch(folder)] == FILES
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        FILES
    )  # nothing half-written is left
    adult = pd.read_parquet(folder / FILES[0])
    assert list(adult) == fetch.ADULT_COLUMNS
    assert adult["age"].tolist() == [39, 44]  # neither the test row nor the row with a ?
    assert adult["native-country"].tolist() == ["Japan", "Outlying-US(Guam-USVI-etc)"]
    assert adult["income"].tolist() == ["<=50K", ">50K"]
    bank = pd.read_parquet(folder / FILES[1])
    assert list(bank) == fetch.BANK_COLUMNS
    assert bank["y"].tolist() == ["no", "yes"]
    assert bank["balance"].tolist() == [2143, -2]
    kdd = pd.read_parquet(folder / FILES[3])
    assert list(kdd) == fetch.KDD_COLUMNS
    assert kdd["label"].tolist() == ["normal.", "smurf."]


def test_the_encoded_bank_table_follows_its_description(server, tmp_path):
    server.fetch(tmp_path)
    first, second = pd.read_parquet(tmp_path / FILES[2]).to_numpy().tolist()
    assert len(first) == 33
    assert first[0] == 58
    assert [place for place, value in enumerate(first, 1) if value == 1] == [4, 14, 17, 20, 26]
    assert (first[18], first[23], first[26], first[27]) == (2143, 155, 0, 0)
    assert (second[26], second[27], second[31], second[32]) == (1, 120, 1, 1)


def test_the_loaders_read_what_was_fetched(server, tmp_path):
    server.fetch(tmp_path)
    for name in ("adult", "bank", "bank_dpagd", "kdd"):
        X, y, _ = data.load(name, tmp_path)
        assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-12
        assert sorted(y) == [-1.0, 1.0], name


def test_a_table_that_is_there_is_not_fetched_again(server, tmp_path):
    server.fetch(tmp_path)
    server.asked.clear()
    server.fetch(tmp_path)
    assert server.asked == []
    (tmp_path / FILES[1]).unlink()
    server.fetch(tmp_path)
    assert server.asked == ["/api/v1/json/data/1461", "/data/v1/download/1461.arff"]


def test_a_relative_address_and_a_missing_sum_are_understood(server, tmp_path):
    server.offer(1590, ADULT, url="/data/v1/download/1590.arff", md5_checksum=None)
    assert len(server.fetch(tmp_path)) == 4


@pytest.mark.parametrize(
    ("path", "answer", "message"),
    [
        (
            "/api/v1/json/data/1590",
            (503, b""),
            r"HTTP status 503\): check the network and try again",
        ),
        ("/api/v1/json/data/1590", (200, b"<html>"), "cannot read what .*: check the base URL"),
        ("/api/v1/json/data/1590", (200, b"{}"), "cannot read what .*: check the base URL"),
        (
            "/api/v1/json/data/1590",
            (200, b'{"data_set_description": {"url": "file:///x"}}'),
            "not an http address",
        ),
        ("/data/v1/download/1590.arff", (200, b"short"), "stated md5 sum: fetch it again"),
        ("/kdd.gz", (200, b"short"), "stated sha256 sum: fetch it again"),
    ],
)
def test_a_bad_answer_is_one_line_with_a_remedy(server, tmp_path, path, answer, message):
    server.pages[path] = answer
    with pytest.raises(fetch.FetchError, match=message) as caught:
        server.fetch(tmp_path)
    assert "\n" not in str(caught.value)
    assert not [entry for entry in tmp_path.iterdir() if entry.name not in FILES]


def test_a_table_of_another_size_is_refused_and_not_written(server, tmp_path):
    with pytest.raises(fetch.FetchError, match="another version of the table"):
        server.fetch(tmp_path, bank=fetch.Table(3, "yes", 1))
    with pytest.raises(fetch.FetchError, match="another version of the table"):
        server.fetch(tmp_path, bank=fetch.Table(2, "yes", 2))
    assert [path.name for path in tmp_path.iterdir()] == FILES[:1]


def test_a_table_with_other_columns_is_refused(server, tmp_path):
    server.offer(1461, BANK.replace("@ATTRIBUTE V17 REAL\n", ""))
    with pytest.raises(fetch.FetchError, match="16 columns instead of 17"):
        server.fetch(tmp_path)


def test_a_failed_write_leaves_nothing(server, tmp_path, monkeypatch):
    def half(self: pd.DataFrame, path: Path, **options: object) -> None:
        path.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", half)
    with pytest.raises(OSError, match="no space"):
        server.fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_network_from_the_command_line(tmp_path, capsys):
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as http:
        port = http.server_port  # free again, and closed, below
    assert fetch.main([str(tmp_path), "--base-url", f"http://127.0.0.1:{port}"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: cannot fetch http://127.0.0.1")
    assert err.count("\n") == 1


@pytest.mark.skipif(not REAL, reason="DPINFER_DATA names no folder with the real tables")
def test_the_real_tables_survive_the_journey(server, tmp_path):
    real = Path(REAL)
    both = pd.concat(
        [pd.read_parquet(real / f"adult_{part}.parquet") for part in ("test", "train")]
    )
    both["income"] = both["income"].str.rstrip(".")
    bank = pd.read_parquet(real / "bank_full.parquet")
    server.offer(
        1590, ADULT.partition("@data")[0] + "@data\n" + both.to_csv(index=False, header=False)
    )
    coded = bank.assign(y=bank["y"].map({"no": 1, "yes": 2}))
    server.offer(
        1461, BANK.partition("@DATA")[0] + "@DATA\n" + coded.to_csv(index=False, header=False)
    )
    known = fetch.FACTS
    server.fetch(
        tmp_path, adult=known.adult, adult_test_rows=known.adult_test_rows, bank=known.bank
    )
    for name in FILES[:3]:
        pd.testing.assert_frame_equal(
            pd.read_parquet(tmp_path / name), pd.read_parquet(real / name)
        )
