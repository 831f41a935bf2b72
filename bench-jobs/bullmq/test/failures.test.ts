import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createConnection, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { createServer as createTlsServer, type TlsOptions } from "node:tls";
import { eventually, RedisServer } from "./support/redis.js";
import { runTool, Tool, type Ended } from "./support/tool.js";

async function server(context: TestContext, ...start: Parameters<typeof RedisServer.start>): Promise<RedisServer> {
  const started = await RedisServer.start(...start);
  context.after(() => started.stop());
  return started;
}

function failed({ report, exitCode, seconds }: Ended, kind: string, code: number, pattern: RegExp): void {
  assert.deepEqual([report.status, report.failure?.kind, report.exitCode, exitCode], ["failed", kind, code, code]);
  assert.match(report.failure?.message ?? "", pattern);
  assert.ok(seconds < 25, `it took ${seconds.toString()} s`);
}

void test("a dead server is reported at once", async (context) => {
  const dead = await server(context);
  await dead.stop();
  const ended = await runTool(dead.port, ["-d", "30s"]);
  failed(ended, "connect", 4, /cannot connect to 127\.0\.0\.1:\d+: .*ECONNREFUSED/);
  assert.ok(ended.seconds < 8, `it took ${ended.seconds.toString()} s`);
  failed(await runTool(dead.port, ["-d", "30s", "--cluster"]), "connect", 4, /ECONNREFUSED/);
});

void test("a name without address is reported", async () => {
  const ended = await runTool(1, ["-d", "1s", "--host", "no-such-host.invalid"]);
  failed(ended, "nameResolution", 3, /cannot connect to no-such-host\.invalid:1: .*(ENOTFOUND|EAI_AGAIN)/);
});

void test("a server that accepts and stays silent is reported within the connect timeout", async (context) => {
  const silent = await server(context);
  silent.process.kill("SIGSTOP");
  const ended = await runTool(silent.port, ["-d", "30s", "--connect-timeout", "1s"]);
  silent.process.kill("SIGCONT");
  failed(ended, "connect", 4, /was not ready within 1 s/);
});

void test("a password is wanted, must be right, and is shown nowhere", async (context) => {
  const locked = await server(context, ["--requirepass", "open-sesame"], [], { password: "open-sesame" });
  failed(await runTool(locked.port, ["-d", "1s"]), "authentication", 5, /NOAUTH/);
  const wrong = await runTool(locked.port, ["-d", "1s"], { DRAGSTRIP_PASSWORD: "abracadabra" });
  failed(wrong, "authentication", 5, /WRONGPASS/);
  const right = await runTool(locked.port, ["-d", "300ms"], { DRAGSTRIP_PASSWORD: "open-sesame" });
  assert.equal(right.report.status, "completed", right.stderr);
  for (const { text, stdout, stderr } of [wrong, right]) {
    assert.doesNotMatch(text + stdout + stderr, /abracadabra|open-sesame/);
  }
});

void test("an ACL user logs in", async (context) => {
  const locked = await server(context);
  await locked.command("ACL", "SETUSER", "bench", "on", ">secret", "~*", "&*", "+@all");
  await locked.command("ACL", "SETUSER", "default", "resetpass");
  const ended = await runTool(locked.port, ["-d", "300ms", "--username", "bench"], { DRAGSTRIP_PASSWORD: "secret" });
  assert.equal(ended.report.status, "completed", ended.stderr);
  assert.equal(ended.report.configuration.authentication, "usernameAndPassword");
});

void test("a server that dies during the load fails the run and keeps the partial numbers", async (context) => {
  const dying = await server(context);
  const tool = Tool.start(dying.port, ["-d", "60s", "-w", "2", "--concurrency", "100"]);
  await eventually("jobs", async () => Number(await dying.command("GET", "b:{queue0}:id")) > 1000);
  await dying.stop();
  const ended = await tool.ended();
  failed(ended, "connectionLost", 7, /the connection to 127\.0\.0\.1:\d+ was lost/);
  assert.ok((ended.report.operations[0]?.count ?? 0) > 500, "the partial result is missing");
});

void test("a reader notices that the server dies", async (context) => {
  const dying = await server(context);
  const tool = Tool.start(dying.port, ["-d", "60s", "-w", "0", "-r", "1"]);
  const blocked = async (): Promise<boolean> => String(await dying.command("CLIENT", "LIST")).includes("cmd=bzpopmin");
  await eventually("a blocked reader", blocked);
  await dying.stop();
  failed(await tool.ended(), "connectionLost", 7, /was lost|closed/);
});

void test("a server that falls silent during the load fails the run", async (context) => {
  const stalled = await server(context);
  const tool = Tool.start(stalled.port, ["-d", "60s", "--concurrency", "10", "--response-timeout", "1s"]);
  await eventually("jobs", async () => Number(await stalled.command("GET", "b:{queue0}:id")) > 100);
  stalled.process.kill("SIGSTOP");
  const ended = await tool.ended();
  stalled.process.kill("SIGCONT");
  failed(ended, "responseTimeout", 8, /has not answered for 1 s/);
});

void test("a result that cannot be written is found out before the load", async (context) => {
  const idle = await server(context);
  const tool = Tool.start(idle.port, ["-d", "60s", "--json-out-file", "/nonexistent/result.json"]);
  await assert.rejects(tool.ended(), /exit code 11, stderr:\nerror: the result cannot be written/);
  assert.equal(await idle.command("DBSIZE"), 0);
});

/** A self-signed certificate for `name`; its directory is removed after the test. */
function certificate(context: TestContext, name: string): { cert: string; key: string } {
  const directory = mkdtempSync(join(tmpdir(), "bullmq-tls-"));
  context.after(() => { rmSync(directory, { recursive: true }); });
  const [cert, key] = [join(directory, "tls.crt"), join(directory, "tls.key")];
  const subject = ["-subj", `/CN=${name}`, "-addext", `subjectAltName=DNS:${name}`];
  const files = ["-keyout", key, "-out", cert];
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", ...subject, ...files], { stdio: "ignore" });
  return { cert, key };
}

/** A TLS front of a server, which says of each connection whether it resumed a session. */
async function tlsFront(context: TestContext, pems: TlsOptions, port: number): Promise<{ port: number; resumed: boolean[] }> {
  const resumed: boolean[] = [];
  const front = createTlsServer(pems, (client) => {
    resumed.push(client.isSessionReused());
    const server = createConnection(port, "127.0.0.1");
    for (const [from, to] of [[client, server], [server, client]] as const) {
      from.on("error", () => to.destroy());
      from.pipe(to);
    }
  });
  front.listen(0, "127.0.0.1");
  await once(front, "listening");
  context.after(() => front.close());
  return { port: (front.address() as AddressInfo).port, resumed };
}

void test("TLS sessions are never resumed, which Dragonfly would refuse", async (context) => {
  const { cert, key } = certificate(context, "db.example");
  const plain = await server(context);
  for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
    const pems = { cert: readFileSync(cert), key: readFileSync(key), maxVersion: version };
    const front = await tlsFront(context, pems, plain.port);
    const ended = await runTool(front.port, ["-d", "300ms", "-w", "2", "-r", "1", "-q", "2", "--concurrency", "4", "--tls", "--tls-insecure"]);
    assert.equal(ended.report.status, "completed", ended.stderr);
    assert.ok(front.resumed.length > 8, `${front.resumed.length.toString()} connections`);
    assert.ok(!front.resumed.includes(true), `${version}: a connection resumed another one's session`);
  }
});

void test("a server that refuses BullMQ's scripts is reported in one line", async (context) => {
  const strict = await server(context);
  await strict.command("ACL", "SETUSER", "default", "-evalsha", "-eval");
  const ended = await runTool(strict.port, ["-d", "1s"]);
  failed(ended, "errorReplies", 10, /^the server refused a command of BullMQ: NOPERM [^\n]*$/);
  assert.doesNotMatch(ended.stderr, /^ +at /m, "no places in the code");
});

void test("TLS is spoken, and the server's certificate is checked", async (context) => {
  const { cert, key } = certificate(context, "db.example");
  const options = ["--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert];
  const pems = { cert: readFileSync(cert), key: readFileSync(key) };
  const secure = await server(context, options, [], { tls: { ...pems, rejectUnauthorized: false } });
  const client = ["--tls", "--tls-cert-file", cert, "--tls-key-file", key];
  const named = ["--tls-ca-file", cert, "--tls-server-name", "db.example"];
  const good = await runTool(secure.port, ["-d", "300ms", ...client, ...named]);
  assert.equal(good.report.status, "completed", good.stderr);
  failed(await runTool(secure.port, ["-d", "1s", ...client]), "handshake", 6, /certificate/);
  const misnamed = ["--tls-ca-file", cert, "--tls-server-name", "other.example"];
  failed(await runTool(secure.port, ["-d", "1s", ...client, ...misnamed]), "handshake", 6, /other\.example/);
  const trusting = await runTool(secure.port, ["-d", "300ms", ...client, "--tls-insecure"]);
  assert.equal(trusting.report.status, "completed", trusting.stderr);
});
