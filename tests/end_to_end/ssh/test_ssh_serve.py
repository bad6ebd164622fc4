"""The example `examples/serve` on a node behind ssh, reached through `fairway tunnel`."""

import json
import signal
import urllib.request
from pathlib import Path
from typing import Any

from waiting import PATIENCE

from fairway_agent.fanout.launchers import free_port

# A network that uses the first ten pixels as the probabilities of the digits.
_MODEL = """
import numpy as np, os
eye = np.eye(64)
np.savez(os.environ["FAIRWAY_OUTPUT_MODEL"] + "/model.npz",
         w1=eye, b1=np.zeros(64), w2=eye[:, :10], b2=np.zeros(10))
"""


def test_serve_example_answers_requests_through_a_tunnel(
    fairway: Any, cluster: Any, repository: Path
) -> None:
    (fairway.folder / "model.py").write_text(_MODEL)
    model = fairway.job("python model.py", template="plain", outputs={"model": {}})
    train = fairway.submit(model, "--target", "local")
    assert fairway.within("wait", train).returncode == 0, fairway.within("logs", train).stdout
    example = repository / "examples/serve/serve.yaml"
    words = ("-s", f"params.model={train}", "-s", "params.port=0", "--target", "pair")
    serve = fairway.submit(example, *words)
    log = fairway.start("logs", "-f", serve)
    port = next(line.split()[-1] for line in log.stdout if "ready on port" in line)
    here = free_port()
    tunnel = fairway.start("tunnel", serve, port, "--local-port", str(here))
    assert f"localhost:{here}" in tunnel.stdout.readline()
    images = [[float(pixel == digit) for pixel in range(64)] for digit in (3, 9, 0)]
    body = json.dumps({"images": images}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{here}", body)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        assert json.loads(answer.read())["digits"] == [3, 9, 0]
    tunnel.send_signal(signal.SIGINT)
    tunnel.communicate(timeout=PATIENCE)
    assert fairway.within("cancel", serve).returncode == 0
    log.communicate(timeout=PATIENCE)
