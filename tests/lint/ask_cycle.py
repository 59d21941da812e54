#!/usr/bin/env python3
"""Fail when the graph of who asks whom has a cycle: two roles that wait for each other
would stand still for ever.  Super stands outside: it only hands things out.
usage: ask_cycle.py SOURCE_ROOT"""
import pathlib
import re
import sys

IO = pathlib.Path(sys.argv[1]) / "proxy/io"
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def rows(name, word):
    text = COMMENT.sub("", (IO / name).read_text())
    return [[cell.strip() for cell in row.split(",")] for row in re.findall(rf"^{word}\((.*)\)$", text, re.M)]


def find_cycle(graph):
    done, path = set(), []

    def visit(role):
        if role in path:
            return path[path.index(role):] + [role]
        if role in done:
            return None
        path.append(role)
        for other in sorted(graph.get(role, ())):
            cycle = visit(other)
            if cycle:
                return cycle
        path.pop()
        done.add(role)
        return None

    return next((c for c in map(visit, sorted(graph)) if c), None)


def main():
    roles = {row[0] for row in rows("roles.def", "ROLE")}
    asks, bad, graph = rows("asks.def", "ASK"), [], {}
    for name, asker, answerer, size, fds, back_fds, _, _ in asks:
        bad += [f"{name}: no role {r}" for r in (asker, answerer) if r not in roles | {"ANY"}]
        if int(size) > 65536 or int(fds) > 16 or int(back_fds) > 16:
            bad.append(f"{name}: more than a packet takes (ASK_BODY_MAX, ASK_FDS_MAX)")
        if "SUPER" not in (asker, answerer):
            graph.setdefault(asker, set()).add(answerer)
    cycle = find_cycle(graph)
    if cycle:
        bad.append("cycle: " + " -> ".join(cycle))
    if not asks or not roles:
        bad.append("the tables could not be read")
    print("\n".join(bad) or f"{len(asks)} asks, no cycle")
    return bool(bad)


sys.exit(main())
