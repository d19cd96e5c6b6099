"""The demo: 20 clients with three digits each. Who does well: one shared model, personal heads, or everyone alone?"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from manyheads import SGD, Engine, FedAvg, FedRep, Local, simulate
from manyheads.cli.progress import progress
from manyheads.data import Classes, Digits, federate

ROUNDS, SEEDS = 30, (0, 1, 2)
SGD_USED = SGD(lr=0.05)
METHODS = {
    "FedAvg, one model for all": FedAvg(sgd=SGD_USED),
    "FedRep, shared body and own head": FedRep(sgd=SGD_USED),
    "local only, everyone alone": Local(sgd=SGD_USED),
}


def main() -> None:
    results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in METHODS}
    for seed in SEEDS:
        federation = federate(Digits().pool(seed), Classes(3), clients=20, seed=seed)
        for name, algorithm in METHODS.items():
            with progress(Console(stderr=True), ROUNDS, f"{algorithm.name}, seed {seed}") as follow:
                run = simulate(
                    algorithm, "mlp", federation, rounds=ROUNDS, seed=seed, engine=Engine(workers=0), on_round=follow
                )
            last = run.history[-1]["evaluation"]
            sent = run.summary()["bytes_up"] / 1e6
            results[name].append((last["accuracy"], last["accuracy_worst_decile"], sent))
    table = Table(title=f"digits, 3 classes a client, 20 clients, {ROUNDS} rounds, {len(SEEDS)} seeds")
    for column in ("method", "accuracy", "lowest to highest seed", "worst tenth of clients", "MB up"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, rows in results.items():
        accuracy, worst, sent = (list(column) for column in zip(*rows, strict=True))
        mean = sum(accuracy) / len(rows)
        table.add_row(
            name,
            f"{mean:.3f}",
            f"{min(accuracy):.3f} to {max(accuracy):.3f}",
            f"{sum(worst) / len(rows):.3f}",
            f"{sent[0]:.1f}",
        )
    console = Console(highlight=False)
    console.print(table)
    console.print("Accuracy: mean over clients of each client's own test accuracy, after the last round.")


if __name__ == "__main__":
    main()
