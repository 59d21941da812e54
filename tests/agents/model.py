"""A model that says what a script tells it: chat completions as OpenAI's API has them, streamed.

    model = Model([("bash", {"command": "id"})], tls=context)
    model.url                      # the base URL; close() ends it
    model.keys                     # what was shown as Authorization
    model.results                  # what the tools said, in order

A step names a tool by the end of its name, for agents put the server's name before it; its
arguments may be a function of the results so far.  Behind the last step it says "all done".
"""
import http.server
import json
import threading


class Model:
    def __init__(self, script, tls=None, address="127.0.0.1"):
        self.script, self.keys, self.results, self.wrong, self.tools = script, set(), [], [], []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                owner.answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.server.daemon_threads = True
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f"{'http' if tls is None else 'https'}://{address}:{self.port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, handler):
        asked = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        self.keys.add(handler.headers.get("Authorization"))
        if handler.path != "/v1/chat/completions" or not asked.get("stream"):
            self.wrong.append(f"{handler.path} {asked.get('stream')}")
        tools = [tool["function"]["name"] for tool in asked.get("tools", [])]
        results = [self.text(m["content"]) for m in asked["messages"] if m["role"] == "tool"]
        deltas = [({"role": "assistant", "content": "all done"}, None), ({}, "stop")]
        if tools:  # without any it is asked for a title
            self.tools, self.results = tools, results
        if tools and len(results) < len(self.script):
            deltas = self.call(len(results), tools, results)
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for delta, end in deltas:
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
                     "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
            self.put(handler, json.dumps(chunk))
        self.put(handler, "[DONE]")
        handler.wfile.write(b"0\r\n\r\n")

    @staticmethod
    def put(handler, event):
        data = f"data: {event}\n\n".encode()
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def call(self, step, tools, results):
        wanted, arguments = self.script[step]
        found = [tool for tool in tools if tool.endswith(wanted)]
        if not found:
            self.wrong.append(f"no {wanted} among {tools}")
            return [({"role": "assistant", "content": "no such tool"}, None), ({}, "stop")]
        text = json.dumps(arguments(results) if callable(arguments) else arguments)
        # In two pieces, as models stream them.
        return [({"role": "assistant", "tool_calls": [{"index": 0, "id": f"call_{step}", "type": "function",
                                                       "function": {"name": found[0], "arguments": ""}}]}, None),
                *[({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}, None) for piece in (text[:5], text[5:])],
                ({}, "tool_calls")]

    @staticmethod
    def text(content):
        return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
