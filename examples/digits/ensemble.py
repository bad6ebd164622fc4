"""Lets the networks of a sweep vote on the images that none of them was trained on.

Run by `finally:` of ensemble.yaml: FAIRWAY_TASKS_DIR has each task's output at TASK/model. A task
that failed has no model, and does not vote. The best single model is stored in `best`.
"""

import os
import shutil
import sys
from pathlib import Path

import numpy as np
from mlp import Network, load_digits


def main() -> None:
    """Prints how many images each network classifies correctly, and how many all of them
    together."""
    _, (images, labels) = load_digits(seed=0)
    votes, found = np.zeros((len(labels), 10)), {}
    for path in sorted(Path(os.environ["FAIRWAY_TASKS_DIR"]).glob("*/model/model.npz")):
        with np.load(path) as layers:
            weights = np.concatenate([layers[name].ravel() for name in ("w1", "b1", "w2", "b2")])
            network = Network(len(layers["b1"]), weights)
        probabilities = network.probabilities(images)
        votes += probabilities
        found[path] = float((probabilities.argmax(axis=1) == labels).mean())
        print(f"task {path.parent.parent.name}: {found[path]:.3f}")
    if not found:
        sys.exit("no task has kept a model")
    print(f"together: accuracy={float((votes.argmax(axis=1) == labels).mean()):.3f}")
    best = max(found, key=lambda path: found[path])
    shutil.copy(best, Path(os.environ["FAIRWAY_OUTPUT_BEST"], "model.npz"))


if __name__ == "__main__":
    main()
