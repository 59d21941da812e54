"""The oracle itself: what would leave is seen.  Without this its zeros would say nothing."""
import socket
import time

import world as w


def test_every_flow_to_elsewhere_is_counted_and_noted(battery):
    battery.check_leaks()
    for address in ("10.0.0.5", "127.0.0.1", "169.254.169.254", w.EVIL, "203.0.113.9", w.BOX4):
        with socket.socket() as s:
            s.settimeout(0.3)
            try:
                s.connect((address, 80))
            except OSError:
                pass
    for address in ("::1", "fd00:ec2::254", "2606:2800:220:1::66"):
        with socket.socket(socket.AF_INET6) as s:
            s.connect((address, 443))
    with socket.socket() as s:
        s.connect((w.OK, 22))
    with socket.socket(type=socket.SOCK_DGRAM) as s:
        s.sendto(b"x", ("8.8.8.8", 53))
        s.sendto(b"x", ("127.0.0.1", 53))
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, 132) as s:
        s.sendto(bytes(40), ("8.8.8.8", 0))
    time.sleep(0.2)
    packets, where = battery.world.leaks()
    assert packets >= 13 and {"10.0.0.5:80", "169.254.169.254:80", f"{w.OK}:22"} <= set(where), (packets, where)
    assert len([x for x in where if x.startswith("v6")]) == 3
    battery.world.forget()
    battery.check_leaks()
    with socket.socket() as s:
        s.connect((w.OK, 80))
    battery.check_leaks()
