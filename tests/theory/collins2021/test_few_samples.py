"""How few samples a client needs."""

from __future__ import annotations

from manyheads.theory.collins2021 import few_samples
from manyheads.theory.collins2021.few_samples import newcomer_errors, sample_sweep


def test_more_clients_make_up_for_few_samples(monkeypatch):
    monkeypatch.setattr(few_samples, "SAMPLES", (2, 8))
    monkeypatch.setattr(few_samples, "ROUNDS", 60)
    rows = {(r["clients"], r["dim"], r["samples"]): r for r in sample_sweep(20, 2, 20, 0, lambda _: None)}
    assert len(rows) == 10
    assert rows[100, 20, 8]["dist"] < 1e-2 < rows[4, 20, 8]["dist"]
    assert rows[20, 10, 8]["dist"] < rows[20, 40, 8]["dist"]
    # 8 samples are few for 20 unknowns, and enough for a head of 2
    assert rows[100, 20, 8]["error"] < 1e-4 < 0.1 < rows[100, 20, 8]["error_local"]
    # as many samples as features leave no error to learn from
    assert rows[20, 20, 2]["dist"] > 0.5


def test_a_new_client_needs_k_samples_with_the_representation_and_d_without():
    rows = newcomer_errors(10, 2, 40, 0)
    assert [r["samples"] for r in rows] == list(range(1, 21))
    head, local = ([r[key] for r in rows] for key in ("head", "local"))
    assert head[0] > 0.1 > 1e-3 > head[1]
    assert local[8] > 1e-3 > local[9]
    assert all(h < a for h, a in zip(head, local, strict=True))
