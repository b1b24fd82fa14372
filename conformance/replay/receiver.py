"""Receives push notifications, as a client's server would."""

import http.server
import threading

import verbatim


class Receiver:
    """Keeps what was posted to it, in order, until it is taken."""

    def __init__(self):
        self.lock = threading.Lock()
        self.events = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            """Answers 200 to every POST."""

            protocol_version = "HTTP/1.1"

            def do_POST(self):
                """Keeps one notification."""
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                event = {"path": self.path, "headers": headers, "body": verbatim.load(body)}
                with receiver.lock:
                    receiver.events.append(event)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                """Says nothing: the replayer reports."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def address(self):
        """Where it listens."""
        return f"127.0.0.1:{self.server.server_address[1]}"

    def take(self):
        """What came since the last time."""
        with self.lock:
            taken, self.events = self.events, []
        return taken

    def close(self):
        """Stops listening."""
        self.server.shutdown()
        self.server.server_close()
