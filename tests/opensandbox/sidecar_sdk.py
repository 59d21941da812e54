"""The official Python SDK, told what to do by lines of JSON: [name of a function below, arguments].
Each is answered by a line: {"ok": value} or {"error": class, "status": HTTP}.

usage: sidecar_sdk.py URL KEY
"""
import datetime
import json
import sys
import time

from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.models.sandboxes import (Credential, CredentialAuth, CredentialBinding, CredentialMatch,
                                          CredentialProxyConfig, NetworkPolicy, NetworkRule)
from opensandbox.sync.sandbox import SandboxSync

BOXES = {}


def rules(pairs):
    return [NetworkRule(action=action, target=target) for action, target in pairs]


def told(policy):
    return [policy.default_action, [[r.action, r.target] for r in policy.egress or []]]


def create(name, default, pairs, intercepts=False, env=None):
    more = {"credential_proxy": CredentialProxyConfig(enabled=True)} if intercepts else {}
    BOXES[name] = SandboxSync.create(
        "sg/base:local", connection_config=CONFIG, resource={"cpu": "1", "memory": "256Mi"}, env=env or {},
        timeout=datetime.timedelta(minutes=10),
        network_policy=NetworkPolicy(default_action=default, egress=rules(pairs)), **more)
    return BOXES[name].id


def run(name, command):
    ran = BOXES[name].commands.run(command)
    return [ran.exit_code, "".join(m.text for m in ran.logs.stdout), "".join(m.text for m in ran.logs.stderr)]


def policy(name):
    return told(BOXES[name].get_egress_policy())


def patch(name, pairs):
    BOXES[name].patch_egress_rules(rules(pairs))
    return policy(name)


def drop(name, targets):
    BOXES[name].delete_egress_rules(targets)
    return policy(name)


def endpoint(name, port):
    at = BOXES[name].get_endpoint(port)
    return [at.endpoint, at.headers or {}]


def state(vault):
    return [vault.revision, [c.name for c in vault.credentials], [b.name for b in vault.bindings]]


def vault_create(name, value, host):
    return state(BOXES[name].credential_vault.create(
        credentials=[Credential(name="key", source={"type": "inline", "value": value})],
        bindings=[CredentialBinding(name="to", match=CredentialMatch(hosts=[host]),
                                    auth=CredentialAuth(type="bearer", credential="key"))]))


def vault_get(name):
    return state(BOXES[name].credential_vault.get())


def vault_delete(name):
    return BOXES[name].credential_vault.delete()


def kill(name):
    began = time.monotonic()
    BOXES.pop(name).kill()
    return time.monotonic() - began


if __name__ == "__main__":
    CONFIG = ConnectionConfigSync(domain=sys.argv[1].partition("://")[2], protocol="http", api_key=sys.argv[2])
    for line in sys.stdin:
        function, *arguments = json.loads(line)
        try:
            answer = {"ok": globals()[function](*arguments)}
        except Exception as why:
            answer = {"error": type(why).__name__, "status": getattr(why, "status_code", None), "text": str(why)[:300]}
        print(json.dumps(answer), flush=True)
