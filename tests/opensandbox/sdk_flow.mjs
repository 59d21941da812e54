// The official npm SDK through everything that an agent framework asks of it; the twin of
// sdk_flow.py, whose steps and results it shares.
//
// usage: node sdk_flow.mjs SDK_FOLDER URL KEY [--proxy] [--policy] [--image=IMAGE]
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, url, key, ...flags] = process.argv.slice(2);
const load = createRequire(pathToFileURL(`${folder}/package.json`));
const { ConnectionConfig, Sandbox, SandboxManager } = await import(
  pathToFileURL(load.resolve("@alibaba-group/opensandbox")).href.replace("/cjs/index.cjs", "/index.js"));

const image = flags.find((f) => f.startsWith("--image="))?.slice(8) ?? "sg/base:local";
const connection = (apiKey) => new ConnectionConfig({ domain: url, apiKey, useServerProxy: flags.includes("--proxy") });
const config = connection(key);
const dir = `/tmp/flow-${randomUUID().slice(0, 8)}`;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
let box;

const make = (more = {}) => Sandbox.create({
  connectionConfig: config, image, timeoutSeconds: 600, resource: { cpu: "1", memory: "256Mi" },
  ...more, metadata: { flow: "npm", ...more.metadata } });
const told = (e) => ({
  exit: e.exitCode ?? null, out: e.logs.stdout.map((m) => m.text), err: e.logs.stderr.map((m) => m.text), id: !!e.id });

async function statusOf(call) {
  try {
    await call();
  } catch (why) {
    return why.statusCode ?? why.constructor.name;
  }
  return null;
}

async function bytes(stream) {
  let count = 0;
  for await (const piece of stream) count += piece.length;
  return count;
}

const steps = {
  async create() {
    box = await make({ env: { FLOW: "set" }, metadata: { one: "1" } });
    const info = await box.getInfo();
    return { state: info.status.state, metadata: info.metadata, image: info.image.uri, entrypoint: info.entrypoint,
      healthy: await box.isHealthy(), same: info.id === box.id, expires: info.expiresAt > info.createdAt };
  },
  async command() {
    const run = (text, opts) => box.commands.run(text, opts).then(told);
    return { both: await run("echo out; echo err >&2; exit 3"), env: await run("echo $X", { envs: { X: "y" } }),
      cwd: await run("pwd", { workingDirectory: "/usr" }), unicode: await run("printf 'zażółć\\n\\n🦀'") };
  },
  async timeout() {
    const began = Date.now();
    const ran = await box.commands.run("sleep 30", { timeoutSeconds: 1 });
    return { failed: ran.exitCode !== 0, soon: Date.now() - began < 15000 };
  },
  async background() {
    const ran = await box.commands.run("for i in 1 2 3; do echo $i; done; sleep 30", { background: true });
    let logs;
    for (let i = 0; i < 200; i++) {
      logs = await box.commands.getBackgroundCommandLogs(ran.id);
      if (logs.content.endsWith("3\n")) break;
      await sleep(50);
    }
    const again = await box.commands.getBackgroundCommandLogs(ran.id, logs.cursor);
    const before = await box.commands.getCommandStatus(ran.id);
    await box.commands.interrupt(ran.id);
    let after;
    for (let i = 0; i < 100; i++) {
      after = await box.commands.getCommandStatus(ran.id);
      if (!after.running) break;
      await sleep(50);
    }
    return { logs: logs.content, "nothing new": again.content, cursor: logs.cursor, running: before.running,
      stopped: !after.running };
  },
  async files() {
    const fs = box.files;
    const data = Uint8Array.from({ length: 102400 }, (_, i) => i % 256);
    await fs.createDirectories([{ path: dir, mode: 755 }]);
    await fs.writeFiles([{ path: `${dir}/a.txt`, data: "one\ntwo\nthree\n", mode: 644 },
      { path: `${dir}/sub/b.bin`, data, mode: 600 }]);
    const back = await fs.readBytes(`${dir}/sub/b.bin`);
    const seen = { text: await fs.readFile(`${dir}/a.txt`), binary: Buffer.compare(back, data) === 0,
      range: await fs.readFile(`${dir}/a.txt`, { range: "bytes=4-6" }),
      lines: await fs.readFile(`${dir}/a.txt`, { offset: 2, limit: 1 }) };
    const info = await fs.getFileInfo([`${dir}/a.txt`, `${dir}/sub/b.bin`]);
    seen.info = Object.fromEntries(Object.entries(info).sort().map(([p, i]) => [p.slice(dir.length), [i.size, i.mode, i.owner]]));
    seen.search = (await fs.search({ path: dir, pattern: "*.txt" })).map((i) => i.path.slice(dir.length));
    seen.list = (await fs.listDirectory({ path: dir, depth: 1 })).map((i) => i.path.slice(dir.length)).sort();
    await fs.replaceContents([{ path: `${dir}/a.txt`, oldContent: "two", newContent: "zwei" }]);
    await fs.moveFiles([{ src: `${dir}/a.txt`, dest: `${dir}/c.txt` }]);
    await fs.setPermissions([{ path: `${dir}/c.txt`, mode: 600 }]);
    seen.after = [await fs.readFile(`${dir}/c.txt`), (await fs.getFileInfo([`${dir}/c.txt`]))[`${dir}/c.txt`].mode];
    seen.stream = await bytes(fs.readBytesStream(`${dir}/sub/b.bin`));
    await fs.deleteFiles([`${dir}/c.txt`]);
    seen.missing = await statusOf(() => fs.readBytes(`${dir}/c.txt`));
    await fs.deleteDirectories([dir]);
    return seen;
  },
  async session() {
    const ident = await box.commands.createSession({ workingDirectory: "/usr" });
    const run = (text) => box.commands.runInSession(ident, text).then(told);
    const runs = [await run("pwd; X=kept"), await run("cd /tmp; echo $X; false"), await run("pwd; echo oops >&2")];
    await box.commands.deleteSession(ident);
    return { runs, gone: await statusOf(() => run("true")) };
  },
  async metrics() {
    const seen = await box.getMetrics();
    return { cpus: seen.cpuCount > 0, memory: 0 < seen.memoryUsedMiB && seen.memoryUsedMiB < seen.memoryTotalMiB };
  },
  async metadata() {
    await box.patchMetadata({ two: "2", one: null });
    const manager = SandboxManager.create({ connectionConfig: config });
    const found = await manager.listSandboxInfos({ metadata: { two: "2", flow: "npm" } });
    const mine = found.items.filter((i) => i.id === box.id);
    const nobody = await manager.listSandboxInfos({ metadata: { two: "3" } });
    await manager.close();
    const now = Object.fromEntries(["one", "two", "flow"].map((k) => [k, mine[0].metadata[k] ?? null]));
    return { now, found: mine.length, nobody: nobody.items.length };
  },
  async renew() {
    const wanted = await box.renew(1800);
    const info = await box.getInfo();
    return { same: Math.abs(new Date(info.expiresAt) - new Date(wanted.expiresAt)) < 2000 };
  },
  async pause() {
    const keep = await box.commands.run("echo $$ > /tmp/flow-kept; sleep 0; cat /tmp/flow-kept");
    await box.pause();
    const { state } = (await box.getInfo()).status;
    const twice = await statusOf(() => box.pause());
    box = await Sandbox.resume({ connectionConfig: config, sandboxId: box.id });
    const after = await box.commands.run("cat /tmp/flow-kept; rm /tmp/flow-kept");
    return { state, twice, resumed: (await box.getInfo()).status.state,
      kept: keep.logs.stdout[0].text === after.logs.stdout[0].text };
  },
  async connect() {
    const other = await Sandbox.connect({ connectionConfig: config, sandboxId: box.id });
    return told(await other.commands.run("echo again"));
  },
  async streams() {
    const when = [];
    await box.commands.run("for i in 1 2 3; do echo $i; sleep 0.3; done", undefined, { onStdout: () => void when.push(Date.now()) });
    return { events: when.length, spread: when.at(-1) - when[0] > 400 };
  },
  async policy() {
    if (!flags.includes("--policy")) return "not asked for";
    const bound = await make({ networkPolicy: { defaultAction: "deny", egress: [{ action: "allow", target: "pypi.example.test" }] } });
    try {
      await bound.patchEgressRules([{ action: "deny", target: "bad.example.test" }, { action: "allow", target: "*.example.test" }]);
      const now = await bound.getEgressPolicy();
      await bound.deleteEgressRules(["bad.example.test", "unknown.example.test"]);
      const then = await bound.getEgressPolicy();
      return [now, then].map((p) => [p.defaultAction, p.egress.map((r) => `${r.action} ${r.target}`).sort()]);
    } finally {
      await bound.kill();
    }
  },
  async kill() {
    await box.kill();
    return { info: await statusOf(() => box.getInfo()), again: await statusOf(() => box.kill()) };
  },
  async refused() {
    return await statusOf(() => Sandbox.create({ connectionConfig: connection("wrong"), image }));
  },
};

const seen = {}, seconds = {};
for (const [name, step] of Object.entries(steps)) {
  const began = Date.now();
  try {
    seen[name] = await Promise.race([step(), sleep(60000).then(() => { throw new Error("60 s"); })]);
  } catch (why) {
    seen[name] = { error: `${why.constructor.name}: ${why.message}`.slice(0, 600) };
    if (name === "create") break;
  }
  seconds[name] = (Date.now() - began) / 1000;
}
console.log(JSON.stringify({ steps: seen, seconds }, null, 1));
process.exit(0);
