"""Personal states come back exactly: after a write, and after a crash at any instant from the last two checkpoints."""

import os
import pickle
import subprocess
import sys
import threading
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from manyheads import State, Tree, UserError
from manyheads.core.errors import InUse
from manyheads.core.store import PersonalStore

CLIENTS = 4


def initial() -> State:
    """Several types, an odd number of bytes, a scalar and an empty tree."""
    head = Tree({"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.tensor([0.5], dtype=torch.float64)})
    return State(
        head=head, none=Tree(), steps=torch.tensor(-1), mask=torch.tensor([True, False, True]), f16=torch.ones(3).half()
    )


def states(values: list[int]) -> State:
    """One state a client, recognisable by its number."""
    return initial().map(lambda v: torch.stack([(v + n).to(v.dtype) if v.dtype != torch.bool else v ^ (n % 2 == 1) for n in values]))  # fmt: skip


def assert_holds(store: PersonalStore, clients: list[int], values: list[int]) -> None:
    found, expected = store.read(clients).flat, states(values).flat
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value), name


@pytest.fixture
def path(tmp_path):
    return tmp_path / "personal.safetensors"


def test_a_client_that_was_never_written_has_the_initial_state(path):
    store = PersonalStore(path, initial(), CLIENTS)
    store.write([2], states([7]))
    assert_holds(store, [3, 0, 3], [0, 0, 0])


def test_what_was_written_is_read_in_any_order_with_its_types(path):
    store = PersonalStore(path, initial(), CLIENTS)
    store.write([3, 0], states([30, 10]))
    store.write([3, 1], states([31, 20]))
    assert_holds(store, [1, 3, 0, 2, 3], [20, 31, 10, 0, 31])


def test_many_clients_in_runs_and_alone_through_many_checkpoints(path):
    """Against a dictionary: random cohorts, some of them neighbours, with checkpoints in between."""
    rng, clients = np.random.default_rng(0), 50
    store, expected = PersonalStore(path, initial(), clients), dict.fromkeys(range(clients), 0)
    for turn in range(1, 40):
        if turn % 3 == 0:
            chosen = list(range(turn % 20, turn % 20 + 25))
        else:
            chosen = rng.choice(clients, 12, replace=False).tolist()
        values = [(turn + c) % 100 for c in chosen]
        store.write(chosen, states(values))
        expected |= dict(zip(chosen, values, strict=True))
        if turn % 5 == 0:
            store.committed()
        asked = rng.integers(0, clients, 30).tolist()
        assert_holds(store, asked, [expected[c] for c in asked])
    restored = PersonalStore(path, initial(), clients)
    restored.restore(store.tables())
    assert_holds(restored, list(range(clients)), list(expected.values()))


def test_reads_and_writes_that_the_system_does_in_pieces(path, monkeypatch):
    """One call moves 2 GB at most; here, a few bytes."""
    store = PersonalStore(path, initial(), CLIENTS)
    read, write = os.preadv, os.pwrite
    monkeypatch.setattr(os, "preadv", lambda file, views, offset: read(file, [views[0][:7]], offset))
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: write(file, data[:7], offset))
    store.write([0, 1, 3], states([5, 6, 7]))
    assert_holds(store, [3, 1, 0, 2], [7, 6, 5, 0])


def test_a_file_that_was_cut_short_is_an_error(path):
    store = PersonalStore(path, initial(), CLIENTS)
    store.write([3], states([7]))
    os.truncate(path, path.stat().st_size // 4)
    with pytest.raises(UserError, match="shorter than it was"):
        store.read([3])


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
def test_a_store_that_nobody_holds_any_more_has_closed_its_file(path):
    def opened():
        return [fd for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink() and fd.readlink() == path]

    store = PersonalStore(path, initial(), CLIENTS)
    assert len(opened()) == 1
    del store
    assert opened() == []


def test_what_was_read_is_a_copy(path):
    store = PersonalStore(path, initial(), CLIENTS)
    store.read([0]).head["weight"].fill_(9)
    store.write([1], states([1]))
    store.read([1]).head["weight"].fill_(9)
    assert_holds(store, [0, 1], [0, 1])


def test_a_state_of_another_form_is_refused_by_name(path):
    store = PersonalStore(path, State(w=torch.zeros(3)), CLIENTS)
    with pytest.raises(UserError, match=r"personal state w changed its form.*float64"):
        store.write([0], State(w=torch.zeros(1, 3, dtype=torch.float64)))
    with pytest.raises(UserError, match=r"\(4,\)"):
        store.write([0], State(w=torch.zeros(1, 4)))


class Life:
    """A store and what it should hold: now, and at the last two checkpoints (newest first)."""

    def __init__(self, path: Path, elsewhere: bool) -> None:
        self.path, self.count, self.elsewhere = path, 0, elsewhere
        self.store = PersonalStore(path, initial(), CLIENTS)
        self.now = [0] * CLIENTS
        self.checkpoints: list[tuple[list[int], dict[str, torch.Tensor]]] = []

    def write(self, rng: np.random.Generator) -> None:
        clients = rng.choice(CLIENTS, rng.integers(1, CLIENTS + 1), replace=False).tolist()
        values = list(range(self.count + 1, self.count + 1 + len(clients)))
        self.count += len(clients)
        if self.elsewhere:
            lost, written = written_elsewhere(self.store, clients, values, rng)
            clients, values = clients[lost:], values[lost:]
            self.store.accept(clients, written)
        else:
            self.store.write(clients, states(values))
        for client, value in zip(clients, values, strict=True):
            self.now[client] = value

    def checkpoint(self) -> None:
        self.checkpoints = [(list(self.now), self.store.tables()), *self.checkpoints][:2]

    def commit(self) -> None:
        self.checkpoint()
        self.store.committed()

    def die(self) -> None:
        self.store.close()
        self.store = PersonalStore(self.path, initial(), CLIENTS)
        self.now = [0] * CLIENTS
        if self.checkpoints:
            self.store.restore(*(tables for _, tables in self.checkpoints))
            self.now = list(self.checkpoints[0][0])

    def check(self) -> None:
        assert_holds(self.store, list(range(CLIENTS)), self.now)
        for values, tables in self.checkpoints:
            other = PersonalStore(self.path, initial(), CLIENTS)
            other.restore(tables)
            assert_holds(other, list(range(CLIENTS)), values)
            other.close()


def written_elsewhere(store: PersonalStore, clients: list[int], values: list[int], rng: np.random.Generator):
    """Write as a worker process does, where the store says; the first few clients are dropped, and are not written."""
    file = pickle.loads(pickle.dumps(store.file))
    file.hold()
    places = store.places(clients)
    assert np.array_equal(places.now, store.slot[clients])
    lost = int(rng.integers(0, len(clients)))
    good = places.take(slice(lost, None))
    written = file.write(good.clients, good.next, states(values[lost:]))
    file.close()
    return lost, written


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_written_and_whenever_it_dies_the_last_two_checkpoints_are_found_exactly(path, seed, elsewhere):
    rng = np.random.default_rng(seed)
    life = Life(path, elsewhere)
    for event in rng.choice(
        ["write", "commit", "die", "die committing", "die damaged"], 40, p=[0.5, 0.2, 0.1, 0.1, 0.1]
    ):
        match event:
            case "write":
                life.write(rng)
            case "commit":
                life.commit()
            case "die":
                life.die()
            case "die committing":  # the checkpoint is on disk, but the process had no time to note that
                life.checkpoint()
                life.die()
            case "die damaged":  # the last checkpoint cannot be read, so the one before it is what counts
                life.checkpoints = life.checkpoints[1:] or life.checkpoints
                life.die()
        life.check()
    life.store.close()


def test_before_the_first_checkpoint_a_restart_finds_the_initial_states(path):
    store = PersonalStore(path, initial(), CLIENTS)
    store.write([1, 2], states([1, 2]))
    store.close()
    assert_holds(PersonalStore(path, initial(), CLIENTS), [1, 2], [0, 0])


@pytest.mark.parametrize("damage", ["flipped", "cut"])
def test_damaged_bytes_are_an_error_that_names_the_client(path, damage):
    store = PersonalStore(path, initial(), CLIENTS)
    store.write([0, 3], states([1, 2]))
    tables = store.tables()
    whole = path.read_bytes()
    record = store.layout.pack(states([2])).tobytes()
    place = whole.index(record)
    assert whole.count(record) == 1
    store.close()
    if damage == "flipped":
        path.write_bytes(whole[: place + 5] + bytes([whole[place + 5] ^ 1]) + whole[place + 6 :])
    else:
        path.write_bytes(whole[: place + 5])
    with pytest.raises(UserError, match="personal state of client 3 .* is damaged"):
        PersonalStore(path, initial(), CLIENTS).restore(tables)


def test_the_file_is_a_safetensors_file(path):
    store = PersonalStore(path, initial(), CLIENTS)
    store.write([3], states([5]))
    store.sync()
    with safe_open(path, framework="pt") as file:
        records = file.get_tensor("records")
    assert records.shape == (3, CLIENTS, store.layout.nbytes)
    assert records[int(store.slot[3]) - 1, 3].numpy().tobytes() == store.layout.pack(states([5])).tobytes()


@pytest.mark.parametrize("empty", [State(), State(head=Tree())])
def test_a_store_of_nothing_writes_nothing(path, empty):
    store = PersonalStore(path, empty, CLIENTS)
    store.write([1, 2], empty)
    assert list(store.read([1, 2])) == list(empty)
    assert store.read([1, 2]).flat == {}
    store.sync()
    tables = store.tables()
    store.committed()
    store.close()
    assert not path.exists()
    PersonalStore(path, empty, CLIENTS).restore(tables, tables)


def test_a_million_clients_occupy_no_more_disk_than_those_that_were_written(path):
    store = PersonalStore(path, State(w=torch.zeros(1000)), 1_000_000)
    store.write([0, 999_999], State(w=torch.ones(2, 1000)))
    store.sync()
    facts = os.stat(path)  # noqa: PTH116
    assert facts.st_size > 12e9
    assert facts.st_blocks * 512 < 100_000
    assert store.read([999_999, 500_000]).w.sum(dim=1).tolist() == [1000, 0]


def test_the_same_written_states_have_the_same_hash_whatever_their_slots(path, tmp_path):
    def digest(store):
        made = sha256()
        store.update_hash(made)
        return made.hexdigest()

    one, two = PersonalStore(path, initial(), CLIENTS), PersonalStore(tmp_path / "two", initial(), CLIENTS)
    one.write([1, 2], states([5, 6]))
    one.committed()
    one.write([1], states([7]))
    two.write([2, 1], states([6, 7]))
    assert one.slot.tolist() != two.slot.tolist()
    assert digest(one) == digest(two)
    two.write([2], states([8]))
    assert digest(one) != digest(two)


def test_a_copy_has_the_states_that_were_written_and_no_more(path, tmp_path):
    one, two = PersonalStore(path, initial(), CLIENTS), PersonalStore(tmp_path / "two", initial(), CLIENTS)
    one.write([1, 3], states([5, 6]))
    one.copy_to(two)
    assert_holds(two, list(range(CLIENTS)), [0, 5, 0, 6])
    assert two.slot.astype(bool).tolist() == [False, True, False, True]


def test_opening_with_a_state_of_another_form_leaves_the_file_as_it_is(path):
    store = PersonalStore(path, initial(), CLIENTS)
    store.write([1], states([5]))
    store.close()
    before = path.read_bytes()
    with pytest.raises(UserError):
        PersonalStore(path, State(w=torch.zeros(1000)), CLIENTS)
    assert path.read_bytes() == before


def test_writing_no_clients_does_nothing(path):
    store = PersonalStore(path, initial(), CLIENTS)
    store.write([], states([1]).map(lambda v: v[:0]))
    assert_holds(store, [0], [0])


def test_what_another_process_wrote_counts_only_when_it_is_accepted(path):
    store = PersonalStore(path, initial(), CLIENTS)
    store.write([0, 1], states([1, 2]))
    store.committed()
    places = store.places([0, 1])
    written = store.file.write(places.clients, places.next, states([3, 4]))
    assert_holds(store, [0, 1], [1, 2])
    store.accept([0, 1], written)
    assert_holds(store, [0, 1], [3, 4])
    other = PersonalStore(path, initial(), CLIENTS)
    other.restore(store.tables())
    assert_holds(other, [0, 1], [3, 4])


HOLDS = """
import pickle, sys
file = pickle.load(sys.stdin.buffer)
file.hold()
print("held", flush=True)
sys.stdin.buffer.read()
"""


def holder(store: PersonalStore) -> subprocess.Popen[bytes]:
    """A process that has hold of the file as a worker has, until its input ends."""
    process = subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(pickle.dumps(store.file))
    process.stdin.flush()
    assert process.stdout.readline() == b"held\n"
    return process


def test_who_goes_on_with_a_run_waits_for_the_workers_of_the_one_that_was_killed(path, monkeypatch):
    store = PersonalStore(path, initial(), CLIENTS)
    worker = holder(store)
    monkeypatch.setattr("manyheads.core.state_file.PATIENCE", 0.2)
    with pytest.raises(InUse, match="in use by another process"):
        PersonalStore(path, initial(), CLIENTS)
    monkeypatch.setattr("manyheads.core.state_file.PATIENCE", 60)
    PersonalStore(path, initial(), CLIENTS, read_only=True).close()  # who only reads need not wait
    threading.Timer(0.3, worker.kill).start()
    PersonalStore(path, initial(), CLIENTS).close()
    assert worker.wait() < 0
