"""Networks as people write them: classes, with functions in their forward."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from manyheads import Model
from manyheads.core.randomness import Purpose, torch_seeded

__all__ = ["lenet", "own_mlp", "resnet"]


class OwnMLP(nn.Module):
    """The MLP 784-512-256-64-10."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(784, 512), nn.Linear(512, 256), nn.Linear(256, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(x.size(0), -1)
        for layer in (self.fc1, self.fc2, self.fc3):
            x = functional.relu(layer(x))
        return self.head(x)


class LeNet(nn.Module):
    """LeNet-5 for images of 32 x 32 pixels in colour: 62,006 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.head = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2).flatten(1)
        return self.head(functional.relu(self.fc2(functional.relu(self.fc1(x)))))


class Block(nn.Module):
    """Two 3x3 convolutions with group norms, and what goes past them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(8, outputs), nn.GroupNorm(8, outputs)
        self.past = nn.Sequential()
        if stride > 1:
            self.past = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(8, outputs))

    def forward(self, x: Tensor) -> Tensor:
        out = self.norm2(self.conv2(functional.relu(self.norm1(self.conv1(x)))))
        return functional.relu(out + self.past(x))


class ResNet8(nn.Module):
    """The ResNet for CIFAR with one block a stage, and group norm instead of batch norm: 78,042 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.GroupNorm(8, 16)
        self.blocks = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(functional.relu(self.norm(self.conv(x))))
        return self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))


def _made(module: type[nn.Module]) -> Model:
    with torch_seeded(0, Purpose.MODEL):
        return Model(module(), head="head")


def own_mlp() -> Model:
    return _made(OwnMLP)


def lenet() -> Model:
    return _made(LeNet)


def resnet() -> Model:
    return _made(ResNet8)
