"""Classifies posted images of digits: 64 pixels each, from 0 to 1.

    curl -d '{"images": [[0, 0.3, …]]}' localhost:8000

It listens only on this node's loopback, to which `fairway tunnel` forwards.
"""

import argparse
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

PIXELS = 64
LARGEST = 1 << 20  # bytes of a request


class Handler(BaseHTTPRequestHandler):
    """One request: GET is a health probe, POST classifies images."""

    layers: dict[str, np.ndarray]

    def do_GET(self) -> None:
        """Answers a probe: the server is ready."""
        self.answer(200, {"ready": True})

    def do_POST(self) -> None:
        """Answers with the digit on each image, and its probability."""
        try:
            length = int(self.headers.get("Content-Length") or 0)
            images = np.array(json.loads(self.rfile.read(min(length, LARGEST)))["images"], float)
            if images.ndim != 2 or images.shape[1] != PIXELS:
                raise ValueError(f"images of {PIXELS} pixels each are wanted")
        except (KeyError, TypeError, ValueError) as error:
            self.answer(400, {"error": str(error)})
            return
        hidden = np.maximum(images @ self.layers["w1"] + self.layers["b1"], 0.0)
        logits = hidden @ self.layers["w2"] + self.layers["b2"]
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        probable = powers / powers.sum(axis=1, keepdims=True)
        found = {"digits": probable.argmax(axis=1), "probable": probable.max(axis=1).round(4)}
        self.answer(200, {name: values.tolist() for name, values in found.items()})

    def answer(self, status: int, facts: dict[str, object]) -> None:
        """Sends an answer as JSON."""
        body = json.dumps(facts).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serves until it is cancelled."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8000)
    with np.load(Path(os.environ["FAIRWAY_INPUT_MODEL"], "model.npz")) as file:
        Handler.layers = dict(file)
    server = ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler)
    print(f"ready on port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
