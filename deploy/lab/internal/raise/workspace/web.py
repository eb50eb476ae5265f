#!/usr/bin/python3
"""web PORT TEXT: answers every GET with TEXT. It stands where Jupyter and others stand in real images."""
import http.server
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (sys.argv[2] + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Handler).serve_forever()
