// What both client scripts share: argv[2] is the job, stdout gets one JSON object.
//
// job: {"transport": "stdio", "command": ["program", "argument", ...], "env": {...}, "cwd": "..."}
//   or {"transport": "http", "url": "...", "headers": {...}}
//   and {"era": "modern" | "legacy", "calls": [{"name": "...", "arguments": {...}}, ...]}
// The npm packages are found in the node_modules directory named by TEST_NODE_MODULES.
import { createRequire } from "node:module";

export const job = JSON.parse(process.argv[2]);
export const load = createRequire(`${process.env.TEST_NODE_MODULES}/`);
export const clientInfo = { name: "carrel-tests", version: "1" };

export function openTransport({ StdioClientTransport, getDefaultEnvironment, StreamableHTTPClientTransport }) {
  if (job.transport === "http") {
    return new StreamableHTTPClientTransport(new URL(job.url), { requestInit: { headers: job.headers } });
  }
  const [command, ...args] = job.command;
  const env = { ...getDefaultEnvironment(), ...job.env };
  return new StdioClientTransport({ command, args, env, cwd: job.cwd });
}

// `client` is connected; `listTools` returns every page's tools.
export async function report(client, protocolVersion, listTools) {
  const tools = await listTools();
  const results = [];
  for (const call of job.calls ?? []) {
    results.push(await client.callTool(call).catch((error) => ({ error: described(error) })));
  }
  console.log(JSON.stringify({ server: client.getServerVersion(), protocolVersion, tools, results }));
}

export async function main(run) {
  try {
    await run();
  } catch (error) {
    console.log(JSON.stringify({ error: described(error) }));
    process.exitCode = 1;
  }
}

function described(error) {
  return { code: error.code ?? null, message: error.message };
}
