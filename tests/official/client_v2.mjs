// Runs a job with the TypeScript SDK v2 client; see client_job.mjs.
import { clientInfo, job, load, main, openTransport, report } from "./client_job.mjs";

await main(async () => {
  const sdk = { ...load("@modelcontextprotocol/client"), ...load("@modelcontextprotocol/client/stdio") };
  const mode = job.era === "modern" ? { pin: "2026-07-28" } : "legacy";
  const client = new sdk.Client(clientInfo, { versionNegotiation: { mode } });
  try {
    await client.connect(openTransport(sdk));
    await report(client, client.getNegotiatedProtocolVersion(), async () => (await client.listTools()).tools);
  } finally {
    await client.close();
  }
});
