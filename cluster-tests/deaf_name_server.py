#!/usr/bin/python3
"""deaf_name_server.py - run a command where the name server hears everything and answers nothing.

    unshare --net --mount deaf_name_server.py RESOLV_CONF COMMAND...

In namespaces of its own, which the caller makes, /etc/resolv.conf is covered by the file
RESOLV_CONF (made here), and a socket that nobody reads takes what is sent to the name server. The
command keeps the process's id. Fails with 125 where that is not allowed.
"""

import fcntl
import os
import socket
import struct
import subprocess
import sys

SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 1


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def main():
    resolv_conf, command = sys.argv[1], sys.argv[2:]
    try:
        with open(resolv_conf, "w", encoding="ascii") as file:
            file.write("nameserver 127.0.0.1\n")
        subprocess.run(["mount", "--bind", resolv_conf, "/etc/resolv.conf"], check=True)
        loopback_up()
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind(("127.0.0.1", 53))
        server.set_inheritable(True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"deaf_name_server: {error}", file=sys.stderr)
        sys.exit(125)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
