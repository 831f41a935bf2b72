import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { eventually, RedisCluster, RedisServer } from "./support/redis.js";
import { runTool, Tool } from "./support/tool.js";

let cluster: RedisCluster;
let port: number;
before(async () => {
  cluster = await RedisCluster.start();
  port = cluster.nodes[0]?.port ?? 0;
});
after(async () => {
  await cluster.stop();
});

void test("writers and readers load all shards of a cluster, and clean up on all of them", async () => {
  const options = ["-d", "1s", "-w", "1", "-r", "1", "-q", "8", "--concurrency", "50", "--cluster"];
  const { report, stderr } = await runTool(port, options);
  assert.equal(report.status, "completed", stderr);
  assert.ok(report.operations.every((operation) => operation.count > 0), "both add and process");
  assert.equal(report.queues?.found, report.queues?.expected);
  assert.equal(report.cleanup?.complete, true);
  assert.equal(await cluster.size(), 0);
});

void test("the queues of a cluster lie on several nodes", async () => {
  await runTool(port, ["-d", "300ms", "-q", "8", "--concurrency", "8", "--cluster", "--keep-keys"]);
  const sizes = await Promise.all(cluster.nodes.map((node) => node.command("DBSIZE")));
  assert.ok(sizes.every((size) => Number(size) > 0), `keys per node: ${sizes.join(", ")}`);
  await Promise.all(cluster.nodes.map((node) => node.command("FLUSHALL")));
});

void test("a cluster without --cluster is reported before any load", async () => {
  const { report, exitCode } = await runTool(port, ["-d", "30s", "-q", "8"]);
  assert.deepEqual([exitCode, report.failure?.kind], [9, "serverMode"]);
  assert.match(report.failure?.message ?? "", /MOVED \d+ 127\.0\.0\.1:\d+: it is a node of a cluster, use --cluster/);
});

void test("--cluster with a server that is not a cluster node is reported", async (context) => {
  const single = await RedisServer.start();
  context.after(() => single.stop());
  const { report, exitCode } = await runTool(single.port, ["-d", "30s", "--cluster"]);
  assert.deepEqual([exitCode, report.failure?.kind], [9, "serverMode"]);
  assert.match(report.failure?.message ?? "", /cluster support disabled: leave out --cluster/);
});

// Last: it takes a node away.
void test("a shard that dies during the load fails the run", async () => {
  const tool = Tool.start(port, ["-d", "60s", "-q", "8", "--concurrency", "50", "--cluster", "--response-timeout", "3s"]);
  await eventually("jobs on every node", async () => {
    const sizes = await Promise.all(cluster.nodes.map((node) => node.command("DBSIZE")));
    return sizes.every((size) => Number(size) > 100);
  });
  await cluster.nodes[2]?.stop();
  const { report, exitCode, seconds } = await tool.ended();
  assert.equal(report.status, "failed");
  assert.deepEqual([exitCode, report.failure?.kind], [7, "connectionLost"]);
  assert.ok(seconds < 30, `it took ${seconds.toString()} s`);
});
