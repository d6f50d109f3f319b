"""`python -m scheduling.engines.trainer`: one process of a training job.

The environment says which: `TF_CONFIG`, or `ROLE`, `RANK` and `PEERS` (see `peers`); `JOB_SECRET` is what all
processes of the job share. Exit codes: 0 finished, or stopped and saved; 2 wrongly started or refused; 3 failed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

# These are set before numpy is loaded: a process is one unit of the market, and takes one core.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from scheduling.engines.trainer import lifeline, peers  # noqa: E402
from scheduling.engines.trainer.channel import Channel, NotOneOfUs  # noqa: E402
from scheduling.engines.trainer.coordinator import Coordinator  # noqa: E402
from scheduling.engines.trainer.framing import ConnectionLost, WireMessage  # noqa: E402
from scheduling.engines.trainer.progress import ProgressFile  # noqa: E402
from scheduling.engines.trainer.server import DONE, LOST, REFUSED, ServerProcess  # noqa: E402
from scheduling.engines.trainer.settings import TrainerSettings, WrongSettings, read  # noqa: E402
from scheduling.engines.trainer.worker import Worker  # noqa: E402

SHORTEST_SECRET = 16
WORKER_LEAVES_SECONDS = 0.9  # a step may take longer; the job then continues as after the loss of a worker
SERVER_LEAVES_SECONDS = 10.0  # a server ends then only if the coordinator does not answer: its parameters go with it


def main(arguments: Sequence[str]) -> int:
    """Run until the job or this process's part in it ends, and return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        settings = read(json.loads(options.parameters))
        place = peers.read(os.environ)
        secret = os.environ.pop("JOB_SECRET", "").encode()
        if len(secret) < SHORTEST_SECRET:
            raise peers.WrongSurroundings(f"JOB_SECRET must have at least {SHORTEST_SECRET} characters.")
    except (WrongSettings, peers.WrongSurroundings) as error:
        return _complain(str(error), REFUSED)
    except ValueError:
        return _complain("The parameters are not JSON.", REFUSED)
    try:
        return _run(settings, place, secret, options)
    except NotOneOfUs as error:
        return _complain(f"Refused: {error}.", REFUSED)
    except (ConnectionLost, OSError) as error:
        return _complain(f"Ended: {error}.", LOST)


def _run(settings: TrainerSettings, place: peers.PeerPlace, secret: bytes, options: argparse.Namespace) -> int:
    if place.role == peers.COORDINATOR:
        options.folder.mkdir(parents=True, exist_ok=True)
        progress = ProgressFile(options.progress)
        coordinator = Coordinator(settings, place, secret, options.folder, progress, digests=options.digests)
        _prepare(options, coordinator.ask_to_stop, None, DONE)
        return coordinator.run()
    leave = Leave()
    if place.role == peers.SERVER:
        _prepare(options, leave.ask, SERVER_LEAVES_SECONDS, LOST)
        return ServerProcess(settings, place, secret).run(leave.registered)
    _prepare(options, leave.ask, WORKER_LEAVES_SECONDS, DONE)
    return Worker(settings, place, secret, options.extra_ms).run(leave.registered)


class Leave:
    """Asks the coordinator to let this process leave. A thread sends the request, since a signal's handler may not
    wait for a lock."""

    def __init__(self) -> None:
        self.channel: Channel | None = None

    def ask(self) -> None:
        """Ask for removal. This runs in the signal's handler."""
        if self.channel is None:
            os._exit(DONE)  # it has not registered yet
        threading.Thread(target=self._tell, args=(self.channel,), daemon=True).start()

    def registered(self, channel: Channel) -> None:
        """Note the channel to the coordinator, which can be asked from now on."""
        self.channel = channel

    def _tell(self, channel: Channel) -> None:
        try:
            channel.tell(WireMessage("leave"))
        except ConnectionLost:
            os._exit(LOST)


def _prepare(options: argparse.Namespace, ask: Callable[[], None], seconds: float | None, code: int) -> None:
    lifeline.on_stop(ask, seconds, code)
    if not options.outlive_parent:
        lifeline.die_with_parent()
    if options.lifeline is not None:
        lifeline.hold(options.lifeline)


def _complain(sentence: str, code: int) -> int:
    print(sentence, file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scheduling.engines.trainer", description=__doc__)
    parser.add_argument("--parameters", default="{}", help="the job's parameters, a JSON object")
    parser.add_argument("--folder", type=Path, default=Path(), help="where the coordinator keeps the checkpoint")
    parser.add_argument("--progress", default="-", help="where the coordinator tells: a path, fd:N, or - (the default)")
    parser.add_argument("--outlive-parent", action="store_true", help="go on when whoever started it is gone")
    parser.add_argument("--lifeline", type=int, metavar="FD", help="stop when the other end of this pipe is closed")
    parser.add_argument("--extra-ms", type=float, default=0.0, help="make this worker slower, for trials")
    parser.add_argument("--digests", action="store_true", help="compare parameters before and after each change")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
