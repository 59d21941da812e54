"""What a source of secrets gave is in its reader's memory for a moment, and in the keeper's."""
from conftest import wait_for
from scan import Needles, in_memory
from test_sources import FIRST, World


def test_who_reads_a_source_keeps_nothing_of_it(gate, tmp_path):
    """The token of its login stays, so the scan can find."""
    w = World(gate, tmp_path).approle(source={"refresh": "1h", "keep": "2h"})
    try:
        w.gets(FIRST)
        pids = {r["name"]: r["pid"] for r in w.g.admin()[1]["roles"]}
        token = next(iter(w.bao.tokens))
        needles = Needles(FIRST.encode(), {"value": FIRST.encode()})
        readers = [p for n, p in pids.items() if n.startswith("connector")
                   and in_memory(p, Needles(token.encode(), {"token": token.encode()}))[0]]
        assert len(readers) == 1
        wait_for(lambda: not in_memory(readers[0], needles)[0], 1.5)
        wait_for(lambda: not any(in_memory(p, needles)[0] for n, p in pids.items() if n.startswith("connector")), 1.5)
        assert in_memory(pids["keeper"], needles)[0]
        for name, pid in pids.items():
            if not name.startswith(("keeper", "connector")):
                assert not in_memory(pid, needles)[0], name
    finally:
        w.firm.close()
