"""The rows of the tables that the programs themselves read; see make_reference.py."""
import pathlib
import re

CONF = pathlib.Path(__file__).resolve().parent.parent / "conf"
# What a row looks like, by its first word.
ROWS = {
    "OPTION": re.compile(
        r'^OPTION\((\w+),\s*"([^"]*)",\s*(\w+),\s*(\d+),\s*(\d+),\s*"([^"]*)",\s*'
        r'"([^"]*)",\s*"([^"]*)"\)', re.M),
    "STATUS": re.compile(
        r'^STATUS\((\w+),\s*"([^"]*)",\s*(\d+),\s*\d+,\s*\d+,\s*\d+,\s*"([^"]*)",\s*"([^"]*)"\)',
        re.M),
    "AUTH": re.compile(r'^AUTH\((\w+),\s*"([^"]*)",\s*"([^"]*)",\s*"([^"]*)",\s*"([^"]*)"\)', re.M),
    "COND": re.compile(r'^COND\(\w+,\s*"([^"]*)",\s*"([^"]*)"\)', re.M),
}


def read_rows(path, word):
    text = pathlib.Path(path).read_text()
    rows = ROWS[word].findall(text)
    told = len(re.findall(rf"^{word}\(\w+, ", text, re.M))
    assert len(rows) == told, f"{path}: {told - len(rows)} rows were not understood"
    return rows


def auth_rows():
    return read_rows(CONF / "auth_kinds.def", "AUTH")


def cond_rows():
    return read_rows(CONF / "risk_conds.def", "COND")


def keys(text):
    return text.split("|") if text else []
