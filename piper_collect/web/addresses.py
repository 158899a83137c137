"""By which names and addresses this machine can be reached: for the certificate, and to tell a person."""

import ipaddress
import socket
import struct
import sys

_SIOCGIFADDR = 0x8915  # Linux, netdevice(7)
_NOWHERE = ("192.0.2.1", 9)  # RFC 5737; connecting a UDP socket sends nothing


def own_names() -> tuple[str, ...]:
    """Host names: ``localhost``, the machine's own name, and that in mDNS."""
    host = socket.gethostname().lower().rstrip(".")
    names = ["localhost"]
    if host and host not in names:
        names.append(host)
        if "." not in host:
            names.append(f"{host}.local")
    return tuple(names)


def own_addresses() -> tuple[str, ...]:
    """IPv4 addresses of the machine's interfaces, those of a network before the loopback."""
    found = set(_interface_addresses() if sys.platform == "linux" else _routed_address())
    found.add("127.0.0.1")
    return tuple(sorted(found, key=lambda text: (ipaddress.ip_address(text).is_loopback, text)))


def is_address(host: str) -> bool:
    """Whether ``host`` is an IP address and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether ``host`` is an address of the loopback interface."""
    return is_address(host) and ipaddress.ip_address(host).is_loopback


def _interface_addresses() -> list[str]:
    import fcntl

    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:
                continue  # an interface without an IPv4 address
            found.append(socket.inet_ntoa(answer[20:24]))
    return found


def _routed_address() -> list[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_NOWHERE)
        except OSError:
            return []
        return [str(probe.getsockname()[0])]
