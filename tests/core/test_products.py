"""Products add, scale and multiply as the matrices that they stand for."""

import pickle

import pytest
import torch

from manyheads import Tree
from manyheads.core.products import Product, add_times, formed, plus, product_of, scaled, times

C, OUT, IN, RANK = 3, 20, 30, 2


def product(seed: int, rank: int = RANK) -> Product:
    made = torch.Generator().manual_seed(seed)
    left, right = (torch.randn(shape, generator=made, dtype=torch.float64) for shape in ((C, OUT, rank), (C, rank, IN)))
    return Product(left, right)


def matrices() -> torch.Tensor:
    return torch.randn(C, OUT, IN, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


SCALES = {"a number": -0.7, "one": 1, "one each": torch.tensor([0.5, 0.0, -2.0], dtype=torch.float64)}


def beside(scale):
    return scale.reshape(-1, 1, 1) if isinstance(scale, torch.Tensor) else scale


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("value", [matrices(), product(1)], ids=["matrices", "product"])
@pytest.mark.parametrize("term", [matrices() + 1, product(2)], ids=["matrices", "product"])
def test_sums(value, term, scale):
    wanted = formed(value) + beside(scale) * formed(term)
    torch.testing.assert_close(formed(plus(value, term, scale)), wanted)
    assert isinstance(plus(value, term, scale), Product) == (isinstance(value, Product) and isinstance(term, Product))


def test_a_shared_value_is_one_of_each_client():
    shared = matrices()[0]
    torch.testing.assert_close(plus(shared, product(1), -0.5), shared - 0.5 * formed(product(1)))


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_multiples(scale):
    torch.testing.assert_close(formed(scaled(product(1), scale)), beside(scale) * formed(product(1)))


def test_products_with_vectors():
    h = torch.randn(C, 4, OUT, dtype=torch.float64)
    torch.testing.assert_close(times(h, product(1)), h @ formed(product(1)))
    torch.testing.assert_close(formed(product(1).mT), formed(product(1)).mT)
    out = torch.ones(C, 4, IN, dtype=torch.float64)
    add_times(out, h, product(1))
    torch.testing.assert_close(out, 1 + h @ formed(product(1)))


def test_factors_that_are_larger_than_the_product_are_multiplied_at_once():
    assert isinstance(product_of(*product(1, rank=11)), Product)  # 11 (20 + 30) < 20 x 30
    assert isinstance(product_of(*product(1, rank=12)), torch.Tensor)
    many = product(1, rank=6)
    assert isinstance(plus(many, many, 1), torch.Tensor)  # of rank 12


def test_a_tree_of_products_is_a_tree_of_matrices():
    plain = {"w": formed(product(1)), "b": torch.ones(C, OUT, dtype=torch.float64)}
    tree, same = Tree({**plain, "w": product(1)}), Tree(plain)
    each = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    for made in (
        lambda t: t, lambda t: 2 * (3 * t), lambda t: t * each, lambda t: t * torch.tensor(2.0), lambda t: same - 0.1 * t,
        lambda t: t - 0.5 * t, lambda t: t + same * each, lambda t: t.clone(), lambda t: t.select({"w"}) | {},
        lambda t: same.lerp(t, each / 4), lambda t: pickle.loads(pickle.dumps(t)),
    ):  # fmt: skip
        fresh = Tree(dict(tree.terms))
        found, wanted = made(fresh), made(same)
        assert list(found) == list(wanted)
        assert len(found) == len(wanted)
        for name in wanted:
            torch.testing.assert_close(found[name], wanted[name])
    assert isinstance(tree.terms["w"], Product)
    assert tree.numel == same.numel
    torch.testing.assert_close(tree.dot(same), same.dot(same))


def test_trees_with_different_names_do_not_add():
    with pytest.raises(KeyError, match="different names"):
        Tree({"a": torch.ones(1)}) + Tree({"b": torch.ones(1)})


@pytest.mark.parametrize("share", [torch.tensor(0.3), torch.tensor([0.0, 0.4, 1.0])])
def test_lerp_is_the_mixture(share):
    own, shared = (
        Tree({"w": torch.randn(C, 4, 5), "b": torch.randn(C)}),
        Tree({"w": torch.randn(4, 5), "b": torch.randn(())}),
    )
    found = shared.lerp(own, share)
    for name in own:
        for client in range(C):
            a = share[client] if share.ndim else share
            torch.testing.assert_close(found[name][client], a * own[name][client] + (1 - a) * shared[name])
