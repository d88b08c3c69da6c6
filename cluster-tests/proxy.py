"""Links between nodes that a test can cut: one TCP proxy before each node's peer port.

All nodes know each other by the proxies' addresses and listen on their own. A proxy finds out
which node a connection comes from by asking the system whose socket the other end is, so links can
be cut one way between two nodes. A cut link drops what arrives and keeps the connection open, as a
network does that loses every packet; heal() closes the connections that lost bytes, and the nodes
dial anew.
"""

import asyncio
import os
import socket
import struct
import threading

from ports import take_port

CHUNK_BYTES = 1 << 16

# Of <linux/netlink.h>, <linux/sock_diag.h> and <linux/inet_diag.h>, which Python does not have.
SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
REQUEST = 1  # NLM_F_REQUEST
NETLINK_HEADER_BYTES = 16
ANY_STATE = 0xFFFFFFFF
ANY_SOCKET = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)  # any interface, any cookie
INODE_AT = 68  # idiag_inode in struct inet_diag_msg


class Proxies:
    """Proxies for a cluster's peer ports. Make, wire with attach(cluster), and close()."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.nodes = []
        self.servers = []
        self.cuts = set()
        self.change = None  # what a test makes of bytes that pass
        self.delay_s = 0.0  # that all bytes are on their way for
        self.open = {}

    def attach(self, cluster):
        """Before the cluster starts: give it the proxies' addresses."""
        self.nodes = cluster.nodes
        members = {}
        for node in cluster.nodes:
            port = take_port()
            members[node.id] = f"127.0.0.1:{port}"
            node.settings["peer-listen"] = node.peer_address
            future = asyncio.run_coroutine_threadsafe(self.listen(node, port), self.loop)
            future.result(5)
        cluster.set_members(members)

    async def listen(self, node, port):
        async def accepted(reader, writer):
            await self.serve(node, reader, writer)

        self.servers.append(await asyncio.start_server(accepted, "127.0.0.1", port))

    async def serve(self, node, reader, writer):
        far, near = (writer.get_extra_info(name)[1] for name in ("peername", "sockname"))
        source = self.owner(far, near)
        try:
            onward_reader, onward = await asyncio.open_connection("127.0.0.1", node.peer_port)
        except OSError:
            writer.close()
            return
        ends = (writer, onward)
        self.open.setdefault(frozenset((source, node.id)), set()).add(ends)
        await asyncio.gather(
            self.pump((source, node.id), reader, onward),
            self.pump((node.id, source), onward_reader, writer),
        )
        self.open[frozenset((source, node.id))].discard(ends)

    async def pump(self, link, reader, writer):
        """Carry bytes one way; while the link is cut they are lost."""
        lost = False
        try:
            while data := await reader.read(CHUNK_BYTES):
                if link in self.cuts:
                    lost = True
                elif lost:
                    break  # bytes are missing from the stream: it cannot go on
                elif self.delay_s:
                    self.loop.call_later(self.delay_s, writer.write, data)
                else:
                    writer.write(self.change(data) if self.change else data)
                    await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    def owner(self, port, remote_port):
        """The id of the node that has the socket with these ports."""
        inode = socket_inode(port, remote_port)
        for node in self.nodes:
            if node.process is not None and has_inode(node.process.pid, inode):
                return node.id
        return 0

    def cut(self, source, target):
        """Nothing that source sends reaches target any more (on any of their connections)."""
        self.cuts.add((source.id, target.id))

    def isolate(self, node):
        for other in self.nodes:
            if other is not node:
                self.cut(node, other)
                self.cut(other, node)

    def heal(self):
        """All links carry again."""
        pairs = {frozenset(link) for link in self.cuts}
        self.cuts.clear()
        self.loop.call_soon_threadsafe(self.close_pairs, pairs)

    def close_pairs(self, pairs):
        for pair in pairs:
            for ends in list(self.open.get(pair, ())):
                for end in ends:
                    end.close()

    def close(self):
        asyncio.run_coroutine_threadsafe(self.end_tasks(), self.loop).result(5)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()

    async def end_tasks(self):
        for server in self.servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # one turn for the transports to close their sockets


def socket_inode(port, remote_port):
    """The inode of the connected TCP socket on 127.0.0.1 with these ports, None if there is none.
    The system is asked for this one socket (sock_diag(7)): /proc/net/tcp has thousands of lines on
    a busy machine, and no byte passes any link while this thread reads them."""
    here = struct.pack("!4s12x", socket.inet_aton("127.0.0.1"))
    address = struct.pack("!HH16s16s", port, remote_port, here, here) + ANY_SOCKET
    wanted = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, ANY_STATE) + address
    header = struct.pack("=IHHII", NETLINK_HEADER_BYTES + len(wanted), BY_FAMILY, REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as system:
        system.send(header + wanted)
        answer = system.recv(4096)
    if struct.unpack_from("=IH", answer)[1] != BY_FAMILY:
        return None
    return struct.unpack_from("=I", answer, NETLINK_HEADER_BYTES + INODE_AT)[0]


def has_inode(pid, inode):
    directory = f"/proc/{pid}/fd"
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(os.path.join(directory, name)) == f"socket:[{inode}]":
                return True
        except OSError:
            continue
    return False
