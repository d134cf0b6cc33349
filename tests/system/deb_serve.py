import functools
import http.server
import sys
import threading

handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="/packages/apt")
with http.server.ThreadingHTTPServer(("127.0.0.1", 8080), handler) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("serves", flush=True)
    sys.stdin.read()
