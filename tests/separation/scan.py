"""Looks for texts in all forms, in the memory of processes and wherever bytes lie."""
import base64
import json
import re
import urllib.parse

CHUNK, OVERLAP = 16 << 20, 4096
NOT_MEMORY = ("[vvar]", "[vvar_vclock]", "[vsyscall]")  # the kernel's clocks


def base64_inside(text, before, encode):
    """What base64 shows of the text, whatever stands around it, with so many octets before it in its group."""
    shown = encode(bytes(before) + text).decode()
    return shown[-(-before * 4 // 3):(before + len(text)) * 4 // 3].encode()


def forms(text):
    """{name of the form: octets}"""
    found = {"plain": text}
    for before in range(3):
        found[f"base64+{before}"] = base64_inside(text, before, base64.b64encode)
        found[f"base64url+{before}"] = base64_inside(text, before, base64.urlsafe_b64encode)
    for name, digits in (("hex", "%02x"), ("HEX", "%02X"), ("percent", "%%%02x"), ("PERCENT", "%%%02X"),
                         ("json", "\\u%04x"), ("JSON", "\\u%04X")):
        found[name] = "".join(digits % c for c in text).encode()
    return found


class Needles:
    """Texts that all begin with `common`, which is looked for first because it is rare."""

    def __init__(self, common, texts):
        self.first = sorted(set(forms(common).values()))
        self.all = [(name, form, octets) for name, text in texts.items() for form, octets in forms(text).items()]

    def found(self, data, want=None):
        """{(name, form)} of what is in there, of the names wanted."""
        if not any(octets in data for octets in self.first):
            return set()
        return {(n, f) for n, f, octets in self.all if (want is None or n in want) and octets in data}


def mappings(pid):
    with open(f"/proc/{pid}/maps") as f:
        for line in f:
            words = line.split(None, 5)
            low, high = (int(x, 16) for x in words[0].split("-"))
            name = words[5].strip() if len(words) > 5 else ""
            if words[1][0] == "r" and name not in NOT_MEMORY:
                yield low, high, name


def in_memory(pid, needles, want=None):
    """({(name, form, mapping)}, octets read, names of mappings that even root can't read)"""
    found, count, closed = set(), 0, set()
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for low, high, name in list(mappings(pid)):
            for at in range(low, high, CHUNK):
                try:
                    memory.seek(at)
                    data = memory.read(min(CHUNK + OVERLAP, high - at))
                except OSError:
                    closed.add(name)
                    break
                count += len(data)
                found |= {(*f, name or "anonymous") for f in needles.found(data, want)}
    return found, count, closed


def in_files(folder, needles):
    """({(path, name, form)}, number of files)"""
    files = [p for p in folder.rglob("*") if p.is_file()]
    return {(str(p), *f) for p in files for f in needles.found(p.read_bytes())}, len(files)


def spellings(text):
    """As programs spell it, to see that the scanner finds each."""
    octets = text.encode()
    return {
        "plain": octets, "hex": octets.hex().encode(), "HEX": octets.hex().upper().encode(),
        "percent": re.sub(b"..", lambda m: b"%" + m[0], octets.hex().encode()),
        "PERCENT": re.sub(b"..", lambda m: b"%" + m[0], octets.hex().upper().encode()),
        "json": b"".join(b"\\u00%02x" % c for c in octets), "JSON": b"".join(b"\\u00%02X" % c for c in octets),
        **{f"base64+{n}": base64.b64encode(b"abc"[:n] + octets + b"zz") for n in range(3)},
        **{f"base64url+{n}": base64.urlsafe_b64encode(b"abc"[:n] + octets + b"zz") for n in range(3)},
        "query": urllib.parse.quote(text, safe="").encode(), "JSON text": json.dumps(text).encode(),
    }
