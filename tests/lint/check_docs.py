#!/usr/bin/env python3
"""Documents and tables agree.  usage: check_docs.py ROOT

- every option, code and command is in its manual; options that manual and sources name are
  the same; the version is one
- the forms of a secret that are promised to be masked are those that are looked for
- what the documents say: links lead somewhere, commands and options in `sh` blocks exist,
  asks, roles and tests that are named exist
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(ROOT / "docs"))
sys.dont_write_bytecode = True
import reference_manual  # noqa: E402  (its folder is known only now)
import reference_rows  # noqa: E402

MANUAL = ROOT / "docs/man/sandgate.1"
PAPERS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/notes").glob("*.md"))]
bad = []


def say(path, what):
    bad.append(f"{path.relative_to(ROOT)}: {what}")


def plain(roff):
    """roff as a reader sees it, nearly."""
    return re.sub(r"\\f.|\\&", "", roff).replace("\\-", "-").replace("\\ ", " ")


def commands():
    return re.findall(r"^COMMAND\((\w+),", (ROOT / "proxy/cli/cmds.def").read_text(), re.M)


def source_options():
    """Command -> the long options that its source takes."""
    shared = {"config", "state", "json"}
    table = re.compile(r'^\s*\{ "([a-z-]+)", (?:no|required)_argument|^\s*\{ (?:\'.\'|0), "([a-z-]+)", ', re.M)
    out = {}
    for name in commands():
        folder = ROOT / "proxy/cli"
        texts = [p.read_text() for p in folder.glob(f"{name}*.c") if p.stem == name or p.stem.startswith(name + "_")]
        found = {a or b for text in texts for a, b in table.findall(text)}
        if any("options_read(" in text for text in texts):
            found |= shared
        if any("by_id_command(" in text for text in texts):
            found |= {"config", "state", "sandbox"}
        out[name] = found - {"help"}
    return out


def check_manual():
    text = plain(MANUAL.read_text())
    version = re.search(r"project\(sandgate VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    if f'"sandgate {version}"' not in text:
        say(MANUAL, f"is not of version {version}")
    if f"sandgate {version}\n" not in (ROOT / "CHANGES").read_text():
        say(ROOT / "CHANGES", f"nothing about {version}")
    for name, options in source_options().items():
        if not re.search(rf"^\.B {name}\b", text, re.M):
            say(MANUAL, f"command {name} is missing")
        for option in options:
            if f"--{option}" not in text:
                say(MANUAL, f"{name} --{option} is missing")
    known = set().union(*source_options().values()) | {"help", "version"}
    for option in set(re.findall(r"--([a-z][a-z-]+)", text)) - known:
        say(MANUAL, f"--{option} does not exist")


def check_reference():
    rows = reference_rows.read_rows(ROOT / "conf/options.def", "OPTION")
    statuses = reference_rows.read_rows(ROOT / "proxy/base/status.def", "STATUS")
    text = plain(reference_manual.manual(rows, statuses, "0"))
    for _, key, *_, help_text in rows:
        if not help_text.strip().endswith("."):
            say(ROOT / "conf/options.def", f"{key} has no help")
        if f".B {key}\n" not in text:
            say(ROOT / "conf/options.def", f"{key} is not in the manual")
    for _, code, *_ in statuses:
        if code not in ("ok", "again", "end") and f".B {code}\n" not in text:
            say(ROOT / "proxy/base/status.def", f"{code} is not in the manual")


def check_links(path, text):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not re.match(r"[a-z]+:", target) and not (path.parent / target).exists():
            say(path, f"link to {target}, which is not there")


def check_shell(path, text):
    known, options = set(commands()), source_options()
    spoken = re.findall(r"```sh\n(.*?)```", text, re.S) + re.findall(r"`(sandgate [^`]+|\./dev [^`]+)`", text)
    parts = set(re.findall(r"^(\w+)[,)]", (ROOT / "dev").read_text(), re.M)) | {"fmt", "lint"}
    for line in "\n".join(spoken).split("\n"):
        for word in re.findall(r"(?:^|\s)\./dev (\w+)", line):
            if word not in parts:
                say(path, f"./dev {word} does not exist")
        for name, rest in re.findall(r"(?:^|[$|\s])sandgate ([a-z]+)([^|#]*)", line):
            if name not in known:
                say(path, f"sandgate {name} does not exist")
                continue
            for option in re.findall(r"\s--([a-z][a-z-]+)", rest.split(" -- ")[0]):
                if option not in options[name]:
                    say(path, f"sandgate {name} --{option} does not exist")


def check_names(path, text):
    """Tests and files that are named in code quotes exist."""
    tests = "\n".join(p.read_text() for p in sorted((ROOT / "tests").rglob("*.py")) + sorted((ROOT / "tests").rglob("*.c")))
    for name in re.findall(r"`(test_\w+)`", text):
        if not re.search(rf"\b{name}\b", tests) and not list((ROOT / "tests").rglob(name + ".*")):
            say(path, f"test {name} does not exist")
    tops = "proxy|conf|filters|connectors|vault|tests|docs"
    parts = re.findall(r"^def part_(\w+)", (ROOT / "tests/run.py").read_text(), re.M)
    for name in re.findall(rf"`((?:{tops})/[\w./-]+)`", text):
        if "NOUN" in name or name.strip("/").removeprefix("tests/") in parts:
            continue  # a pattern; a part, which fails by itself when it has no tests
        if not (ROOT / name).exists():
            say(path, f"{name} is not there")


def check_architecture():
    path = ROOT / "docs/ARCHITECTURE.md"
    text = path.read_text()
    asks = re.findall(r"^ASK\((\w+),", (ROOT / "proxy/io/asks.def").read_text(), re.M)
    roles = re.findall(r'^ROLE\(\w+, "([\w-]+)"', (ROOT / "proxy/io/roles.def").read_text(), re.M)
    for name in asks + roles:
        if not re.search(rf"\b{name}\b", text):
            say(path, f"{name} is missing")


def check_forms():
    """docs/THREATS.md promises just what proxy/base/needle.def looks for."""
    path = ROOT / "docs/THREATS.md"
    table = re.search(r"\| form \| what is found \|\n\|---\|---\|\n((?:\|.*\n)+)", path.read_text())
    told = re.findall(r"^\| (.*?) \| (.*) \|$", table.group(1).replace("`", ""), re.M) if table else []
    rows = re.findall(r'^FORM\(\w+, "([^"]+)", "((?:\\.|[^"])*)"\)$',
                      (ROOT / "proxy/base/needle.def").read_text(), re.M)
    looked_for = [(word, re.sub(r"\\(.)", r"\1", text)) for word, text in rows]
    if not rows or told != looked_for:
        say(path, f"the forms are told as {told}, needle.def says {looked_for}")


def main():
    check_manual()
    check_forms()
    check_reference()
    check_architecture()
    for path in PAPERS:
        text = path.read_text()
        check_links(path, text)
        check_shell(path, text)
        check_names(path, text)
    print("\n".join(bad) or f"{len(PAPERS)} documents and {len(commands())} commands agree with the sources")
    return bool(bad)


sys.exit(main())
