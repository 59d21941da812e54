#!/usr/bin/env python3
"""Writes sandgate.yaml.5 and sandgate.schema.json from conf/options.def, auth_kinds.def
and risk_conds.def.

usage: make_reference.py OPTIONS_DEF STATUS_DEF OUT_DIR VERSION

The options are rows of a table that the parser reads too, so the manual and the schema
can't tell of an option that isn't there, or leave one out.
"""
import json
import pathlib
import sys

sys.dont_write_bytecode = True
from reference_manual import manual  # noqa: E402
from reference_rows import read_rows  # noqa: E402
from reference_schema import schema  # noqa: E402


def main():
    options, status, out_dir, version = sys.argv[1:5]
    rows = read_rows(options, "OPTION")
    out = pathlib.Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    (out / "sandgate.yaml.5").write_text(manual(rows, read_rows(status, "STATUS"), version))
    (out / "sandgate.schema.json").write_text(json.dumps(schema(rows), indent=1) + "\n")


if __name__ == "__main__":
    main()
