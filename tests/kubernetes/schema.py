"""Runs in the venv: documents as JSON on standard input, what is wrong with each on output.

usage: schema.py VERSION...
"""
import json
import sys

import kubernetes_validate


def wrong(document, version):
    try:
        kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.ValidationError as why:
        return f"{version}: {'.'.join(str(p) for p in why.path)}: {why.message}"
    except kubernetes_validate.SchemaNotFoundError as why:
        return f"{version}: {why.message}"
    return None


print(json.dumps([[said for version in sys.argv[1:] if (said := wrong(document, version))]
                  for document in json.load(sys.stdin)]))
