"""The digits and a network for them, in plain numpy; nothing here depends on MPI."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Examples = tuple[Floats, NDArray[np.int64]]  # images (n, 64), pixels from 0 to 1; labels (n,)

PIXELS, DIGITS = 64, 10


def load_digits(seed: int, held_out: float = 0.2) -> tuple[Examples, Examples]:
    """Returns the 1,797 images that come with scikit-learn: a training set and a held-out set.

    The same seed always holds out the same images.
    """
    from sklearn import datasets  # slow to import, and only one rank loads the data

    images, labels = datasets.load_digits(return_X_y=True)
    images, labels = images / 16.0, labels.astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(images))
    test, learn = np.split(order, [int(held_out * len(order))])
    return (images[learn], labels[learn]), (images[test], labels[test])


def initial_weights(hidden: int, seed: int) -> Floats:
    """Returns the weights of an untrained network: He's normal initialisation, and no bias."""
    rng = np.random.default_rng(seed)
    w1 = rng.normal(0.0, np.sqrt(2.0 / PIXELS), PIXELS * hidden)
    w2 = rng.normal(0.0, np.sqrt(2.0 / hidden), hidden * DIGITS)
    return np.concatenate([w1, np.zeros(hidden), w2, np.zeros(DIGITS)])


class Network:
    """64 pixels, one hidden layer of rectified linear units, 10 digits.

    All parameters are in one vector `weights`, so that one all-reduce handles the entire gradient
    and one array is the model. `layers` are views of it: both change together.
    """

    def __init__(self, hidden: int, weights: Floats) -> None:
        shapes = {"w1": (PIXELS, hidden), "b1": (hidden,), "w2": (hidden, DIGITS), "b2": (DIGITS,)}
        ends = np.cumsum([np.prod(shape) for shape in shapes.values()])
        parts = np.split(weights, ends[:-1])
        self.layers: dict[str, Floats] = {
            name: part.reshape(shape)
            for (name, shape), part in zip(shapes.items(), parts, strict=True)
        }

    def _forward(self, images: Floats) -> tuple[Floats, Floats]:
        hidden = np.maximum(images @ self.layers["w1"] + self.layers["b1"], 0.0)
        return hidden, hidden @ self.layers["w2"] + self.layers["b2"]

    def loss_and_gradient(self, examples: Examples) -> tuple[float, Floats]:
        """Returns the cross-entropy and its gradient, a vector like `weights`.

        Both are sums over the images rather than means, so that those of several ranks add up.
        """
        images, labels = examples
        hidden, logits = self._forward(images)
        logits -= logits.max(axis=1, keepdims=True)
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        rows = np.arange(len(labels))
        error = np.exp(log_p)
        error[rows, labels] -= 1.0
        back = (error @ self.layers["w2"].T) * (hidden > 0.0)
        gradients = (images.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0))
        return -float(log_p[rows, labels].sum()), np.concatenate([g.ravel() for g in gradients])

    def probabilities(self, images: Floats) -> Floats:
        """Returns the probability of each digit for each image, (n, 10)."""
        logits = self._forward(images)[1]
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def count_correct(self, examples: Examples) -> int:
        """Returns how many images the network classifies correctly."""
        images, labels = examples
        return int((self._forward(images)[1].argmax(axis=1) == labels).sum())
