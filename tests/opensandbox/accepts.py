"""What the real server's models and validators accept: the fake refuses the same."""
import re

LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
NAME = re.compile(r"([a-z0-9][a-z0-9.-]{0,252}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def clean(metadata):
    """The docker runtime's rule for labels; the reserved prefix belongs to the server."""
    for key, value in metadata.items():
        if key.startswith("opensandbox.io/"):
            return f"{key}: reserved prefix"
        if not NAME.fullmatch(key):
            return f"{key}: no label name"
        if value is not None and (not isinstance(value, str) or not LABEL.fullmatch(value)):
            return f"{key}: no label value"
    return None


def unfit(body):
    """What the real server's models refuse with a 422; None where the body fits."""
    kinds = {"timeout": int, "env": dict, "metadata": dict, "entrypoint": list, "volumes": list, "extensions": dict,
             "resourceLimits": dict, "networkPolicy": dict, "image": dict, "snapshotId": str}
    if not isinstance(body, dict):
        return "no object"
    wrong = [n for n, kind in kinds.items() if body.get(n) is not None and type(body[n]) is not kind]
    if wrong:
        return f"{wrong[0]}: wrong type"
    if (body.get("timeout") or 60) < 60:
        return "timeout: at least 60"
    if any(not (v.get("host") or {"path": "/"})["path"].startswith("/") for v in body.get("volumes") or []):
        return "volumes: not absolute"
    if body.get("templateId") or (body.get("extensions") or {}).get("poolRef"):
        return None
    image = (body.get("image") or {}).get("uri")
    if bool(image) == bool(body.get("snapshotId")):
        return "exactly one of image or snapshotId"
    if image and not body.get("entrypoint") or body.get("resourceLimits") is None:
        return "entrypoint with an image, and resourceLimits"
    return None
