/** Real servers for the tests, on free ports of the loopback interface. */

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Redis, type RedisOptions } from "ioredis";

const DEADLINE_MILLISECONDS = 20_000;

/** Calls `ask` until it is true; fails after a deadline, saying what was waited for. */
export async function eventually(what: string, ask: () => Promise<boolean> | boolean): Promise<void> {
  const until = Date.now() + DEADLINE_MILLISECONDS;
  while (!(await ask())) {
    if (Date.now() > until) throw new Error(`waited ${(DEADLINE_MILLISECONDS / 1000).toString()} s in vain for ${what}`);
    await delay(20);
  }
}

async function freePort(): Promise<number> {
  const probe = createServer();
  probe.listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  return port;
}

/** A free port whose cluster bus port (10,000 above) is a port as well. */
async function freeClusterPort(): Promise<number> {
  for (;;) {
    const port = await freePort();
    if (port <= 55_000) return port;
  }
}

/** A redis-server of its own. */
export class RedisServer {
  private constructor(
    readonly port: number,
    readonly process: ChildProcess,
    private readonly directory: string,
    private readonly client: Redis,
  ) {}

  /** Starts one and waits until it answers; `wrapper` is a command to start it with. */
  static async start(
    options: readonly string[] = [],
    wrapper: readonly string[] = [],
    clientOptions: Omit<RedisOptions, "replyMapping"> = {},
  ): Promise<RedisServer> {
    if (spawnSync("redis-server", ["--version"]).error) {
      throw new Error("redis-server is not on the PATH: install it (Debian: redis-server)");
    }
    const port = options.includes("--cluster-enabled") ? await freeClusterPort() : await freePort();
    const directory = mkdtempSync(join(tmpdir(), "bullmq-redis-"));
    const place = ["--bind", "127.0.0.1", "--port", clientOptions.tls ? "0" : port.toString(), "--dir", directory];
    const tlsPort = clientOptions.tls ? ["--tls-port", port.toString()] : [];
    const [program = "redis-server", ...args] = [
      ...wrapper, "redis-server", ...place, ...tlsPort, "--save", "", "--appendonly", "no", ...options,
    ];
    const child = spawn(program, args, { stdio: "ignore" });
    const client = new Redis({ host: "127.0.0.1", port, maxRetriesPerRequest: null, retryStrategy: () => 20, ...clientOptions });
    client.on("error", () => undefined);
    const server = new RedisServer(port, child, directory, client);
    await eventually("redis-server to answer", () => {
      if (child.exitCode !== null) throw new Error(`redis-server ended with ${child.exitCode.toString()}`);
      return client.status === "ready";
    });
    return server;
  }

  /** Sends a command. */
  async command(name: string, ...args: (string | number)[]): Promise<unknown> {
    return this.client.call(name, ...args.map(String));
  }

  /** Ends it at once, and removes its files. */
  async stop(): Promise<void> {
    this.client.disconnect();
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.kill("SIGKILL");
      await once(this.process, "exit");
    }
    rmSync(this.directory, { recursive: true, force: true });
  }
}

const SLOTS = 16_384;

/** A Redis Cluster of three primaries. */
export class RedisCluster {
  private constructor(readonly nodes: readonly RedisServer[]) {}

  static async start(): Promise<RedisCluster> {
    const options = ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "2000"];
    const nodes = await Promise.all([0, 1, 2].map(() => RedisServer.start(options)));
    const cluster = new RedisCluster(nodes);
    for (const [index, node] of nodes.entries()) {
      const first = Math.floor((SLOTS * index) / nodes.length);
      const last = Math.floor((SLOTS * (index + 1)) / nodes.length) - 1;
      const slots = Array.from({ length: last - first + 1 }, (_, slot) => first + slot);
      await node.command("CLUSTER", "SET-CONFIG-EPOCH", index + 1);
      await node.command("CLUSTER", "ADDSLOTS", ...slots);
      await node.command("CLUSTER", "MEET", "127.0.0.1", nodes[0]?.port ?? 0);
    }
    for (const node of nodes) await eventually("the cluster to form", async () => formed(await node.command("CLUSTER", "INFO")));
    return cluster;
  }

  /** Keys on all nodes. */
  async size(): Promise<number> {
    const sizes = await Promise.all(this.nodes.map((node) => node.command("DBSIZE")));
    return sizes.reduce<number>((sum, size) => sum + Number(size), 0);
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
  }
}

function formed(info: unknown): boolean {
  const text = String(info);
  return text.includes("cluster_state:ok") && text.includes("cluster_known_nodes:3");
}
