"""The coordinator inside Flower's server process: messages through its grid, progress and results in files."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from flwr.app import Context, Message, MessageType
from flwr.serverapp import Grid

from manyheads.core.errors import UserError
from manyheads.federate.flower_site import carried, content_of
from manyheads.federate.jobs import Job, conducted
from manyheads.federate.study import StudyFolder

__all__ = ["FlowerCarrier", "conduct"]


class FlowerCarrier:
    """Carries messages through Flower; a site is known by the key that the server has registered for it."""

    def __init__(self, grid: Grid, nodes: Mapping[str, int]) -> None:
        self.grid, self.nodes = grid, nodes

    def present(self) -> Sequence[str]:
        there = set(self.grid.get_node_ids())
        return [site for site, node in self.nodes.items() if node in there]

    def exchange(self, messages: Mapping[str, bytes], seconds: float) -> Mapping[str, bytes | str]:
        names = {self.nodes[site]: site for site in messages}
        sent = [
            Message(carried(data), dst_node_id=self.nodes[site], message_type=MessageType.QUERY, ttl=seconds + 60)
            for site, data in messages.items()
        ]
        found: dict[str, bytes | str] = {}
        for reply in self.grid.send_and_receive(sent, timeout=seconds):
            site = names.get(reply.metadata.src_node_id)
            if site is None:
                continue
            try:
                found[site] = f"Flower: {reply.error.reason}" if reply.has_error() else content_of(reply)
            except UserError as error:
                found[site] = str(error)
        return found


def conduct(grid: Grid, context: Context) -> None:
    """Conduct one job of the study whose server this is."""
    threading.Thread(target=_end_with_server, args=(os.getppid(),), daemon=True).start()
    folder = StudyFolder(Path(os.environ["MANYHEADS_STUDY"]))
    job = Job(folder, str(context.run_config["job"]))
    started = time.monotonic()
    conducted(job, lambda nodes: FlowerCarrier(grid, nodes))
    job.say(f"ended after {time.monotonic() - started:.0f} s")


def _end_with_server(parent: int) -> None:
    """End this process when the server that started it is gone, even if that was killed: its folder is then free again."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
