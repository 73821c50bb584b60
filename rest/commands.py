"""Apache's commands `connect-standalone`, `connect-distributed` and `connect-mirror-maker`.

They have Apache's arguments and exit codes: 1 usage, 2 error in arguments or config, 3 failed start. For the third
command errors in arguments are -1, which a shell shows as 255. --help is 0, as for any command.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from headrace.config.worker.config import WorkerConfig
    from headrace.rest.service import RestService

_OBJECTS_OF_A_START: Final = 500_000
"""New objects before a garbage collection. A start keeps its objects; collections took 0.25 s of it."""


@dataclass(frozen=True)
class _Command:
    """One of the two commands that run one worker."""

    name: str
    arguments: str
    purpose: str
    explained: tuple[tuple[str, str], ...]
    """The arguments, each with its explanation."""
    most_files: int | None
    output: str
    """The file in LOG_DIR for the output of a worker in the background."""
    run: Callable[[Sequence[Path]], int]

    def usage(self) -> str:
        return f"USAGE: {self.name} [-daemon] {self.arguments}"

    def help(self) -> str:
        rows = [("-daemon", f"Run in the background; its output goes to {self.output} in LOG_DIR."), *self.explained]
        return "\n".join([self.usage(), "", self.purpose, "", *(f"  {name:<24}{text}" for name, text in rows)])


def serve(config: WorkerConfig) -> RestService:
    """The REST service on a worker's listeners; imported on call. Errors: as `RestService`."""
    from headrace.rest.service import RestService

    return RestService(config)


def _run_standalone(files: Sequence[Path]) -> int:
    from headrace.worker.process.commands import standalone

    return standalone(files[0], files[1:], serve)


def _run_distributed(files: Sequence[Path]) -> int:
    from headrace.worker.process.commands import distributed

    return distributed(files[0], serve)


_STANDALONE: Final = _Command(
    "connect-standalone",
    "worker.properties [connector1.properties connector2.json ...]",
    "Runs a worker alone, with the connectors that the files describe.",
    (
        ("worker.properties", "The worker's settings."),
        ("connector1.properties", "A connector's name and settings; JSON is taken, too."),
    ),
    None,
    "connectStandalone.out",
    _run_standalone,
)
_DISTRIBUTED: Final = _Command(
    "connect-distributed",
    "worker.properties",
    "Runs a worker of a cluster; connectors come by its REST API.",
    (("worker.properties", "The worker's settings; group.id names the cluster."),),
    1,
    "connectDistributed.out",
    _run_distributed,
)
_MIRROR_MAKER: Final = "connect-mirror-maker"
_MIRROR_OUTPUT: Final = "mirrorMaker.out"
BAD_ARGUMENTS: Final = 255
"""The exit code of `connect-mirror-maker` for wrong arguments."""


def connect_standalone() -> None:
    """The `connect-standalone` command: Apache's arguments and exit codes."""
    sys.exit(standalone(sys.argv[1:]))


def connect_distributed() -> None:
    """The `connect-distributed` command: Apache's arguments and exit codes."""
    sys.exit(distributed(sys.argv[1:]))


def standalone(arguments: Sequence[str]) -> int:
    """Runs a standalone worker until it ends; returns its exit code."""
    return _started(_STANDALONE, arguments)


def distributed(arguments: Sequence[str]) -> int:
    """Runs a worker of a cluster until it ends; returns its exit code."""
    return _started(_DISTRIBUTED, arguments)


def connect_mirror_maker() -> None:
    """The `connect-mirror-maker` command: Apache's arguments and exit codes."""
    sys.exit(mirror_maker(sys.argv[1:]))


def mirror_maker(arguments: Sequence[str]) -> int:
    """Runs the flows of a MirrorMaker file until a signal ends them; returns the exit code."""
    daemon = bool(arguments) and arguments[0] == "-daemon"
    try:
        asked = _mirror_arguments().parse_args(arguments[daemon:])
    except _NoRun as ended:
        return 0 if ended.helped else BAD_ARGUMENTS
    if daemon:
        return _start_in_background(_MIRROR_MAKER, arguments[1:], _MIRROR_OUTPUT)
    from headrace.rest.mirror import MirrorService
    from headrace.worker.process.mirror import run

    return run(asked.config, asked.clusters, MirrorService)


class _NoRun(Exception):
    """The arguments are wrong or ask for help; the message has been printed."""

    def __init__(self, helped: bool) -> None:
        self.helped = helped


class _MirrorArguments(argparse.ArgumentParser):
    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        print(message or "", end="", file=sys.stderr)
        raise _NoRun(helped=status == 0)


def _mirror_arguments() -> argparse.ArgumentParser:
    usage = f"{_MIRROR_MAKER} [-daemon] mm2.properties [--clusters CLUSTER ...]"
    parser = _MirrorArguments(prog=_MIRROR_MAKER, usage=usage, description="Replicates topics between Kafka clusters.")
    parser.add_argument("config", type=_readable, metavar="mm2.properties", help="The clusters and the flows.")
    which = "The clusters that this process writes to; by default all of the file."
    parser.add_argument("--clusters", nargs="+", default=[], metavar="CLUSTER", help=which)
    return parser


def _readable(name: str) -> Path:
    if why := _unreadable(Path(name)):
        raise argparse.ArgumentTypeError(f"{name}: {why}; name a file that can be read")
    return Path(name)


def _started(command: _Command, arguments: Sequence[str]) -> int:
    daemon = bool(arguments) and arguments[0] == "-daemon"
    files = [Path(name) for name in arguments[daemon:]]
    too_many = command.most_files is not None and len(files) > command.most_files
    if {"-h", "--help"} & set(arguments):
        print(command.help())
        return 0
    if not files or too_many:
        print(command.usage())
        return 1
    problems = [f"{path}: {why}" for path in files if (why := _unreadable(path))]
    if problems:
        print(f"{command.name}: name files that can be read:", *problems, sep="\n  ", file=sys.stderr)
        return 2
    if daemon:
        return _start_in_background(command.name, [str(file) for file in files], command.output)
    gc.set_threshold(_OBJECTS_OF_A_START)
    return command.run(files)


def _unreadable(path: Path) -> str | None:
    try:
        open(path, "rb").close()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _start_in_background(command: str, arguments: Sequence[str], output_name: str) -> int:
    """As Apache's -daemon: writes the output to a file in LOG_DIR, and returns without waiting."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    folder = Path(os.environ.get("LOG_DIR") or state / "headrace" / "logs").absolute()
    output = folder / output_name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(output, "ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "headrace.rest.commands", command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
    except OSError as error:
        print(f"{command}: no output can be written to {output} ({error}); set LOG_DIR", file=sys.stderr)
        return 3
    print(f"{command}: started as pid {process.pid}; its output goes to {output}")
    return 0


if __name__ == "__main__":
    run_by_name = {_STANDALONE.name: standalone, _DISTRIBUTED.name: distributed, _MIRROR_MAKER: mirror_maker}
    sys.exit(run_by_name[sys.argv[1]](sys.argv[2:]))
