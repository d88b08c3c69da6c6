"""A MariaDB of a test's own: in a directory of its own, on a local socket alone."""

import os
import pwd
import shutil
import subprocess

from wait import wait_until

SERVER = shutil.which("mariadbd", path="/usr/sbin:/usr/bin")
INSTALL = shutil.which("mariadb-install-db", path="/usr/bin:/usr/sbin")


def is_here():
    return bool(SERVER and INSTALL and shutil.which("mariadb"))


class MariaDB:
    """Started at once; end() stops it."""

    def __init__(self, directory):
        self.directory = str(directory)
        self.socket = os.path.join(self.directory, "socket")
        data = os.path.join(self.directory, "data")
        user = pwd.getpwuid(os.geteuid()).pw_name
        os.makedirs(self.directory, exist_ok=True)
        common = ["--no-defaults", f"--datadir={data}", f"--user={user}"]
        subprocess.run([INSTALL, *common, "--auth-root-authentication-method=normal",
                        "--skip-test-db"], check=True, capture_output=True, timeout=120)
        self.log = open(os.path.join(self.directory, "log"), "wb")
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", SERVER, *common, f"--socket={self.socket}",
             "--skip-networking", "--innodb-buffer-pool-size=16M"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        wait_until(lambda: self.run("SELECT 1", check=False).returncode == 0, 60, "MariaDB")

    def run(self, text, database="", check=True):
        words = ["mariadb", "--no-defaults", f"--socket={self.socket}", "-uroot", "-B",
                 "--default-character-set=utf8mb4", *([database] if database else [])]
        return subprocess.run(words, input=text, capture_output=True, text=True, timeout=60,
                              check=check)

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
