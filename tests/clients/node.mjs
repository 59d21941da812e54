// Node as its users use it: fetch where nothing stands between, http and https through a proxy.
//
// usage: node.mjs SCHEME FEATURE...    a line for each: "FEATURE ok" or what was wrong
import crypto from 'node:crypto';
import http from 'node:http';
import https from 'node:https';
import { Readable } from 'node:stream';
import tls from 'node:tls';

const [scheme, ...features] = process.argv.slice(2);
const www = `${scheme}://www.example.test`;
const mib = Buffer.from('0123456789abcdef'.repeat(65536));
const proxy = process.env[`${scheme}_proxy`] ? new URL(process.env[`${scheme}_proxy`]) : null;
const login = proxy?.username
  ? { 'proxy-authorization': 'Basic ' + Buffer.from(`${proxy.username}:${proxy.password}`).toString('base64') } : {};
const agent = new (scheme === 'https' ? https : http).Agent({ keepAlive: true, maxSockets: 1 });

function expect(isSo, what) {
  if (!isSo) throw new Error(JSON.stringify(what));
}

function connect(options, done) {
  const ask = http.request({ host: proxy.hostname, port: proxy.port, method: 'CONNECT', agent: false,
    path: `${options.host}:443`, headers: { host: `${options.host}:443`, ...login } });
  ask.on('connect', (answer, socket) => answer.statusCode === 200
    ? done(null, tls.connect({ socket, servername: options.host }))
    : done(new Error(`CONNECT gave ${answer.statusCode}`)));
  ask.on('error', done);
  ask.end();
}
if (proxy && scheme === 'https') agent.createConnection = connect;

function byProxy(url, { method = 'GET', body, follow = true } = {}) {
  const u = new URL(url);
  const how = scheme === 'https' ? { host: u.hostname, port: 443, path: u.pathname + u.search, agent }
    : { host: proxy.hostname, port: proxy.port, path: url, agent, headers: { host: u.host, ...login } };
  return new Promise((resolve, reject) => {
    const ask = (scheme === 'https' ? https : http).request({ method, ...how }, answer => {
      if (answer.statusCode === 302 && follow) {
        answer.resume();
        resolve(byProxy(answer.headers.location));
        return;
      }
      resolve({ status: answer.statusCode, headers: new Headers(answer.headers), body: answer });
    });
    ask.on('error', reject);
    if (body && !Buffer.isBuffer(body)) {
      (async () => { for await (const part of body) ask.write(part); ask.end(); })();
    } else {
      if (body) ask.setHeader('content-length', body.length);
      ask.end(body);
    }
  });
}

async function byFetch(url, { method = 'GET', body, follow = true } = {}) {
  const how = { method, body, redirect: follow ? 'follow' : 'manual' };
  if (body && !Buffer.isBuffer(body)) Object.assign(how, { body: Readable.toWeb(Readable.from(body)), duplex: 'half' });
  const r = await fetch(url, how);
  return { status: r.status, headers: r.headers, body: r.body ?? [] };
}

const request = proxy ? byProxy : byFetch;

async function whole(url, options) {
  const r = await request(url, options);
  const parts = [];
  for await (const part of r.body) parts.push(part);
  return { ...r, data: Buffer.concat(parts) };
}

function* parts() {
  for (let at = 0; at < mib.length; at += 100000) yield mib.subarray(at, at + 100000);
}

const can = {
  async get(host = 'www') {
    const r = await whole(`${scheme}://${host}.example.test/small`);
    expect(r.status === 200 && String(r.data) === `small thing of ${host}.example.test\n`, [r.status, String(r.data)]);
  },
  ipv6: () => can.get('six'),
  async post() {
    const r = await whole(`${www}/post`, { method: 'POST', body: mib });
    expect(r.status === 200 && /^1048576 .* length/.test(String(r.data)), [r.status, String(r.data)]);
  },
  async chunked() {
    const r = await whole(`${www}/post`, { method: 'POST', body: parts() });
    expect(r.status === 200 && /^1048576 .* chunked/.test(String(r.data)), [r.status, String(r.data)]);
  },
  async big() {
    const r = await whole(`${www}/big`);
    const mib256 = Buffer.from(Array.from({ length: 1 << 20 }, (_, i) => i & 255));
    expect(r.status === 200 && r.data.length === 20 << 20 && r.data.subarray(19 << 20).equals(mib256), [r.status, r.data.length]);
  },
  async keepalive() {
    const peers = new Set();
    for (let i = 0; i < 20; i++) peers.add((await whole(`${www}/small`)).headers.get('x-peer'));
    expect(peers.size <= (proxy ? 1 : 2), [...peers]); // fetch may open two at first
  },
  async head() {
    const r = await whole(`${www}/small`, { method: 'HEAD' });
    expect(r.status === 200 && r.headers.get('content-length') === '32' && r.data.length === 0, [r.status, r.data.length]);
  },
  async redirect() {
    const r = await whole(`${www}/redirect`);
    expect(r.status === 200 && String(r.data) === 'small thing of other.example.test\n', [r.status, String(r.data)]);
  },
  async 'redirect-denied'() {
    expect((await whole(`${www}/redirect-denied`, { follow: false })).status === 302, 'no redirect');
    let r;
    try {
      r = await whole(`${www}/redirect-denied`);
    } catch {
      return;
    }
    expect(r.status === 403 && String(r.data).includes('denied_by_policy'), [r.status, String(r.data)]);
  },
  async sse() {
    const id = crypto.randomUUID();
    let n = 0;
    agent.maxSockets = 2;
    for await (const part of (await request(`${www}/sse?id=${id}`)).body) {
      expect(Buffer.from(part).toString() === `data: event ${n}\n\n`, [n, Buffer.from(part).toString()]);
      await whole(`${www}/ack?id=${id}&n=${n++}`);
    }
    expect(n === 5, n);
  },
};

for (const feature of features) {
  try {
    await can[feature]();
    console.log(feature, 'ok');
  } catch (why) {
    console.log(feature, String(why), String(why.cause ?? ''));
  }
}
process.exit(0);
