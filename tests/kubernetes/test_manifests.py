"""conf/kubernetes against Kubernetes' own schemas, `sandgate check`, and itself."""
import copy
import hashlib
import json
import subprocess

import packages
import pytest
import yaml
from conftest import ROOT, absent, flow

FILES = sorted((ROOT / "conf/kubernetes").glob("*.yaml"))
VERSIONS = ["1.29", "1.37"]  # the oldest that runs sidecar.yaml as it is, and the newest
GATEWAY = 65532
POD_IPS = '10.244.1.7", "fd00:10:244::7'


def documents(path):
    return list(yaml.safe_load_all(path.read_text()))


ALL = [pytest.param(d, id=f"{p.stem}-{d['kind']}-{d['metadata']['name']}") for p in FILES for d in documents(p)]


def of(name, kind, wanted=None):
    found, = [d for d in documents(ROOT / "conf/kubernetes" / name)
              if d["kind"] == kind and wanted in (None, d["metadata"]["name"])]
    return found


def pod(d):
    return d["spec"] if d["kind"] == "Pod" else d["spec"].get("template", {}).get("spec")


PODS = [pytest.param(p.values[0], id=p.id) for p in ALL if p.values[0]["kind"] in ("Pod", "DaemonSet", "Deployment")]


def containers(spec):
    return {c["name"]: c for c in spec.get("initContainers", []) + spec["containers"]}


def config_of(name):
    return of(name, "ConfigMap")["data"]["sandgate.yaml"].replace("@POD_IPS@", POD_IPS)


@pytest.fixture(scope="module")
def wrong():
    """wrong(documents): a list of complaints for each."""
    try:
        python = packages.bring()
    except packages.Missing as why:
        absent("Kubernetes' schemas", why)

    def ask(what):
        done = subprocess.run([python, ROOT / "tests/kubernetes/schema.py", *VERSIONS], input=json.dumps(what),
                              capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask


def test_every_manifest_is_what_kubernetes_knows(wrong):
    what = [p.values[0] for p in ALL]
    assert len(what) >= 15
    assert {p.id: said for p, said in zip(ALL, wrong(what)) if said} == {}


def test_a_field_that_kubernetes_does_not_know_is_found(wrong):
    good = of("gateway.yaml", "DaemonSet")
    misspelt, typed = copy.deepcopy(good), copy.deepcopy(good)
    security = pod(misspelt)["containers"][0]["securityContext"]
    security["readOnlyRootFileSystem"] = security.pop("readOnlyRootFilesystem")
    pod(typed)["terminationGracePeriodSeconds"] = "45 s"
    assert [bool(said) for said in wrong([good, misspelt, typed])] == [False, True, True]


@pytest.mark.parametrize("name", ["gateway.yaml", "sidecar.yaml"])
def test_the_configuration_inside_holds_with_its_tests(name, tmp_path):
    path = tmp_path / "sandgate.yaml"
    path.write_text(config_of(name))
    done = subprocess.run([flow.BIN / "sandgate", "check", "-c", path, "--werror"], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"0 of {len(yaml.safe_load(config_of(name))['tests'])} tests failed" in done.stdout


@pytest.mark.parametrize("d", PODS)
def test_no_container_may_more_than_it_needs(d):
    spec = pod(d)
    assert spec["automountServiceAccountToken"] is False
    assert not any(spec.get(k) for k in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"))
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    may = {"state": ["CHOWN"], "redirect": ["NET_ADMIN"]}
    for name, c in containers(spec).items():
        security = {**spec["securityContext"], **c["securityContext"]}
        assert security["allowPrivilegeEscalation"] is False and security["readOnlyRootFilesystem"] is True
        assert "privileged" not in security
        assert security["capabilities"].pop("add", []) == may.get(name, [])
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert (security["runAsUser"] == 0) == (name in may)
        if name not in may:
            assert security["runAsNonRoot"] is True
        assert (security["runAsUser"] == GATEWAY) == (name in ("sandgate", "trust"))
        assert "memory" in c["resources"]["limits"]


@pytest.mark.parametrize("d", PODS)
def test_what_is_mounted_is_there_and_secrets_are_the_gateways(d):
    spec = pod(d)
    volumes = {v["name"]: v for v in spec["volumes"]}
    used = {m["name"] for c in containers(spec).values() for m in c["volumeMounts"]}
    assert used == set(volumes)
    for name, c in containers(spec).items():
        holds = [m["name"] for m in c["volumeMounts"] if "secret" in volumes[m["name"]]]
        assert holds == (["vault"] if name == "sandgate" else [])
        if name == "sandbox":
            assert {m["name"] for m in c["volumeMounts"]} <= {"ca", "trust", "work", "tmp"}
            assert all(m.get("readOnly") for m in c["volumeMounts"] if m["name"] in ("ca", "trust"))


@pytest.mark.parametrize("name, secret", [("gateway.yaml", "sandgate-vault"), ("sidecar.yaml", "sandgate-sidecar-vault")])
def test_the_secrets_that_the_configuration_names_are_in_the_secret(name, secret):
    config = yaml.safe_load(config_of(name))
    named = {c["auth"]["secret"] for c in config["connectors"]}
    assert named == {f"files/{key}" for key in of(name, "Secret", secret)["stringData"]}


def test_sandboxes_reach_the_ports_of_the_gateway_and_nothing_else():
    config = yaml.safe_load(config_of("gateway.yaml"))
    kinds = {listener["kind"]: int(listener["address"].rsplit(":", 1)[1]) for listener in config["listeners"]}
    ports = {("TCP", kinds["proxy"]), ("UDP", kinds["dns"]), ("TCP", kinds["dns"])}
    container, = pod(of("gateway.yaml", "DaemonSet"))["containers"]
    named = {p["name"]: (p.get("protocol", "TCP"), p["containerPort"]) for p in container["ports"]}
    service = of("gateway.yaml", "Service")["spec"]
    assert set(named.values()) == ports
    assert {(p.get("protocol", "TCP"), named[p["targetPort"]][1]) for p in service["ports"]} == ports
    assert service["internalTrafficPolicy"] == "Local"
    nothing, way = of("gateway.yaml", "NetworkPolicy", "nothing"), of("gateway.yaml", "NetworkPolicy", "to-sandgate")
    assert nothing["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    rule, = way["spec"]["egress"]
    assert {(p["protocol"], p["port"]) for p in rule["ports"]} == ports
    assert rule["to"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "sandgate"}},
                           "podSelector": {"matchLabels": service["selector"]}}]
    address = service["clusterIP"]
    box, secret = of("sandbox.yaml", "Pod")["spec"], of("sandbox.yaml", "Secret")["stringData"]["proxy"]
    assert config["listeners"][0]["tls"]["names"] == [address] == box["dnsConfig"]["nameservers"]
    token = secret.removeprefix("https://demo:").removesuffix(f"@{address}:{kinds['proxy']}")
    assert hashlib.sha256(token.encode()).hexdigest() == config["sandboxes"][0]["token_sha256"]
    assert box["dnsPolicy"] == "None"


def test_the_sandbox_beside_a_sidecar_starts_behind_the_rules_and_the_gateway():
    spec = pod(of("sidecar.yaml", "Deployment"))
    assert [c["name"] for c in spec["initContainers"]] == ["redirect", "sandgate", "trust"]
    gateway = spec["initContainers"][1]
    assert gateway["restartPolicy"] == "Always" and gateway["startupProbe"] and gateway["readinessProbe"]
    assert [c["name"] for c in spec["containers"]] == ["sandbox"]


def test_examples_are_installed():
    assert "../conf/kubernetes" in (ROOT / "docs/CMakeLists.txt").read_text()
