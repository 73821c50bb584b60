"""A container of an image, made with buildah and util-linux: no engine, no network and no cgroup of its own.

Its root is read-only, its name is resolved by nothing but `localhost`; it has the host's network. It sees the shared
folder as /mnt and under its own path, so that a process of the host can be told of the same file.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil

from tests.image.limits import Limits
from tests.integration.worker_process import eventually

IMAGE_USER: Final = 1001
ARBITRARY_USER: Final = 1_000_770_000
"""As OpenShift gives them: known to no image, in group 0."""
_SETUP: Final = """
set -e
root="$1" shared="$2" user="$3"; shift 3
hostname nameless.invalid
echo "127.0.0.1 localhost" > "$root/etc/hosts"
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mount --bind "$shared" "$root/mnt"
mkdir -p "$root$shared"
mount --bind "$shared" "$root$shared"
mount --rbind /sys "$root/sys"
mount -o remount,bind,ro "$root"
exec chroot --userspec="$user:0" "$root" "$@"
"""


class Container:
    """An image's file system, and at most one process of it with what that started."""

    def __init__(self, image: str, shared: Path, user: int = IMAGE_USER, limits: Limits | None = None) -> None:
        self._user, self._limits = user, limits
        self.shared = shared
        """The folder that the container has as /mnt."""
        self.log_file = shared.with_name(f"{shared.name}.log")
        shared.mkdir(exist_ok=True)
        shared.chmod(0o777)
        config = json.loads(buildah("inspect", "--type", "image", image))["OCIv1"]["config"]
        self.entrypoint, self._workdir = config["Entrypoint"], config.get("WorkingDir") or "/"
        self._env = dict(line.split("=", 1) for line in config["Env"])
        self._name = buildah("from", "--pull-never", image).strip()
        self.root = Path(buildah("mount", self._name).strip())
        self._process: subprocess.Popen[bytes] | None = None

    def remove(self) -> None:
        """Nothing of it is left but what it wrote to the shared folder."""
        with contextlib.suppress(psutil.Error):
            self.kill()
        buildah("rm", self._name)

    def run(self, command: Sequence[str], env: Mapping[str, str] | None = None, within_s: float = 300) -> str:
        """The output of a command of the image, which must end with 0."""
        done = subprocess.run(
            self._command(command, env or {}), capture_output=True, text=True, check=False, timeout=within_s
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, arguments: Sequence[str], env: Mapping[str, str]) -> None:
        """The image's entry point runs with these arguments; its output is added to `log_file`."""
        with self.log_file.open("ab") as out:
            command = self._command([*self.entrypoint, *arguments], env)
            self._process = process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        eventually(lambda: process.poll() is not None or psutil.Process(process.pid).children(), 60, self.log)

    def execute(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command beside the container's process, as `docker exec` and a health check do."""
        spaces = ["nsenter", f"--target={self.first().pid}", "--mount", "--pid", "--uts"]
        user = ["chroot", f"--userspec={self._user}:0", str(self.root)]
        return subprocess.run(
            [*spaces, *user, *self._in_env(command, self.first().environ())],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def first(self) -> psutil.Process:
        """Process 1 of the container."""
        assert self._process is not None
        assert self._process.poll() is None, f"it has ended\n{self.log()}"
        return psutil.Process(self._process.pid).children()[0]

    def stop(self, within_s: float = 90) -> None:
        """It has ended as on `docker stop`."""
        assert self._process is not None
        self.first().send_signal(signal.SIGTERM)
        self._process.wait(within_s)

    def kill(self) -> None:
        """It has ended as on `docker kill`, whole."""
        if self._process is not None and self._process.poll() is None:
            for process in psutil.Process(self._process.pid).children():
                process.kill()
            self._process.wait(60)

    def log(self) -> str:
        """All that its processes have said."""
        return self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""

    def _command(self, command: Sequence[str], env: Mapping[str, str]) -> list[str]:
        unshare = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child"]
        setup = ["sh", "-c", _SETUP, "sh", str(self.root), str(self.shared), str(self._user)]
        whole = [*unshare, *setup, *self._in_env(command, {**self._env, **env})]
        return self._limits.entered(whole) if self._limits else whole

    def _in_env(self, command: Sequence[str], env: Mapping[str, str]) -> list[str]:
        pairs = [f"{name}={value}" for name, value in env.items()]
        return ["/usr/bin/env", "-i", f"--chdir={self._workdir}", *pairs, *command]


def buildah(*arguments: str, **more: Any) -> str:
    """The output of buildah. Errors: CalledProcessError."""
    done = subprocess.run(["buildah", *arguments], capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, f"buildah {' '.join(arguments)}: {done.stderr[-4000:]}"
    return done.stdout


def can_build() -> bool:
    """True where these tests can build and run: as root, with the programs that they need."""
    return os.geteuid() == 0 and all(map(_is_there, ("buildah", "unshare", "nsenter", "chroot")))


def _is_there(program: str) -> bool:
    return any(Path(folder, program).exists() for folder in os.get_exec_path())
