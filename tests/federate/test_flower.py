"""One server and two sites as separate processes, with certificates and keys: the simulator's numbers."""

from __future__ import annotations

import stat
from dataclasses import replace

import pytest
import torch
from federations import QUICK, simulated, study, tables
from flowering import flowering, made_study, processes_of

from manyheads.federate.flower import bundle_hash
from manyheads.federate.keys import make_key_pair, write_private
from manyheads.federate.kit import Kit, add_site, approve
from manyheads.federate.preflight import preflight
from manyheads.federate.rules import Rules
from manyheads.federate.state import state_of_study
from manyheads.federate.study import StudyFolder
from manyheads.run import Evaluate, load
from manyheads.run.training import Training

PAIR = ("ash", "birch")
PATIENT = Rules(gather=300, wait=300, deadline=300)


def test_a_federation_of_processes_gets_the_simulators_numbers(tmp_path):
    data = tables(tmp_path / "data", PAIR)
    training = replace(study().training, evaluate=Evaluate(every=2))
    made = study(sites=PAIR, training=training, rules=PATIENT)
    with flowering(tmp_path, data, made, sites=()) as federation:
        kit = Kit(federation.folder.kits / "ash")
        found = preflight(kit, data / "ash.csv")
        own = kit.key.read_bytes()
        kit.key.unlink()
        make_key_pair(kit.key)  # another key, which the server does not know
        strange = {each.what: each for each in preflight(kit, data / "ash.csv")}
        write_private(kit.key, own)
        for site in PAIR:
            federation.start_site(site)
        done = federation.do("run", tmp_path / "run")
        state = state_of_study(federation.folder)
    assert not strange["key"].ok
    assert strange["certificate"].ok
    assert [site["status"] for site in state["sites"]] == ["online", "online"]
    assert state["job"]["state"] == "done"
    assert [(each.what, each.ok) for each in found if not each.ok] == []
    run, wanted = load(tmp_path / "run"), simulated(data, "fedrep", evaluate=Evaluate(every=2))
    assert done["rounds"] == 2
    assert done["checksum"] == run.checksum
    for name, value in wanted.server.flat.items():
        assert torch.equal(run.server.flat[name], value), name
    for number, site in enumerate(PAIR):
        (own,) = (federation.folder.kits / site / "runs").iterdir()
        head = load(own)._store.read([0]).flat
        for name, value in wanted._store.read([number]).flat.items():
            assert torch.equal(head[name], value), name
    assert [r["evaluation"]["accuracy"] for r in run.history if "evaluation" in r] == [
        r["evaluation"]["accuracy"] for r in wanted.history if "evaluation" in r
    ]
    lines = (federation.folder.kits / "ash" / "audit.jsonl").read_text().splitlines()
    assert any('"event": "left"' in line and '"action": "work"' in line for line in lines)
    assert not processes_of(tmp_path)


def test_keys_and_kits_are_private_and_complete(tmp_path):
    folder = made_study(tmp_path, study(sites=PAIR))
    for private in (*folder.path.rglob("*.key"), *(k for k in folder.kits.rglob("*.key"))):
        assert stat.S_IMODE(private.stat().st_mode) == 0o600, private
    before = {p: p.read_bytes() for p in folder.path.rglob("*") if p.is_file() and p != folder.file}
    add_site(folder, "cedar")
    assert folder.read().sites == ("ash", "birch", "cedar")
    assert all(p.read_bytes() == content for p, content in before.items())
    assert (folder.keys / "cedar.pub").read_text().startswith("ecdsa-sha2-nistp384")
    kit = Kit(folder.kits / "cedar")
    assert kit.read().bundle == bundle_hash(folder.bundle)
    with pytest.raises(ValueError, match="not approved"):
        approve(kit, lambda words: None, lambda words: False)
    approve(kit, lambda words: None, lambda words: True)
    approve(kit, lambda words: None, lambda words: False)  # the same one is not asked about again


def test_a_study_is_read_as_it_was_written(tmp_path):
    changed = study(
        sites=PAIR, data={"label": "outcome", "categories": ["kind"]}, algorithm={"name": "ditto", "lam": 0.5},
        training=Training(rounds=7, participation=0.5), rules=replace(QUICK, min_sites=1, max_weight=500),
    )  # fmt: skip
    folder = StudyFolder(tmp_path)
    folder.write(changed)
    assert folder.read() == changed


def test_the_preflight_finds_what_is_missing(tmp_path):
    data = tables(tmp_path / "data", PAIR)
    folder = made_study(tmp_path, study(sites=PAIR, data={"label": "outcome"}))
    kit = Kit(folder.kits / "ash")
    kit.key.chmod(0o644)
    found = {each.what: each for each in preflight(kit, data / "ash.csv")}
    assert not found["private key"].ok
    assert "chmod 600" in found["private key"].fix
    assert not found["server"].ok
    assert not found["table"].ok
    assert "outcome" in found["table"].found
    kit.authority.unlink()
    kit.key.unlink()
    assert "lacks ca.crt, ash.key" in preflight(kit, data / "ash.csv")[0].found
