// Runs a job with the TypeScript SDK v1 client, which knows the legacy era only; see client_job.mjs.
import { clientInfo, job, load, main, openTransport, report } from "./client_job.mjs";

async function everyTool(client) {
  const tools = [];
  let cursor;
  do {
    const page = await client.listTools({ cursor });
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor);
  return tools;
}

await main(async () => {
  if (job.era === "modern") throw new Error("the v1 client has no modern era");
  const sdk = {
    ...load("@modelcontextprotocol/sdk/client/index.js"),
    ...load("@modelcontextprotocol/sdk/client/stdio.js"),
    ...load("@modelcontextprotocol/sdk/client/streamableHttp.js"),
  };
  const client = new sdk.Client(clientInfo);
  const transport = openTransport(sdk);
  // The client tells its transport the negotiated version and keeps no copy to ask for.
  const tell = transport.setProtocolVersion?.bind(transport);
  let negotiated;
  transport.setProtocolVersion = (version) => {
    negotiated = version;
    tell?.(version);
  };
  try {
    await client.connect(transport);
    await report(client, negotiated, () => everyTool(client));
  } finally {
    await client.close();
  }
});
