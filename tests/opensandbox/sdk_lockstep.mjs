// The official npm SDK runs one command and tells each line the moment it has it.
//
// usage: node sdk_lockstep.mjs SDK_FOLDER URL KEY COMMAND
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { writeSync } from "node:fs";

const [folder, url, key, command] = process.argv.slice(2);
const load = createRequire(pathToFileURL(`${folder}/package.json`));
const { ConnectionConfig, Sandbox } = await import(
  pathToFileURL(load.resolve("@alibaba-group/opensandbox")).href.replace("/cjs/index.cjs", "/index.js"));

const box = await Sandbox.create({ connectionConfig: new ConnectionConfig({ domain: url, apiKey: key }),
  image: "sg/base:local", timeoutSeconds: 600, resource: { cpu: "1", memory: "256Mi" } });
const ran = await box.commands.run(command, undefined, { onStdout: (m) => void writeSync(1, `${m.text}\n`) });
writeSync(1, `exit ${ran.exitCode}\n`);
await box.kill();
