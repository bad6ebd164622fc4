"""Walks to the point (3, 4) in small steps, and continues from where the previous attempt
stopped."""

import argparse
import json
import math
import os
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--fail-at", type=int, default=0, help="the step at which the first try fails")
options = parser.parse_args()

checkpoint = Path(os.environ["FAIRWAY_CHECKPOINT_DIR"], "walk.json")
state = {"step": 0, "x": 0.0, "y": 0.0}
if checkpoint.exists():
    state = json.loads(checkpoint.read_text())
    print(f"goes on from step {state['step']}", flush=True)

while state["step"] < options.steps:
    state["step"] += 1
    state["x"] += 0.02 * (3 - state["x"])
    state["y"] += 0.02 * (4 - state["y"])
    if state["step"] % 20 == 0:
        distance = math.hypot(3 - state["x"], 4 - state["y"])
        print(f"step={state['step']} distance={distance:.4f}", flush=True)
        draft = checkpoint.with_suffix(".new")
        draft.write_text(json.dumps(state))
        draft.replace(checkpoint)  # as a whole: this may be ended at any time
    if state["step"] == options.fail_at and os.environ["FAIRWAY_ATTEMPT"] == "0":
        raise SystemExit("failed on purpose")
