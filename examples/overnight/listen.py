"""A receiver for trying out `notify:`: prints each message, and ends after COUNT of them."""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Receiver(BaseHTTPRequestHandler):
    """Handler of posted messages."""

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        print(message["text"], flush=True)

    def log_message(self, *_):
        """Logs nothing about requests."""


count, port = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 8765
with HTTPServer(("127.0.0.1", port), Receiver) as server:
    print(f"listening at http://127.0.0.1:{server.server_port}/", flush=True)
    for _ in range(count):
        server.handle_request()
