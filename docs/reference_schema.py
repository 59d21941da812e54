"""sandgate.schema.json; see make_reference.py."""
import reference_exec
from reference_rows import auth_rows, cond_rows, keys

# Patterns of the types of options.def.
TIME = r"^(0|[0-9]+(ms|s|min|m|h|d))$"
SIZE = r"^[0-9]+(B|KiB|MiB|GiB|TiB)?$"
CHOICES = {"algorithm": ["sha256", "sha1", "sha512", "RS256", "ES256"], "encoding": ["hex", "base64"],
           "style": ["basic", "post"], "exchange": ["oauth", "github_app", "none"]}


def option_schema(kind, least, most, default, unit, text):
    schema = {"description": text}
    if kind == "NUMBER":
        number = {"type": "integer", "minimum": int(least), "maximum": int(most)}
        schema.update({"anyOf": [number, {"const": "auto"}]} if default == "auto" else number)
    elif kind == "DURATION":
        schema.update({"anyOf": [{"type": "string", "pattern": TIME}, {"const": 0}]})
    elif kind == "SIZE":
        schema.update({"anyOf": [{"type": "string", "pattern": SIZE},
                                 {"type": "integer", "minimum": 0}]})
    elif kind == "FLAG":
        schema["type"] = "boolean"
    elif kind == "CHOICE":
        schema["enum"] = unit.split("|")
    else:
        schema.update({"type": "string", "maxLength": int(most)})
    if default:
        schema["default"] = default
    return schema


def mapping(properties, required=()):
    out = {"type": "object", "additionalProperties": False, "properties": properties}
    if required:
        out["required"] = list(required)
    return out


def one_or_many(item):
    return {"anyOf": [item, {"type": "array", "items": item}]}


def several(item, most):
    return {"anyOf": [item, {"type": "array", "items": item, "minItems": 1, "maxItems": most}]}


def auth_schema(text, words):
    kinds = []
    for _, word, needs, takes, told in auth_rows():
        properties = {"kind": {"const": word}}
        for key in keys(needs) + keys(takes):
            properties[key] = {"enum": CHOICES[key]} if key in CHOICES else words if key == "scopes" else text
        kinds.append({"description": told, **mapping(properties, ["kind"] + keys(needs))})
    return {"oneOf": kinds}


def connector_schema(text, words, ports):
    allow = {"type": "array", "minItems": 1,
             "items": {**mapping({"methods": words, "paths": words, "query": words}), "minProperties": 1}}
    side = mapping({"add": {"type": "object", "additionalProperties": text}, "strip": words})
    number = {"type": "integer", "minimum": 1, "maximum": 10000000}
    return mapping({
        "name": text, "hosts": words, "ports": ports, "shared_suffix": {"type": "boolean"},
        "upstream": {"type": "string", "pattern": "^https?://"}, "upstream_http": {"enum": ["auto", 1, 2, "1", "2"]},
        "addresses": words, "auth": auth_schema(text, words), "allow": allow, "deny": allow,
        "headers": mapping({"request": side, "response": side}), "redact": {"type": "boolean"},
        "approval": {"enum": ["never", "first", "always"]},
        "limits": mapping({"requests_per_second": number, "requests_burst": number, "concurrent": number,
                           "request_body": {"type": ["integer", "string"]}}),
        "tenant": text, "users": words, "group": text}, ["name", "hosts", "auth", "allow"])


def risk_schema():
    patterns = several({"type": "string", "maxLength": 60}, 1000)
    rule = mapping({"level": {"enum": ["low", "medium", "high"]}, "why": {"type": "string", "maxLength": 200},
                    **{key: {**patterns, "description": text} for key, text in cond_rows()}},
                   ["level", "why"])
    return {"type": "array", "items": {**rule, "minProperties": 3}}


def source_schema(text, words):
    time = {"type": "string", "pattern": TIME}
    item = mapping({"path": text, "field": text, "mount": text, "version": {"type": "integer", "minimum": 1}}, ["path", "field"])
    return mapping({
        "name": text, "url": {"type": "string", "pattern": "^https://"}, "addresses": words, "namespace": text,
        "mount": text, "tenant": text, "refresh": time, "keep": time,
        "auth": mapping({"kind": {"enum": ["token", "approle", "kubernetes"]}, "secret": text, "role": text, "mount": text},
                        ["kind", "secret"]),
        "secrets": {"type": "object", "minProperties": 1, "additionalProperties": item}}, ["name", "url", "auth", "secrets"])


def structure():
    text = {"type": "string"}
    words = one_or_many(text)
    port = {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 65535},
                      {"type": "string", "pattern": "^[0-9]+(-[0-9]+)?$"}]}
    rule = mapping({
        "hosts": words, "cidrs": words, "ports": one_or_many(port),
        "protocol": {"enum": ["http", "tcp"]}, "methods": words, "paths": words,
        "query": words, "addresses": words, "countries": words,
        "asns": one_or_many({"type": ["string", "integer"]}),
        "shared_suffix": {"type": "boolean"}, "any_host": {"type": "boolean"},
        "approval": {"enum": ["never", "first"]}})
    rules = {"type": "array", "items": rule}
    policy = mapping({"mode": {"enum": ["enforce", "observe"]}, "allow": rules, "deny": rules,
                      "connectors": words})
    connector = connector_schema(text, words, one_or_many(port))
    limits = ["connections", "connections_per_second", "connections_burst",
              "requests_per_second", "requests_burst", "bytes"]
    return {
        "listeners": {"type": "array", "items": mapping({
            "name": text, "kind": {"enum": ["transparent", "proxy", "dns", "opensandbox"]}, "address": text,
            "tproxy": {"type": "boolean"}, "plain": {"type": "boolean"}, "tls": mapping({"names": words}),
            "sandbox": text, "token_sha256": {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}},
            ["name", "kind", "address"])},
        "sandboxes": {"type": "array", "items": mapping({
            "id": text, "source": several(text, 8), "token_sha256": {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}, "token": text,
            "user": text, "agent": text, "session": text, "tenant": text, "policy": text,
            "trusts_ca": {"type": "boolean"},
            "limits": mapping({key: {"type": ["integer", "string"]} for key in limits})}, ["id"])},
        "policies": {"type": "object", "additionalProperties": policy},
        "servers": reference_exec.servers(text, words, mapping),
        "connectors": {"anyOf": [connector, {"type": "array", "items": connector}]},
        "tests": {"type": "array", "items": mapping({
            "sandbox": text, "policy": text, "url": text, "method": text,
            "expect": {"enum": ["allow", "deny"]}, "code": text}, ["url", "expect"])},
    }


def schema(rows):
    top = structure()
    for _, key, kind, least, most, default, unit, text in rows:
        one = option_schema(kind, least, most, default, unit, text)
        group, dot, name = key.partition(".")
        if not dot:
            top[key] = one
        else:
            top.setdefault(group, mapping({}))["properties"][name] = one
    words = one_or_many({"type": "string"})
    top["resolver"]["properties"].update(
        servers=words, hosts={"type": "object", "additionalProperties": words})
    top["upstream_proxy"]["properties"]["no_proxy"] = words
    top["admin"]["properties"]["roles"] = {"type": "array", "items": mapping({
        "name": {"type": "string", "pattern": "^[A-Za-z0-9_.@+:|=~-]{1,128}$"}, "uid": {"type": "integer", "minimum": 0},
        "token_sha256": {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"},
        "role": {"enum": ["viewer", "approver", "operator"]}}, ["name", "role"])}
    top["vault"]["properties"]["sources"] = {"type": "array", "items": source_schema({"type": "string"}, words)}
    top["risk"]["properties"]["rules"] = risk_schema()
    port = {"type": ["integer", "string"]}
    top["exec"]["properties"].update(
        reference_exec.lists({"type": "string"}, words, mapping, one_or_many(port)))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "sandgate.yaml", **mapping(top)}
