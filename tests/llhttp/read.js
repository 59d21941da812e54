// What Node's own HTTP parser (llhttp) makes of messages.
//
// Standard input: one JSON object a line: {"kind": "request" or "response", "bytes": text of
// octets 0 to 255}.  Standard output, a line each: {"heads": how many heads were read,
// "messages": those that are complete, "error": its code or null}.
'use strict';
const { HTTPParser, methods, allMethods } = require('_http_common');
const readline = require('readline');

const HEADERS_MAX = 1 << 22;
const names = allMethods ?? methods;

function read(kind, bytes) {
  const isRequest = kind === 'request';
  const parser = new HTTPParser();
  const got = { heads: 0, messages: [], error: null };
  let message = null, isUpgrade = false;

  parser.initialize(isRequest ? HTTPParser.REQUEST : HTTPParser.RESPONSE, {}, HEADERS_MAX, 0);
  // Called early when there are many fields; the target comes with the first call.
  parser[HTTPParser.kOnHeaders] = (fields, url) => { parser.early = (parser.early ?? '') + (url ?? ''); };
  parser[HTTPParser.kOnHeadersComplete] = (major, minor, fields, method, url, status, reason, upgrade) => {
    got.heads++;
    message = { method: isRequest ? names[method] : null, target: isRequest ? (url ?? parser.early) : null,
                status: isRequest ? 0 : status, minor, body: '', upgrade: false };
    parser.early = undefined;
    const isTunnel = upgrade && message.method === 'CONNECT';
    message.upgrade = isUpgrade = upgrade;
    return isTunnel ? 2 : 0;
  };
  parser[HTTPParser.kOnBody] = (data, start, length) => {
    const part = length === undefined ? data : data.subarray(start, start + length);
    message.body += part.toString('latin1');
  };
  parser[HTTPParser.kOnMessageComplete] = () => { got.messages.push(message); message = null; };

  let end = parser.execute(Buffer.from(bytes, 'latin1'));
  if (!(end instanceof Error) && !isUpgrade)
    end = parser.finish();
  if (end instanceof Error)
    got.error = end.code;
  return got;
}

readline.createInterface({ input: process.stdin, crlfDelay: Infinity }).on('line', (line) => {
  const { kind, bytes } = JSON.parse(line);
  process.stdout.write(JSON.stringify(read(kind, bytes)) + '\n');
});
