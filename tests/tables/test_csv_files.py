"""CSV files: one line is one record, whatever it holds, and nothing in a record changes another
one.
"""

import csv
import gzip
import io
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.tables import csv_files
from dpinfer.tables.arrow_files import Files
from helpers.searches import examples

SCHEMA = dp.Schema.parse("""
[columns.y]
type = "outcome"
levels = [false, true]
[columns.a]
type = "number"
low = -9
high = 9
[columns.t]
type = "category"
levels = ["p", "q, r"]
""")
COLUMNS = [SCHEMA["y"], SCHEMA["a"], SCHEMA["t"]]
HEADER = b"a,note,t,y\n"
RECORDS = [
    f'{i / 8},"n ""{i}""",{("p", chr(34) + "q, r" + chr(34))[i % 2]},{i % 3 // 2}'.encode()
    for i in range(40)
]
CLEAN = [{"y": i % 3 == 2, "a": i / 8, "t": ("p", "q, r")[i % 2]} for i in range(40)]
GONE = {"y": None, "a": None, "t": None}

DEFECTS = {
    "stray quote": b'1,x,"p,1',
    "quote inside a cell": b'1,5" pipe,p,1',
    "two quotes inside a cell": b'1,a "good" one,p,1',
    "even quotes, the last one opens": b'1,a"b,p,"1',
    "text after a closing quote": b'1,"x"y,p,1',
    "space before a quote": b'1, "x",p,1',
    "quote never closed": b'1,x,p,"1',
    "only a quote": b'"',
    "three quotes": b'1,""",p,1',
    "comma too many": b"1,x,p,1,",
    "comma too few": b"1,x,p",
    "quoted comma too few": b'1,"x,p",1',
    "blank": b"",
    "only CR": b"\r",
    "CR inside": b"1,x\ry,p,1",
    "CR in quotes": b'1,"x\ry",p,1',
    "two CR at the end": b"1,x,p,1\r\r",
    "CR between two records": b"1,x,p,1\r2,x,p,0",
    "not UTF-8": b"1,\xff,p,1",
    "UTF-8 cut off": b"1,x,p,1\xc3",
    "a surrogate": b"1,\xed\xa0\x80,p,1",
    "NUL": b"1,\0,p,1",
    "too long": b'1,"' + b"x" * 2**24 + b'",p,1',
    "too long for any block": b"1," + b"x," * 2**24 + b"p,1",
}


@pytest.fixture
def write(tmp_path):
    def act(content, name="t.csv"):
        (tmp_path / name).write_bytes(gzip.compress(content, 1) if name.endswith("gz") else content)
        return tmp_path / name

    return act


def rows(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = Files(path).read(COLUMNS).to_pylist()
        assert Files(path).count(COLUMNS) == len(found)
    return found


def at(records, i, record):
    return [*records[:i], record, *records[i + 1 :]]


@pytest.mark.parametrize("i", [0, 17, 39])
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_breaks_its_own_record_only(defect, i, write):
    content = HEADER + b"\n".join(at(RECORDS, i, DEFECTS[defect])) + b"\n"
    assert rows(write(content)) == at(CLEAN, i, GONE)


@pytest.mark.parametrize("defect", ["stray quote", "comma too few", "blank", "too long"])
def test_line_ends_and_compression_change_nothing(defect, write):
    records = at(RECORDS, 5, DEFECTS[defect])
    for content in (
        HEADER + b"\n".join(records),
        (HEADER + b"\n".join(records) + b"\n").replace(b"\n", b"\r\n"),
        (b"\xef\xbb\xbf" + HEADER + b"\n".join(records)).replace(b"\n", b"\r\n") + b"\r",
    ):
        for name in ("t.csv", "t.csv.gz"):
            assert rows(write(content, name)) == at(CLEAN, 5, GONE)


@pytest.mark.parametrize("second", DEFECTS)
@pytest.mark.parametrize(
    "first", ["stray quote", "even quotes, the last one opens", "quote never closed"]
)
def test_defects_do_not_make_up_for_each_other(first, second, write):
    """A quote that swallows a line end and a CR that makes one: the reader's own count would be
    right.
    """
    if second.startswith("too long"):
        return
    records = at(at(RECORDS, 5, DEFECTS[first]), 9, DEFECTS[second])
    assert rows(write(HEADER + b"\n".join(records))) == at(at(CLEAN, 5, GONE), 9, GONE)


def test_every_blank_line_is_a_record(write):
    content = HEADER + b"\n\r\n" + RECORDS[0] + b"\n\n\n"
    assert rows(write(content)) == [GONE, GONE, CLEAN[0], GONE, GONE]
    assert rows(write(HEADER)) == rows(write(HEADER[:-1])) == []


def test_a_file_of_broken_lines_only(write):
    assert rows(write(HEADER + b'"\n' * 300)) == [GONE] * 300


@pytest.mark.parametrize("cell", [b"1", b"", b"\r", b'"', b'""', b"x,", b"\xff"])
def test_one_column(cell, write):
    schema = dp.Schema.parse('[columns.a]\ntype = "number"\nlow = 0\nhigh = 9\n')
    found = Files(write(b"a\n2\n" + cell + b"\n3")).read([schema["a"]])["a"].to_pylist()
    assert found == [2.0, 1.0 if cell == b"1" else None, 3.0]


def test_the_published_number_of_records_is_that_of_the_lines(write):
    """One stray quote used to swallow the records that follow it."""
    schema = dp.Schema.parse(
        '[columns.y]\ntype = "outcome"\nlevels = ["n", "p"]\n[columns.a]\ntype = "boolean"\n'
    )
    records = [b"%d,%s" % (i % 2, b"np"[i % 3 % 2 :][:1]) for i in range(2000)]
    model = dp.LogisticRegression("y ~ a", schema=schema, budget=dp.ZCDP(1.0), insecure_seed=1)
    found = []
    for record in (b'"1,p', b"1,p,", b"", b"?,p", b"1,other"):
        result = model.fit(write(b"a,y\n" + b"\n".join(at(records, 7, record)) + b"\n")).result_
        assert result.model.n == 2000
        found.append(result.to_json())
    assert len(set(found)) == 1


soup = st.lists(
    st.sampled_from(
        [
            b"1",
            b"x",
            *[b",", b'"'] * 2,
            b'""',
            b'","',
            b"\r",
            b"\xff",
            b"\xc3\xa9",
            b"\0",
            b"\xef\xbb\xbf",
        ]
    ),
    max_size=12,
).map(b"".join)
any_bytes = st.binary(max_size=30).map(lambda record: record.replace(b"\n", b""))


@examples(100)
@given(st.one_of(soup, any_bytes), st.integers(0, 9), st.booleans())
def test_any_bytes_in_one_record_change_nothing_else(tmp_path_factory, record, i, crlf):
    path = tmp_path_factory.getbasetemp() / "soup.csv"
    end = b"\r\n" if crlf else b"\n"
    path.write_bytes(HEADER[:-1] + end + end.join(at(RECORDS[:10], i, record)) + end)
    found = rows(path)
    assert len(found) == 10
    assert at(found, i, None) == at(CLEAN[:10], i, None)
    assert csv_files.row(record, 4) is not None or found[i] == GONE


@examples(100)
@given(st.lists(st.one_of(soup, any_bytes), min_size=1, max_size=20), st.sampled_from([1, 2**14]))
def test_many_lines_are_judged_as_each_one(tmp_path_factory, records, few):
    """The rule for one line, written plainly, and what is read of a file, however it is cut."""
    path = tmp_path_factory.getbasetemp() / "rule.csv"
    path.write_bytes(b"i,t\n" + b"".join(record + b"\n" for record in records))
    expected = [csv_files.row(record, 2) for record in records]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_files, "_FEW", few)
        found = Files(path).read([SCHEMA["t"]])["t"].to_pylist()
    assert found == [None if cells is None else cells[1].decode() for cells in expected]
    block = b"".join(record + b"\n" for record in records)
    if csv_files.plain(block):
        assert all(csv_files.split(record.removesuffix(b"\r")) for record in records)


def test_no_pair_of_quotes_reaches_over_a_line_end(write):
    assert csv_files.plain(b'"a",1\n"b",2\n')
    assert not csv_files.plain(b'"a\nb",2\n')
    assert rows(write(HEADER + b'1,"a\nb",p,1\n')) == [GONE, GONE]


@examples(67)
@given(st.lists(soup, max_size=8).map(b"\n".join), st.integers(1, 40))
def test_where_a_block_ends_changes_nothing(tmp_path_factory, content, size):
    path = tmp_path_factory.getbasetemp() / "blocks.csv"
    path.write_bytes(HEADER + content)
    expected = rows(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_files, "_BLOCK", size)
        assert rows(path) == expected
    assert len(expected) == content.count(b"\n") + (content[-1:] not in (b"", b"\n"))


@pytest.mark.parametrize("size", [1, 2**23])
def test_a_byte_order_mark_at_the_head_of_a_block_belongs_to_its_cell(size, write, monkeypatch):
    """Only the one before the header is no part of a cell, wherever blocks begin."""
    monkeypatch.setattr(csv_files, "_BLOCK", size)
    mark = csv_files.MARK
    path = write(mark + b"t,a\n" + mark + b"p,1\n" + mark + mark + b"p,2\np,3\n")
    blocks = csv_files.tables(path, [SCHEMA["t"], SCHEMA["a"]])
    found = [record for block in blocks for record in block.to_pylist()]
    texts = ["\ufeffp", "\ufeff\ufeffp", "p"]
    assert found == [{"t": text, "a": i + 1.0} for i, text in enumerate(texts)]


@pytest.mark.parametrize("size", range(1, 13))
def test_the_longest_line(size, write, monkeypatch):
    """12 bytes are read, 13 are not, wherever the pieces end."""
    monkeypatch.setattr(csv_files, "LONGEST", 12)
    monkeypatch.setattr(csv_files, "_BLOCK", size)
    long = [b"1,xxxxx,p,1", b"1,xxxxxx,p,1", b"1,xxxxxxx,p,1", b"1," + b"x" * 99 + b",p,1"]
    told = {"y": True, "a": 1.0, "t": "p"}
    for records in (long, long[::-1]):
        expected = [told if len(record) <= 12 else GONE for record in records]
        assert (
            rows(write(HEADER + b"\n".join(records)))
            == rows(write(HEADER + b"\n".join(records) + b"\n"))
            == expected
        )


cells = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=6)
marked = st.one_of(
    cells,
    st.sampled_from(["p", "q, r", '"', '""', ",", " ", "1", "-2.5", "\ufeffp", "\x85", "\u2028"]),
)


@examples(67)
@given(
    st.lists(st.lists(marked, min_size=3, max_size=3), min_size=1),
    st.sampled_from([0, 1]),
    st.booleans(),
)
def test_well_formed_files_are_read_as_by_python(tmp_path_factory, table, quoting, crlf):
    path, stream = tmp_path_factory.getbasetemp() / "python.csv", io.StringIO(newline="")
    csv.writer(stream, quoting=quoting, lineterminator="\r\n" if crlf else "\n").writerows(
        [["t", "u", "v"], *table]
    )
    path.write_bytes(stream.getvalue().encode())
    wanted = [
        dp.Schema.parse(f'[columns.{name}]\ntype="category"\nlevels=["p","q"]\n')[name]
        for name in "vt"
    ]
    (_, *theirs) = csv.reader(io.StringIO(stream.getvalue(), newline=""), strict=True)
    ours = Files(path).read(wanted).to_pylist()
    assert ours == [{"v": v, "t": t} for t, _, v in theirs]


@examples(17)
@given(st.lists(marked, min_size=1, max_size=4))
def test_numbers_do_not_depend_on_their_neighbours(tmp_path_factory, column):
    """The reader takes numbers at once where all cells of a block fit, and one by one where one
    does not.
    """
    path = tmp_path_factory.getbasetemp() / "numbers.csv"

    def read(*cells):
        quoted = [b'"' + cell.replace('"', '""').encode() + b'",\n' for cell in cells]
        path.write_bytes(b"a,b\n" + b"".join(quoted))
        return Files(path).read([SCHEMA["a"]])["a"].to_pylist()

    column += ["inf", "1e999", "nan", "NA", " 7", "+4", "1_0", "0x1", "1e-3"]
    assert read(*column) == [read(cell)[0] for cell in column]


def test_should_arrow_have_a_rule_of_its_own(write, monkeypatch):
    """Then the lines are read one by one, with the same outcome."""
    path = write(HEADER + b"\n".join(at(RECORDS, 5, DEFECTS["stray quote"])))
    expected = rows(path)
    monkeypatch.setattr(csv_files, "_by_arrow", lambda *_: None)
    assert rows(path) == expected == at(CLEAN, 5, GONE)


def test_a_long_line_is_no_exception(write, monkeypatch):
    """It is longer than what a thread of the reader takes at once, and still read at once with the
    others.
    """
    monkeypatch.setattr(csv_files, "_record_by_record", None)
    assert rows(write(HEADER + b'1,"' + b"x," * 2**20 + b'",p,1\n' + RECORDS[0])) == [
        {"y": True, "a": 1.0, "t": "p"},
        CLEAN[0],
    ]


@pytest.mark.parametrize("note", [b'"note', b"no\rte", b"no\0te", b'no"te', b"," * 2**24], ids=len)
def test_a_malformed_header_is_refused(note, write):
    for act in (Files.read, Files.count, Files.blank):
        with pytest.raises(
            dp.InputError, match="its first line must hold the names of the columns"
        ) as caught:
            act(Files(write(b"a," + note + b",t,y\n1,x,p,1\n")), COLUMNS)
        assert caught.value.__context__ is None


def test_a_file_without_line_feeds_is_refused(write):
    """The line ends of old Macintosh files: the whole file would be the header, and an error might
    quote it.
    """
    with pytest.raises(dp.InputError, match="first line") as caught:
        Files(write(b"a,note,t\r48151623,x,p\r")).read(COLUMNS)
    assert "48151623" not in str(caught.value)


def test_memory_is_about_that_of_the_columns(write):
    """A line that is no row takes no more room than it has bytes, also in a wide file."""
    names = ",".join(["a", "t", "y", *(f"x{j}" for j in range(3000))]).encode()
    table = Files(write(names + b"\n" + b"\n" * 500_000)).read(COLUMNS)
    assert (len(table), table["a"].null_count) == (500_000, 500_000)
    assert table.nbytes < 2**25
    assert np.isnan(table["a"].to_numpy()).all()
