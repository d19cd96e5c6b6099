"""Trees add, scale and broadcast like vectors; states go to flat tensors, to bytes, and back."""

import copy
import pickle

import pytest
import torch

from manyheads import Params, State, Tree
from manyheads.core.trees import aligned

C = 3


def server_tree() -> Tree:
    return Tree({"w": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "b": torch.tensor([5.0, 6.0]), "s": torch.tensor(7.0)})


def cohort_tree() -> Tree:
    g = torch.Generator().manual_seed(0)
    return Tree({k: torch.randn(C, *v.shape, generator=g) for k, v in server_tree().items()})


def state() -> State:
    counts = torch.tensor([4, 5], dtype=torch.int64)
    return State(body=server_tree(), none=Tree(), counts=counts, scalar=torch.tensor(2.5, dtype=torch.float64))


def assert_same(a, b):
    assert list(a) == list(b)
    for name in a:
        assert a[name].dtype == b[name].dtype
        torch.testing.assert_close(a[name], b[name], rtol=0, atol=0)


@pytest.mark.parametrize("op", [torch.add, torch.sub])
def test_a_server_tree_broadcasts_against_each_client_on_either_side(op):
    server, cohort = server_tree(), cohort_tree()
    symbol = {torch.add: lambda a, b: a + b, torch.sub: lambda a, b: a - b}[op]
    left, right = symbol(server, cohort), symbol(cohort, server)
    for name in server:
        for client in range(C):
            torch.testing.assert_close(left[name][client], op(server[name], cohort[name][client]), rtol=0, atol=0)
            torch.testing.assert_close(right[name][client], op(cohort[name][client], server[name]), rtol=0, atol=0)


def test_scaling_by_a_number_scales_every_leaf_from_both_sides():
    tree = server_tree()
    assert_same(0.5 * tree, tree * 0.5)
    assert_same(2 * (0.5 * tree), tree)
    assert_same(tree * torch.tensor(2.0), tree + tree)


def test_scaling_by_one_number_per_client_scales_each_client_by_its_own():
    cohort, scale = cohort_tree(), torch.tensor([0.0, 1.0, -2.0])
    for scaled in (cohort * scale, scale * cohort):
        for name in cohort:
            for client in range(C):
                torch.testing.assert_close(scaled[name][client], cohort[name][client] * scale[client], rtol=0, atol=0)


def test_adding_a_tree_that_lacks_names_is_an_error():
    with pytest.raises(KeyError, match="b"):
        server_tree() + Tree({"w": torch.zeros(2, 2)})


def test_adding_a_tree_that_has_more_names_is_an_error():
    with pytest.raises(KeyError):
        Tree({"w": torch.zeros(2, 2)}) + server_tree()


def test_join_takes_the_right_hand_leaf_and_select_keeps_the_order():
    tree = server_tree()
    joined = tree | {"b": torch.zeros(2), "new": torch.ones(1)}
    assert list(joined) == ["w", "b", "s", "new"]
    assert joined["b"].tolist() == [0, 0]
    assert list(tree.select({"s", "w"})) == ["w", "s"]


def test_params_all_is_body_and_head_together():
    tree = server_tree()
    params = Params(tree.select({"w"}), tree.select({"b", "s"}))
    assert_same(params.all, tree)


def test_sizes_count_elements_and_bytes():
    assert server_tree().numel == 7
    assert server_tree().nbytes == 28
    assert state().nbytes == 28 + 2 * 8 + 8
    assert Tree().numel == Tree().nbytes == State().nbytes == 0


def test_a_tree_cannot_be_changed_through_its_mapping_attributes_or_source():
    source = {"w": torch.ones(1)}
    tree = Tree(source)
    source["w"] = torch.zeros(1)
    source["more"] = torch.zeros(1)
    assert tree["w"].item() == 1
    assert list(tree) == ["w"]
    with pytest.raises(TypeError):
        tree["w"] = torch.zeros(1)
    with pytest.raises(AttributeError):
        tree.w = torch.zeros(1)


def test_arithmetic_leaves_its_operands_as_they_were_and_clone_shares_no_memory():
    tree, before = server_tree(), server_tree()
    tree + tree, tree - tree, 2 * tree, tree | {"b": torch.zeros(2)}
    tree.clone()["w"].zero_()
    assert_same(tree, before)


def test_a_multiple_in_a_sum_is_the_multiple_added():
    tree, other = server_tree(), 3 * server_tree()
    for got, want in (
        (tree - 0.5 * other, lambda a, b: a - 0.5 * b),
        (0.5 * tree + 0.25 * other, lambda a, b: 0.5 * a + 0.25 * b),
        (tree + 2 * (0.5 * other), lambda a, b: a + b),
    ):
        assert_same(got, tree.map(want, other))
    multiple = 0.5 * tree
    assert_same(tree - multiple, multiple)  # looked at after it was part of a sum
    whole = Tree({"count": torch.tensor([2, 4])})
    assert torch.equal((whole + 0.5 * whole)["count"], torch.tensor([3.0, 6.0]))
    with pytest.raises(KeyError):
        tree - 0.5 * Tree({"w": tree["w"]})


def test_a_state_cannot_be_changed_and_names_what_it_has():
    value = state()
    with pytest.raises(AttributeError, match="a State is a value"):
        value.body = Tree()
    with pytest.raises(TypeError):
        value["body"] = Tree()
    with pytest.raises(AttributeError, match=r"body.*not 'boody'"):
        _ = value.boody


def test_flat_and_unflat_are_inverse_also_with_an_empty_tree_and_a_bare_tensor():
    value = state()
    assert list(value.flat) == ["body/w", "body/b", "body/s", "counts", "scalar"]
    back = value.unflat(dict(reversed(value.flat.items())))
    assert list(back) == list(value)
    assert_same(back.flat, value.flat)
    assert isinstance(back.none, Tree)
    assert len(back.none) == 0


def test_unflat_reports_a_missing_leaf():
    leaves = state().flat
    del leaves["body/b"]
    with pytest.raises(KeyError, match="body/b"):
        state().unflat(leaves)


def test_map_reaches_every_leaf_of_a_state():
    doubled = state().map(lambda v: v * 2)
    assert_same(doubled.flat, {k: v * 2 for k, v in state().flat.items()})


@pytest.mark.parametrize("through", [lambda v: pickle.loads(pickle.dumps(v)), copy.deepcopy])
@pytest.mark.parametrize("value", [state(), State(), State(only=Tree())])
def test_a_state_survives_pickling_and_copying(through, value):
    back = through(value)
    assert list(back) == list(value)
    assert {k: type(v) for k, v in back.items()} == {k: type(v) for k, v in value.items()}
    assert_same(back.flat, value.flat)


def test_a_pickled_tree_keeps_values_strides_and_needs_no_gradient():
    weight = torch.arange(6.0).reshape(2, 3).T.requires_grad_()
    back = pickle.loads(pickle.dumps(Tree({"w": weight, "mask": torch.tensor([True, False])})))
    assert back["w"].tolist() == weight.tolist()
    assert not back["w"].requires_grad
    assert back["mask"].tolist() == [True, False]
    back["w"].add_(1)  # an own, writable copy
    assert weight[0, 0].item() == 0


def test_an_unpickled_tree_shares_no_memory_with_the_original():
    tree = server_tree()
    pickle.loads(pickle.dumps(tree))["w"].zero_()
    assert_same(tree, server_tree())


def test_values_from_elsewhere_are_put_where_torch_would_put_them():
    """Products may differ in the last bit by where their factors lie, so a pipe or a file must not decide that."""
    raw = torch.zeros(100, dtype=torch.uint8)
    apart = raw[4:].view(torch.float32)[:20]
    assert apart.data_ptr() % 64
    moved = aligned(apart)
    assert moved.data_ptr() % 64 == 0
    assert torch.equal(moved, apart)
    assert aligned(moved) is moved
    tree = Tree({"a": apart})
    again = pickle.loads(pickle.dumps(tree))
    assert again["a"].data_ptr() % 64 == 0
