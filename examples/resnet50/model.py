"""ResNet in plain PyTorch: 50 layers of bottleneck blocks, or 18 of basic ones.

The networks of "Deep Residual Learning for Image Recognition" (He et al., 2015), with the
stride of a bottleneck in its 3×3 convolution and the last normalisation of each block begun
at zero, as "Accurate, Large Minibatch SGD" (Goyal et al., 2017) trains them.
"""

from torch import Tensor, nn

# Blocks in each of the four stages, by the number of layers.
STAGES = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    """Returns a convolution that keeps the image's size, followed by its normalisation."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )


class Block(nn.Module):
    """Some convolutions, and a shortcut around them.

    `width` is the number of channels between the convolutions. A bottleneck has four times as many
    output channels, a basic block as many.
    """

    def __init__(self, inputs: int, width: int, stride: int, *, bottleneck: bool) -> None:
        super().__init__()
        self.outputs = 4 * width if bottleneck else width
        if bottleneck:
            self.convolutions = nn.Sequential(
                convolution(inputs, width, 1),
                nn.ReLU(inplace=True),
                convolution(width, width, 3, stride),
                nn.ReLU(inplace=True),
                convolution(width, self.outputs, 1),
            )
        else:
            self.convolutions = nn.Sequential(
                convolution(inputs, width, 3, stride),
                nn.ReLU(inplace=True),
                convolution(width, width, 3),
            )
        # What goes past is changed only where the shape is.
        same = stride == 1 and inputs == self.outputs
        self.past = nn.Identity() if same else convolution(inputs, self.outputs, 1, stride)
        self.relu = nn.ReLU(inplace=True)
        self.convolutions[-1].get_submodule("1").get_parameter("weight").data.zero_()

    def forward(self, images: Tensor) -> Tensor:
        """Maps (n, inputs, h, w) to (n, outputs, h / stride, w / stride)."""
        out: Tensor = self.relu(self.convolutions(images) + self.past(images))
        return out


class ResNet(nn.Module):
    """Maps images (n, 3, size, size), size 32 or more, to the logits of their classes (n, classes).

    `width` is the number of channels of the first stage: 64 in the paper, fewer for a toy.
    """

    def __init__(self, depth: int = 50, classes: int = 1000, width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            convolution(3, width, 7, stride=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        blocks: list[Block] = []
        channels = width
        for stage, count in enumerate(STAGES[depth]):
            for number in range(count):
                stride = 2 if stage and number == 0 else 1
                block = Block(channels, width << stage, stride, bottleneck=depth >= 50)
                channels = block.outputs
                blocks.append(block)
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Returns the logits of each image."""
        logits: Tensor = self.head(self.blocks(self.stem(images)))
        return logits

    @property
    def parameter_count(self) -> int:
        """Number of trained parameters."""
        return sum(each.numel() for each in self.parameters())
