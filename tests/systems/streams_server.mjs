// node's HTTP/2 at a company: usage: streams_server.mjs ADDRESS CERTIFICATE KEY; prints its port.
//   GET /N     N octets, as fast as they are taken
//   POST /0    reads nothing, ever      POST /1    reads all, answers how much it was
import fs from "node:fs";
import http2 from "node:http2";
import { Readable } from "node:stream";

const [address, cert, key] = process.argv.slice(2);
const piece = Buffer.alloc(65536, "0123456789abcdef");
const server = http2.createSecureServer({
	cert: fs.readFileSync(cert), key: fs.readFileSync(key), settings: { maxConcurrentStreams: 1000, initialWindowSize: 262144 },
});

function* octets(left) {
	for (; left > 0; left -= piece.length)
		yield left < piece.length ? piece.subarray(0, left) : piece;
}

server.on("session", (s) => s.setLocalWindowSize(1 << 28));
server.on("sessionError", () => {});
server.on("stream", (stream, fields) => {
	stream.on("error", () => {});
	if (fields[":method"] === "GET") {
		stream.respond({ ":status": 200 });
		Readable.from(octets(Number(fields[":path"].slice(1)))).pipe(stream);
	} else if (fields[":path"] === "/1") {
		let n = 0;
		stream.on("data", (d) => { n += d.length; });
		stream.on("end", () => { stream.respond({ ":status": 200 }); stream.end(String(n)); });
	}
});
server.listen(0, address, () => console.log(server.address().port));
