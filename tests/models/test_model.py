"""Models: the head is found or asked for, the user's module is never touched, stacked and looped passes agree."""

import copy

import pytest
import torch
from problems import ConvNet, images, ragged, small_net
from torch import nn

from manyheads import Engine, FedAvg, FedPAC, FedRep, Local, Model, UserError, simulate
from manyheads.core.tasks import task_named
from manyheads.data import Classes, Digits, federate
from manyheads.models import MLP, MODELS, LinearRepresentation, Net, build_model


def deep_net() -> nn.Sequential:
    """More than ten layers, so that the name of one begins with the name of another."""
    return nn.Sequential(*(nn.Linear(2, 2) for _ in range(12)))


class Scaled(nn.Module):
    """A model that does something to the output of its head."""

    def __init__(self, in_place: bool = False) -> None:
        super().__init__()
        self.body, self.head, self.in_place = nn.Linear(4, 5), nn.Linear(5, 3), in_place

    def forward(self, x):
        out = self.head(self.body(x).tanh())
        return out.div_(10) if self.in_place else out / 10


class InBfloat16(nn.Module):
    """A model whose author runs it in a lower precision."""

    def __init__(self, enabled: bool = True) -> None:
        super().__init__()
        self.body, self.head, self.enabled = nn.Linear(64, 32), nn.Linear(32, 10), enabled

    def forward(self, x):
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.enabled):
            return self.head(self.body(x).tanh())


class Returns(nn.Module):
    def __init__(self, what) -> None:
        super().__init__()
        self.layer, self.what = nn.Linear(6, 3), what

    def forward(self, x):
        return self.what(self.layer(x))


def facts(module: nn.Module):
    """All that a user could notice about a module."""
    parameters = {k: (p.detach().clone(), p.requires_grad, p.grad, p.data_ptr()) for k, p in module.named_parameters()}
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in module.modules()]
    return parameters, hooks, [m.training for m in module.modules()]


# -- body and head -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("1", ["1.weight", "1.bias"]),
        ("11", ["11.weight", "11.bias"]),
        ("3.bias", ["3.bias"]),
        (["10", "2"], ["2.weight", "2.bias", "10.weight", "10.bias"]),
        ((), []),
        (None, ["11.weight", "11.bias"]),
    ],
)
def test_the_head_is_what_the_prefix_names_in_the_models_order_and_the_body_is_the_rest(head, names):
    net = deep_net()
    params = Model(net, head).params
    assert list(params.head) == names
    assert list(params.body) == [k for k, _ in net.named_parameters() if k not in names]


def test_a_prefix_names_a_whole_block():
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)))
    assert list(Model(net, "1").params.head) == ["1.0.weight", "1.0.bias", "1.2.weight", "1.2.bias"]


def test_a_single_linear_layer_is_all_head():
    params = Model(nn.Linear(3, 2)).params
    assert list(params.head) == ["weight", "bias"]
    assert not params.body


def test_a_model_without_a_clear_head_is_an_error_that_lists_its_layers():
    net = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 6), nn.LayerNorm(6))
    with pytest.raises(UserError, match=r"no clear head; allowed: head=\.\.\. .*: 0, 1, 2; or head=\(\)"):
        Model(net)


def test_an_unknown_head_is_an_error_with_the_nearest_layer():
    net = nn.Sequential()
    net.add_module("encoder", nn.Linear(4, 6))
    net.add_module("classifier", nn.Linear(6, 2))
    with pytest.raises(
        UserError, match=r"unknown head; given 'clasifier'; allowed: classifier, encoder; did you mean 'classifier'\?"
    ):
        Model(net, "clasifier")


def test_frozen_parameters_are_neither_body_nor_head():
    net = small_net()
    net[0].requires_grad_(False)
    net[4].bias.requires_grad_(False)
    params = Model(net, "4").params
    assert list(params.body) == ["2.weight", "2.bias"]
    assert list(params.head) == ["4.weight"]


def test_a_model_with_nothing_to_train_is_an_error():
    for net in (nn.ReLU(), nn.Linear(2, 2).requires_grad_(False)):
        with pytest.raises(UserError, match="no trainable parameters"):
            Model(net, head=())


# -- the user's module -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["loop", "stacked"])
@pytest.mark.parametrize("algorithm", [FedAvg(), FedRep(head_epochs=1), Local()], ids=lambda a: a.name)
def test_the_users_module_is_not_changed_by_model_or_training(algorithm, mode):
    net = small_net()
    before, model = facts(net), Model(net)
    initial = model.params.all.clone()
    run = simulate(algorithm, model, ragged(), rounds=1, engine=Engine(mode=mode))
    parameters, *rest = facts(net)
    assert rest == list(before[1:])
    for name, (value, *others) in parameters.items():
        assert torch.equal(value, before[0][name][0])
        assert others == list(before[0][name][1:])
        assert torch.equal(model.params.all[name], initial[name])  # nor does the model forget where it began
    assert any(not torch.equal(v, initial[k]) for k, v in run.client_model(1).items())


@pytest.mark.parametrize("mode", ["loop", "stacked"])
@pytest.mark.parametrize("frozen", ["0.weight", "4.bias"])
def test_a_model_with_frozen_parameters_trains_the_others(mode, frozen):
    net = small_net()
    net.get_parameter(frozen).requires_grad_(False)
    run = simulate(FedAvg(), net, ragged(), rounds=1, engine=Engine(mode=mode))
    trained = run.client_model(0)
    assert frozen not in trained
    assert not torch.equal(trained["2.weight"], net[2].weight)


# -- checks ------------------------------------------------------------------------------------------------------------


def test_an_output_that_does_not_fit_the_labels_is_an_error_with_both_shapes():
    model = Model(small_net(classes=4))
    with pytest.raises(UserError, match=r"does not fit the labels; .*\(4,\).*; allowed: \(3,\) for classification"):
        model.tried(torch.zeros(2, 6), "classification", 3)
    with pytest.raises(UserError, match=r"\(1,\) for regression with 1 targets"):
        model.tried(torch.zeros(2, 6), "regression", 1)
    model.tried(torch.zeros(2, 6), "classification", 4)


def test_a_regression_with_one_target_may_leave_out_its_dimension():
    net = nn.Sequential(nn.Linear(6, 1), nn.Flatten(0))
    Model(net, head=()).tried(torch.zeros(2, 6), "regression", 1)
    with pytest.raises(UserError, match="does not fit"):
        Model(net, head=()).tried(torch.zeros(2, 6), "classification", 1)


def test_data_that_the_model_cannot_read_is_an_error_with_the_shape_of_a_sample():
    with pytest.raises(UserError, match=r"cannot read the data: .*; given 'samples of shape \(7,\)'"):
        Model(small_net()).tried(torch.zeros(2, 7), "classification", 3)


def test_an_output_that_is_no_tensor_is_an_error():
    with pytest.raises(UserError):
        Model(Returns(lambda out: (out, out))).tried(torch.zeros(2, 6), "classification", 3)


def test_a_token_beyond_the_vocabulary_is_an_error():
    net = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(8, 3))
    with pytest.raises(UserError):
        Model(net).tried(torch.tensor([[1, 9]]), "classification", 3)


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(8), nn.SyncBatchNorm(8)], ids=lambda m: type(m).__name__)  # fmt: skip
def test_batch_norm_with_running_statistics_is_an_error_that_tells_what_to_use(norm):
    with pytest.raises(UserError, match="batch norm.*use GroupNorm or LayerNorm"):
        Model(nn.Sequential(nn.Linear(6, 8), norm, nn.Linear(8, 3)))


def test_norms_without_running_statistics_are_welcome():
    for norm in (nn.LayerNorm(8), nn.GroupNorm(2, 8)):
        Model(nn.Sequential(nn.Linear(6, 8), norm, nn.Linear(8, 3))).tried(torch.rand(2, 6), "classification", 3)


def test_instance_norm_with_running_statistics_is_an_error():
    with pytest.raises(UserError):
        Model(nn.Sequential(nn.InstanceNorm1d(3, affine=True, track_running_stats=True), nn.Linear(6, 3)))


# -- dropout -----------------------------------------------------------------------------------------------------------


def with_dropout(p: float) -> nn.Sequential:
    net = small_net()
    net[1] = nn.Sequential(nn.ReLU(), nn.Dropout(p))
    return net


def test_dropout_makes_a_model_random_unless_it_drops_nothing():
    for net, random in ((with_dropout(0.5), True), (with_dropout(0.0), False), (small_net(), False)):
        assert Model(net).tried(torch.rand(2, 6), "classification", 3).random is random
        assert Model(net).untried().random is random


def test_a_model_is_not_changed_by_its_trial():
    model = Model(with_dropout(0.5))
    before = dict(vars(model))
    model.tried(torch.rand(2, 6), "classification", 3)
    assert vars(model) == before


@pytest.mark.parametrize("algorithm", [FedAvg(), Local()], ids=lambda a: a.name)
def test_dropout_is_off_in_evaluation(algorithm):
    net = with_dropout(0.5)
    evaluations = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        evaluations.append(simulate(algorithm, net, ragged(), rounds=1).history[-1]["evaluation"])
    assert evaluations[0] == evaluations[1]


# -- many clients at once ----------------------------------------------------------------------------------------------


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def one_activation() -> nn.Sequential:
    act = nn.Tanh()
    return nn.Sequential(nn.Linear(6, 8), act, nn.Linear(8, 8), act, nn.Linear(8, 3))


def one_layer() -> nn.Sequential:
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(6, 3))


def nested() -> nn.Sequential:
    return nn.Sequential(nn.Sequential(nn.Linear(6, 5), nn.GELU()), nn.Identity(), nn.Linear(5, 3, bias=False))


def stacked_error(module: nn.Module, shape: tuple[int, ...]) -> float:
    """The largest difference between the stacked pass of four clients and one pass for each of them."""
    g = torch.Generator().manual_seed(0)
    like = next(module.parameters())
    x = torch.randn(4, 7, *shape, generator=g).to(like.dtype)
    params = {k: torch.randn(4, *p.shape, generator=g).to(p.dtype) / 3 for k, p in module.named_parameters()}
    out = Net(module).stacked(params, x)
    worst = 0.0
    for client in range(4):
        own = copy.deepcopy(module)
        own.load_state_dict({k: v[client] for k, v in params.items()}, strict=False)
        expected = own(x[client])
        assert out[client].shape == expected.shape
        worst = max(worst, (out[client] - expected).abs().max().item())
    return worst


@pytest.mark.parametrize("make", [small_net, nested, lambda: small_net().double(), lambda: nn.Linear(6, 2)])
def test_chains_of_linear_layers_give_the_same_by_matrix_products_as_one_by_one(make):
    assert Net(make()).chain is not None
    assert stacked_error(make(), (6,)) <= 1e-6


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (ConvNet(), (1, 4, 4)),
        (nn.Sequential(nn.Flatten(), nn.Linear(8, 3)), (2, 4)),
        (nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.Linear(4, 2)), (6,)),
        (small_net(), (2, 6)),
    ],
    ids=["convolutions", "flatten", "layer norm", "plain, but not on vectors"],
)
def test_other_models_give_the_same_by_vmap_as_one_by_one(module, shape):
    assert Net(module).chain is None or len(shape) > 1
    assert stacked_error(module, shape) <= 1e-6


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(one_activation, id="an activation used twice"),
        pytest.param(lambda: nn.Sequential(Residual(nn.Linear(6, 6), nn.Tanh()), nn.Linear(6, 3)), id="residual block"),
        pytest.param(lambda: nn.Sequential(nn.Linear(6, 6), nn.Tanh(), Doubled(6, 3)), id="a kind of linear layer"),
    ],
)
def test_chains_that_only_look_plain_give_the_same_stacked_as_one_by_one(make):
    torch.manual_seed(0)
    assert stacked_error(make(), (6,)) <= 1e-6


# -- features ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "head", "shape"),
    [
        (small_net(), "4", (6,)),
        (ConvNet(), "out", (1, 4, 4)),
        (nn.Sequential(nn.Linear(6, 5), nn.Sequential(nn.Tanh(), nn.Linear(5, 3))), "1", (6,)),
    ],
    ids=["chain", "convolutions", "a head of several layers"],
)
def test_the_head_on_the_features_is_the_whole_model(module, head, shape):
    model = Model(module, head)
    x = torch.randn(9, *shape, generator=torch.Generator().manual_seed(1))
    tried = model.tried(x[:2], "classification", 3)
    other = model.params.all.map(lambda v: v + 0.1)  # not the weights that it was tried with
    features = tried.features(other.select(model.params.body), x)
    assert not features.requires_grad
    tried.head_net.bind(other)
    with torch.no_grad():
        out = tried.head_net(features)
    own = copy.deepcopy(module)
    own.load_state_dict(other)
    torch.testing.assert_close(out, own(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("algorithm", [FedRep(head_epochs=3), FedPAC()], ids=lambda a: a.name)
def test_a_head_is_trained_on_features_of_a_lower_precision(algorithm):
    federation = federate(Digits().pool(0), Classes(3), clients=6, seed=0)
    torch.manual_seed(0)
    start, learned = InBfloat16().state_dict(), []
    for enabled in (False, True):
        module = InBfloat16(enabled)
        module.load_state_dict(start)
        run = simulate(algorithm, Model(module, "head"), federation, rounds=2)
        learned.append(torch.cat([(run.client_model(0)[name] - value).flatten() for name, value in start.items()]))
    exact, rounded = learned
    assert 0 < (rounded - exact).norm() < 0.05 * exact.norm()


@pytest.mark.parametrize(
    ("module", "head"),
    [(Scaled(), "head"), (deep_net(), ["10", "11"]), (deep_net(), "5"), (deep_net(), ()), (nn.Linear(4, 3), None)],
    ids=["output changed after the head", "two heads", "a middle layer", "no head", "all head"],
)
def test_where_the_output_is_not_the_heads_on_features_there_is_no_head_net(module, head):
    model = Model(module, head)
    width = next(module.parameters()).shape[1]
    tried = model.tried(torch.ones(2, width), "classification", 2 if width == 2 else 3)
    assert tried.head_net is None


def test_an_output_changed_in_place_after_the_head_has_no_head_net():
    model = Model(Scaled(in_place=True), "head")
    assert model.tried(torch.ones(2, 4), "classification", 3).head_net is None


def test_a_trial_leaves_no_hook_behind_even_after_an_error():
    model = Model(small_net(), "4")
    tried = model.tried(torch.zeros(2, 6), "classification", 3)
    with pytest.raises(UserError):
        model.tried(torch.zeros(2, 7), "classification", 3)
    tried.features(model.params.body, torch.zeros(2, 6))
    with pytest.raises(RuntimeError):
        tried.features(model.params.body, torch.zeros(2, 7))
    assert facts(model.module)[1] == facts(small_net())[1]


# -- losses and named models -------------------------------------------------------------------------------------------


def test_the_loss_of_classification_is_minus_the_log_probability_of_the_label():
    out = torch.tensor([[1.0, 2.0, 0.5], [0.0, 0.0, 0.0]])
    expected = -out.softmax(dim=1)[[0, 1], [1, 2]].log()
    torch.testing.assert_close(task_named("classification").losses(out, torch.tensor([1, 2])), expected)


def test_the_loss_of_regression_is_half_the_squared_error_summed_over_targets():
    out, y = torch.tensor([[1.0, 2.0], [0.0, -1.0]]), torch.tensor([[0.0, 4.0], [0.0, 0.0]])
    assert task_named("regression").losses(out, y).tolist() == [2.5, 0.5]
    one = torch.tensor([3.0, 1.0])
    for shape in ((2,), (2, 1)):
        assert task_named("regression").losses(one.reshape(shape), torch.tensor([1.0, 1.0])).tolist() == [2.0, 0.0]


@pytest.mark.parametrize("spec", [MLP(hidden=(7, 5)), MLP(hidden=()), LinearRepresentation(rank=4)], ids=str)
@pytest.mark.parametrize("shape", [(6,), (1, 4, 4)])
def test_named_models_fit_the_data_and_their_head_is_the_last_layer(spec, shape):
    model = build_model(spec, shape, outputs=3, seed=0)
    assert {len(v) for v in model.params.head.values()} == {3}
    assert model.tried(torch.zeros(2, *shape), "classification", 3).head_net is not None


def test_the_weights_of_a_named_model_come_from_the_seed_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, again, other = (build_model(MLP(), (6,), 3, seed).params.all for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[k], again[k]) for k in one)
    assert not any(torch.equal(one[k], other[k]) for k in one)


def test_a_named_model_has_the_type_of_the_samples():
    for dtype in ("float32", "float64"):
        params = build_model(MLP(), (6,), 3, seed=0, dtype=dtype).params.all
        assert {str(v.dtype) for v in params.values()} == {f"torch.{dtype}"}


def test_an_unknown_model_is_an_error_with_the_nearest_name():
    with pytest.raises(UserError, match=r"unknown model; given 'mpl'; .*did you mean 'mlp'\?"):
        MODELS.find("mpl")


def test_a_module_that_is_no_chain_of_layers_trains():
    run = simulate(FedRep(head_epochs=2), ConvNet(), images(), rounds=2)
    assert run.history[1]["train_loss"] < run.history[0]["train_loss"]


def test_a_layer_used_twice_is_looped_over_and_learns_the_same():
    runs = [simulate(FedAvg(), one_layer(), ragged(), rounds=2, engine=Engine(mode=m)) for m in ("auto", "loop")]
    assert "under two names" in runs[0].model.tried(torch.zeros(2, 6), "classification", 3).unstackable
    assert runs[0].server.model.keys() == dict(one_layer().named_parameters()).keys()
    with pytest.raises(UserError, match="cannot be stacked"):
        simulate(FedAvg(), one_layer(), ragged(), rounds=1, engine=Engine(mode="stacked"))


class Recurrent(nn.Module):
    """Something that torch.func.vmap does not take."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, 4, batch_first=True)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.lstm(x.reshape(len(x), 3, 2))[0][:, -1])


def test_a_module_that_cannot_be_stacked_is_looped_over():
    run = simulate(FedAvg(), Recurrent(), ragged(), rounds=1)
    loop = simulate(FedAvg(), Recurrent(), ragged(), rounds=1, engine=Engine(mode="loop"))
    assert run.accuracy is not None
    assert run.server.model.keys() == loop.server.model.keys()
