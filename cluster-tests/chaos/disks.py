"""The nodes' disks: file systems of their own, rules for disk_shim.c, and damage to data files.

Where it can be (root, loop devices, ext4) each node's data lie on a small file system in an image
file, mounted in a mount namespace that is this run's alone: such a disk can be filled to the last
byte, and its power can be cut (what was not synced is gone). Elsewhere the data lie in a plain
directory, and only the shim makes disks fail.

The happy path: disk = Disk(node, images=...); disk.prefix() goes in front of leafd's command;
disk.rules("sync delay_ms=50") while it runs, disk.rules("") to end it.
"""

import errno
import fcntl
import os
import random
import shutil
import struct
import subprocess

IMAGE_BYTES = 192 << 20
PAGE_BYTES = 4096
EXT4_IOC_SHUTDOWN = 0x8004587D
NOLOGFLUSH = 2


def build_shim(directory):
    """Compile the shim; its path."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "disk_shim.c")
    path = os.path.join(str(directory), "disk_shim.so")
    command = ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared"]
    subprocess.run([*command, "-fvisibility=hidden", "-o", path, source, "-ldl"], check=True)
    return path


def images_work(directory):
    """Can this process mount an ext4 of its own, and cut its power?"""
    image, mount = os.path.join(directory, "probe.img"), os.path.join(directory, "probe")
    os.makedirs(mount, exist_ok=True)
    try:
        make_image(image)
        subprocess.run(["mount", "-o", "loop", image, mount], check=True, capture_output=True)
        try:
            cut_power(mount)
        finally:
            subprocess.run(["umount", mount], check=True, capture_output=True)
        return True
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        os.rmdir(mount)
        if os.path.exists(image):
            os.unlink(image)


def make_image(path):
    with open(path, "wb") as image:
        image.truncate(IMAGE_BYTES)
    command = ["mkfs.ext4", "-q", "-F", "-m", "0", path]
    subprocess.run(command, check=True, capture_output=True)


def cut_power(mount):
    """The file system stops as it would without power: nothing reaches the disk any more."""
    handle = os.open(mount, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, EXT4_IOC_SHUTDOWN, struct.pack("I", NOLOGFLUSH))
    finally:
        os.close(handle)


class Disk:
    """The disk of one node."""

    def __init__(self, node, shim, images):
        self.node = node
        self.shim = shim
        self.image = os.path.join(node.directory, "disk.img") if images else None
        self.mount_point = os.path.join(node.directory, "disk")
        self.rules_path = os.path.join(node.directory, "disk.rules")
        self.ballast = os.path.join(self.mount_point, "ballast")
        os.makedirs(self.mount_point, exist_ok=True)
        node.data_dir = os.path.join(self.mount_point, "data")
        if self.image:
            make_image(self.image)
            self.mount()
        self.rules("")

    def environment(self, seed):
        return [
            f"DISK_SHIM_DIR={os.path.realpath(self.mount_point)}",
            f"DISK_SHIM_RULES={self.rules_path}",
            f"DISK_SHIM_SEED={seed}",
        ]

    def rules(self, text):
        """What the shim does from now on."""
        with open(self.rules_path + ".new", "w", encoding="ascii") as file:
            file.write(text)
        os.replace(self.rules_path + ".new", self.rules_path)

    def struck(self):
        """The lines on what the shim has made to fail so far."""
        try:
            with open(self.rules_path + ".log", encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def data_file(self):
        return os.path.join(self.node.data_dir, "db", "data.mdb")

    # --- a file system of its own ---

    def mount(self):
        command = ["mount", "-o", "loop,noatime", self.image, self.mount_point]
        subprocess.run(command, check=True, capture_output=True)

    def unmount(self):
        subprocess.run(["umount", self.mount_point], check=True, capture_output=True)

    def fill(self, leave_bytes):
        """Take all space but so much."""
        handle = os.open(self.ballast, os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            space = os.statvfs(self.mount_point)
            size = os.fstat(handle).st_size + space.f_bavail * space.f_frsize - leave_bytes
            os.posix_fallocate(handle, 0, max(size, 1))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        finally:
            os.close(handle)
        if leave_bytes == 0:
            self.fill_rest()

    def fill_rest(self):
        """The last blocks, which a large piece did not get."""
        handle = os.open(self.ballast, os.O_WRONLY | os.O_APPEND)
        try:
            while True:
                os.write(handle, bytes(PAGE_BYTES))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        finally:
            os.close(handle)

    def free(self):
        if os.path.exists(self.ballast):
            os.unlink(self.ballast)
            sync_path(self.mount_point)

    def cut_power(self):
        """The node's process is killed by the caller; then restore_power()."""
        cut_power(self.mount_point)

    def restore_power(self):
        self.unmount()
        self.mount()

    # --- damage, while the node is down ---

    def keep_copy(self):
        shutil.rmtree(self.copy_path(), ignore_errors=True)
        shutil.copytree(self.node.data_dir, self.copy_path())

    def copy_path(self):
        return os.path.join(self.node.directory, "data.before-damage")

    def put_back(self):
        shutil.rmtree(self.node.data_dir)
        shutil.copytree(self.copy_path(), self.node.data_dir)
        sync_tree(self.node.data_dir)
        shutil.rmtree(self.copy_path())

    def move_away(self):
        """As an operator does with data that are lost: out of the way, for whoever looks later."""
        number = 1
        while os.path.exists(lost := os.path.join(self.node.directory, f"data.lost-{number}")):
            number += 1
        shutil.copytree(self.node.data_dir, lost)
        shutil.rmtree(self.node.data_dir)
        return lost

    def damage(self, how, seed):
        """Damage the data file. Returns a text on what was done."""
        path = self.data_file()
        size = os.path.getsize(path)
        source = random.Random(seed)
        if how == "missing":
            os.unlink(path)
        elif how == "empty":
            os.truncate(path, 0)
        elif how == "cut":
            # So much of it that pages in use are gone.
            os.truncate(path, source.randrange(1, size // PAGE_BYTES // 4 + 2) * PAGE_BYTES)
        elif how == "torn":
            os.truncate(path, size - source.randrange(1, PAGE_BYTES))
        elif how == "zeros":
            first = source.randrange(size // PAGE_BYTES // 2)
            overwrite(path, first * PAGE_BYTES, bytes(size // 2))
        elif how == "meta":
            overwrite(path, 0, source.randbytes(2 * PAGE_BYTES))
        elif how == "pages":
            for page in range(size // PAGE_BYTES):
                if source.random() < 0.3:
                    overwrite(path, page * PAGE_BYTES, source.randbytes(PAGE_BYTES))
        elif how == "bit":
            flip(path, source.randrange(size), source.randrange(8))
        else:
            raise ValueError(how)
        return f"{how}: {path} of {size} bytes"

    def keep(self):
        """At the end: what is in the image also lies in the node's directory."""
        if self.image and os.path.exists(self.node.data_dir):
            kept = os.path.join(self.node.directory, "data")
            shutil.copytree(self.node.data_dir, kept, dirs_exist_ok=True)

    def close(self):
        if self.image:
            self.unmount()
            os.unlink(self.image)
            os.rmdir(self.mount_point)


def sync_path(path):
    """What this run has put there or taken away, and not leafd, is to outlive a power cut, too."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def sync_tree(top):
    for folder, _, names in os.walk(top):
        for path in [os.path.join(folder, name) for name in names] + [folder]:
            sync_path(path)
    sync_path(os.path.dirname(top))


def overwrite(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def flip(path, at, bit):
    with open(path, "r+b") as file:
        file.seek(at)
        value = file.read(1)[0]
        file.seek(at)
        file.write(bytes([value ^ 1 << bit]))
