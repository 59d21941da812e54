"""A gRPC service as a company writes one with grpcio; messages are octets, so no compiler is needed.

    s = Invoices(leaf, check)         check: {name: [values]} of the metadata -> is the caller known
    s.port, s.seen, s.cancelled, s.close()

/acme.billing.v1.Invoices/: Get (unary), Send (client stream), List (server stream), Talk (both).
"""
import threading
from concurrent import futures

import grpc

from company import ADDRESS

SERVICE = "acme.billing.v1.Invoices"
ROOM = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Invoices(grpc.GenericRpcHandler):
    def __init__(self, leaf, check=None):
        self.check, self.seen = check, []
        self.cancelled, self.waits = threading.Event(), threading.Event()
        self.server = grpc.server(futures.ThreadPoolExecutor(32), handlers=[self], options=ROOM)
        cert, key = (open(f, "rb").read() for f in leaf)
        self.port = self.server.add_secure_port(f"{ADDRESS}:0", grpc.ssl_server_credentials([(key, cert)]))
        self.server.start()

    def close(self):
        self.server.stop(0.1).wait()

    def service(self, call):
        kinds = {"Get": grpc.unary_unary_rpc_method_handler(self.get), "Send": grpc.stream_unary_rpc_method_handler(self.send),
                 "List": grpc.unary_stream_rpc_method_handler(self.list), "Talk": grpc.stream_stream_rpc_method_handler(self.talk)}
        service, _, method = call.method[1:].partition("/")
        return kinds.get(method) if service == SERVICE else None

    def met(self, context):
        fields = {}
        for name, value in context.invocation_metadata():
            fields.setdefault(name, []).append(value)
        self.seen.append(fields)
        if self.check and not self.check(fields):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you")
        context.send_initial_metadata([("x-first", "begun")])
        context.set_trailing_metadata([("x-last", "ended"), ("x-last-bin", bytes(range(256)))])
        return fields

    def wait(self, context):
        """Until the caller has had enough."""
        over = threading.Event()
        context.add_callback(over.set)
        self.waits.set()
        if over.wait(20):
            self.cancelled.set()
        return b""

    def get(self, message, context):
        fields = self.met(context)
        if message == b"fail":
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no such invoice: 100 % \u00e9")
        if message == b"wait":
            return self.wait(context)
        if message == b"left":
            left = context.time_remaining()
            return (b"%f" % left) if left is not None else b"none"
        if message == b"shown":
            return repr(sorted(fields.items())).encode()
        if message.startswith(b"packed"):
            context.set_compression(grpc.Compression.Gzip)
        if message == b"half":
            context.set_code(grpc.StatusCode.DATA_LOSS)
        return message

    def send(self, messages, context):
        self.met(context)
        sizes = [len(m) for m in messages]
        return b"%d %d" % (len(sizes), sum(sizes))

    def list(self, message, context):
        self.met(context)
        if message == b"endless":
            context.add_callback(self.cancelled.set)
            while context.is_active():
                yield b"x" * 100000
            return
        for i in range(int(message)):
            yield b"%d" % i
        if message == b"7":
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "seven is enough")

    def talk(self, messages, context):
        self.met(context)
        for message in messages:
            yield message[::-1]
