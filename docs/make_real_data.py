"""FedAvg and FedRep on the real data sets, in short runs: ``MANYHEADS_DATA=... python docs/make_real_data.py [NAME ...]``.

Runs the commands one by one (those whose result is there already are skipped), and writes results/real-data.json and
docs/real-data.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from manyheads.cli.flags import collect
from manyheads.cli.run import run_flags
from manyheads.core.machine import machine_facts
from manyheads.core.settings import build
from manyheads.data import source_of
from manyheads.run import Config
from manyheads.run.config import federation_of

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "real-data.json"
SETS = {
    "MNIST by writer": (
        "the 836 writers of MNIST as clients (QMNIST's labels)",
        "--data mnist --partition writer --cohort 80 --rounds 30 --algorithm.sgd.lr 0.05",
    ),
    "MNIST, FEMNIST recipe": (
        "stand-in: the FEMNIST recipe (three classes, log-normal sizes) on MNIST's digits",
        "--data mnist --partition femnist-recipe --clients 150 --participation 0.1 --model femnist-mlp --rounds 50",
    ),
    "CIFAR-10 (100, 2)": (
        "the paper's set and model, a fraction of its rounds, no augmentation",
        "--data cifar10 --partition shards:2 --clients 100 --participation 0.1 --rounds 30 --evaluate.every 10",
    ),
    "CIFAR-100 (100, 5)": (
        "the paper's set, its model without dropout, a fraction of its rounds, no augmentation",
        "--data cifar100 --partition shards:5 --clients 100 --participation 0.1 --rounds 40 --model.dropout 0 "
        "--evaluate.every 20",
    ),
    "Chars74K by writer": (
        "stand-in for FEMNIST: 55 writers, each of 62 characters drawn once; what a writer is tested on it never trained on, "
        "so a head of its own cannot know it",
        "--data chars74k --partition writer --rounds 60 --model femnist-mlp --algorithm.sgd.lr 0.05 --evaluate.every 10",
    ),
    "Chars74K a-j, three letters a client": (
        "stand-in for FEMNIST (150, 3): fewer letters and clients",
        "--data chars74k --data.characters a-j --partition classes:3 --clients 15 --rounds 60 --model femnist-mlp "
        "--algorithm.sgd.lr 0.05 --evaluate.every 10",
    ),
    "tweets, label-skewed": (
        "stand-in: a 2.7 % sample of Sentiment140, labels skewed over 20 made-up clients; trained embedding",
        {
            "fedavg": "--data sent140 --partition dirichlet:1 --clients 20 --rounds 25 --algorithm.batch 32 "
            "--algorithm.sgd.lr 0.3 --evaluate.every 25",
            "fedrep": "--data sent140 --partition dirichlet:1 --clients 20 --rounds 12 --algorithm.batch 10 "
            "--algorithm.body-epochs 5 --algorithm.sgd.lr 0.1 --evaluate.every 4",
        },
    ),
}
"""of each set what it is, and the flags, of all methods or of each"""


def main(wanted: list[str]) -> None:
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"machine": machine_facts(), "runs": {}}
    for name, (_, given) in SETS.items():
        for method in ("fedavg", "fedrep"):
            flags = given if isinstance(given, str) else given[method]
            key = f"{name} / {method}"
            if key in done["runs"] or (wanted and name not in wanted):
                continue
            command = f"manyheads run {flags} --algorithm {method} --finetune head:5 --seed 0"
            with TemporaryDirectory() as folder:
                words = [sys.executable, "-m", "manyheads", *command.split()[1:], "--out", f"{folder}/run", "--json"]
                facts = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
            keep = ("accuracy", "loss", "protocol", "rounds", "seconds", "bytes_up", "final")
            done["runs"][key] = {"command": command, "majority": majority(flags), **{k: facts[k] for k in keep}}
            RESULTS.write_text(json.dumps(done, indent=1) + "\n")
            sys.stderr.write(f"{key}: {facts['accuracy']:.3f}\n")
    (ROOT / "docs" / "real-data.md").write_text(page(done["runs"]))


def majority(flags: str) -> float:
    """Mean over clients of the accuracy of always answering with the client's most frequent training label."""
    words = flags.split()
    values = dict(zip(words[::2], words[1::2], strict=True))
    known = run_flags(words)
    table = collect(known, {f.parameter: values.get(f.option) for f in known})
    config = build(Config, table, where="config")
    federation, _ = federation_of(config, source_of(config.data))
    scores = []
    for client in range(len(federation)):
        own, test = federation.train.client(client)[1], federation.test.client(client)[1]
        if len(test):
            scores.append(float((test == np.bincount(own).argmax()).mean()))
    return float(np.mean(scores))


def page(runs: dict) -> str:
    lines = [
        "# Short runs on real data",
        "",
        "Made by `python docs/make_real_data.py` with `MANYHEADS_DATA` pointing to local copies. One seed, few rounds, few",
        "settings: these runs show that the readers, partitions, models and methods work together and learn, not how",
        "good a method is. Accuracy is the mean over all clients of the accuracy on the client's own test samples after the",
        "last round: of the one shared model for FedAvg, of the shared body with the client's own head for FedRep.",
        '"Fine-tuned": after five more epochs on the head. "Majority": always answering with the client\'s most frequent',
        "training label. The settings of the tweets were chosen on validation samples; the others are defaults or round numbers,",
        "not tuned.",
        "",
        "| set | what it is | method | accuracy % | fine-tuned % | majority % | rounds |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    runs = {k: runs[k] for k in sorted(runs, key=lambda k: list(SETS).index(k.partition(" / ")[0]))}
    for key, run in runs.items():
        name, _, method = key.partition(" / ")
        tuned = 100 * run["final"][0]["accuracy"]
        numbers = [f"{100 * v:.1f}" for v in (run["accuracy"], tuned / 100, run["majority"])]
        lines.append(f"| {' | '.join([name, SETS[name][0], method, *numbers, str(run['rounds'])])} |")
    lines += [
        "",
        "One row is no success, and says why. A writer of Chars74K drew every character once, so its test characters are",
        "never among those it trained on, and a head of its own cannot know them; the shared model can.",
        "",
        "On the tweets, a client's majority label is a strong baseline. With one body epoch a round and batches of 32 (FedAvg's",
        "row), FedRep got no further than that in 60 rounds: personal heads fit the client's label frequencies, and the body,",
        "seen through them, hardly moves. With five body epochs, as in the paper, and batches of 10 it learns from the third round",
        "on. Also tried on validation samples, without success: step sizes 0.3 and 1, one and two head epochs, a milder skew,",
        "frozen 50-dimensional GloVe vectors with one body epoch.",
        "",
        "The commands:",
        "",
    ]
    lines += [f"    {run['command']}" for run in runs.values()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
