"""The same FedAvg round in Flower's simulation: ``python benchmarks/flower.py WORKLOAD``.

Runs in an environment of its own, with ``flwr[simulation]`` beside manyheads (see docs/benchmarks.md). Answers like
child.py: for every line on its standard input, the seconds of one round, from the server's choice of clients to the
averaged model.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from functools import cache
from typing import Any

import ray
import torch
from flwr.client import ClientApp, NumPyClient
from flwr.common import Context, ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation
from plain import Plain
from workloads import WORKLOADS


@cache
def plain() -> Plain:
    torch.set_num_threads(1)
    return Plain(WORKLOADS[os.environ["MANYHEADS_WORKLOAD"]])


class Client(NumPyClient):
    def __init__(self, index: int) -> None:
        self.index = index

    def fit(self, parameters: list[Any], config: dict[str, Any]) -> tuple[list[Any], int, dict[str, Any]]:
        loop = plain()
        loop.server = {k: torch.from_numpy(v.copy()) for k, v in zip(loop.server, parameters, strict=True)}
        upload = loop.local(self.index)
        return [v.numpy() for v in upload.values()], len(loop.train[self.index]), {}


class Timed(FedAvg):
    """Flower's FedAvg; a round begins when a line arrives."""

    def configure_fit(self, *arguments: Any, **named: Any) -> Any:
        if not sys.stdin.readline():
            ray.shutdown()
            os._exit(0)  # this is a thread of the simulation's
        self.began = time.perf_counter()
        return super().configure_fit(*arguments, **named)

    def aggregate_fit(self, *arguments: Any, **named: Any) -> Any:
        merged = super().aggregate_fit(*arguments, **named)
        print(time.perf_counter() - self.began, flush=True)
        return merged


def server(context: Context) -> ServerAppComponents:
    start = ndarrays_to_parameters([v.numpy() for v in plain().server.values()])
    strategy = Timed(fraction_fit=1.0, fraction_evaluate=0.0, initial_parameters=start)
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=10**6))


def client(context: Context) -> Any:
    return Client(int(context.node_config["partition-id"])).to_client()


def main(workload: str) -> None:
    os.environ["MANYHEADS_WORKLOAD"] = workload  # for the actors' processes, which inherit it
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    run_simulation(
        server_app=ServerApp(server_fn=server),
        client_app=ClientApp(client_fn=client),
        num_supernodes=len(plain().train),
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )


if __name__ == "__main__":
    import flower  # so that the actors find what is sent to them in a module of this name

    flower.main(sys.argv[1])
