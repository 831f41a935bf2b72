import assert from "node:assert/strict";
import { test } from "node:test";
import { parseCommandLine } from "../src/cli.js";
import { echo, hashTag, UsageError, type Configuration } from "../src/configuration.js";
import { parseSeconds } from "../src/duration.js";

function configuration(line: string, environment: NodeJS.ProcessEnv = {}): Configuration {
  const request = parseCommandLine(line.split(" "), environment);
  assert.ok("configuration" in request, "the line asks for a run");
  return request.configuration;
}

function refused(line: string, pattern: RegExp, environment: NodeJS.ProcessEnv = {}): void {
  assert.throws(
    () => parseCommandLine(line.split(" "), environment),
    (error) => error instanceof UsageError && pattern.test(error.message),
    `${line} is refused with ${String(pattern)}`,
  );
}

void test("the published command line maps one to one", () => {
  const { server, load } = configuration("-h 10.0.0.7 -p 7000 -d 30 -r 0 -w 16 -q 8");
  assert.deepEqual([server.host, server.port, server.cluster], ["10.0.0.7", 7000, false]);
  assert.deepEqual([load.writers, load.readers, load.durationSeconds], [16, 0, 30]);
  assert.deepEqual([load.queueNames[0], load.queueNames[7], load.queueNames.length], ["{queue0}", "{queue7}", 8]);
  assert.deepEqual([load.concurrency, load.bulk], [2000, 0]);
});

void test("the published mode is the article's loop and takes no other jobs or batches", () => {
  const { load } = configuration("-d 30 -r 1 -w 16 -q 8 -c 5 --mode published");
  assert.deepEqual([load.mode, load.bulk, load.readerStart, load.readerConcurrency], ["published", 0, "after-writers", 5]);
  assert.deepEqual(load.payload, { param1: "value1", param2: "value2" });
  assert.equal(configuration("-d 30").load.mode, "fast");
  for (const option of ["--concurrency 5", "--bulk 5", "--payload-bytes 5", "--reader-start together"]) {
    refused(`-d 1s --mode published ${option}`, /--mode published has its own .*leave out --/);
  }
  refused("-d 1s --mode slow", /--mode is fast or published, not "slow"/);
});

void test("durations are read with and without units", () => {
  assert.deepEqual(["30", "30s", "1m30s", "500ms", "1h", "0.5s"].map(parseSeconds), [30, 30, 90, 0.5, 3600, 0.5]);
  assert.deepEqual(["", "s", "-1s", "1d", "30s ", "9999h"].map(parseSeconds), Array(6).fill(undefined));
});

void test("unusable options are refused with their name", () => {
  refused("-w 1", /--duration is missing/);
  refused("-d 0s", /--duration must be a duration above 0/);
  refused("-d 1s -w 0 -r 0", /--writers and --readers are both 0/);
  refused("-d 1s -w many", /--writers must be a whole number from 0 to 1024, not "many"/);
  refused("-d 1s -p 70000", /--port must be/);
  refused("-d 1s --queue-name {q} -q 2", /--queue-name needs %d/);
  refused("-d 1s --queue-name a:b", /--queue-name must not contain a colon/);
  refused("-d 1s --reader-start later", /--reader-start is together or after-writers/);
  refused("-d 1s --password hush", /Unknown option '--password'/);
  refused("-d 1s --start-at-unix-nanos soon", /--start-at-unix-nanos must be nanoseconds/);
});

void test("a cluster needs hash tags", () => {
  refused("-d 1s --cluster --queue-name queue%d", /--cluster needs a hash tag in --queue-name/);
  assert.equal(configuration("-d 1s --cluster").server.cluster, true);
  assert.deepEqual(["b:{q}:", "b:q:", "b:{}{q}:"].map(hashTag), ["q", undefined, undefined]);
});

void test("TLS options belong together", () => {
  refused("-d 1s --tls-insecure", /--tls-insecure needs --tls/);
  refused("-d 1s --tls --tls-cert-file /dev/null", /belong together/);
  refused("-d 1s --tls --tls-ca-file /nonexistent", /cannot read --tls-ca-file \/nonexistent/);
  assert.deepEqual(configuration("-d 1s --tls --tls-insecure").server.tls, { insecure: true });
});

void test("the password comes from the environment and stays out of the echo", () => {
  const environment = { DRAGSTRIP_PASSWORD: "hush" };
  const configured = configuration("-d 1s --username bench", environment);
  assert.equal(configured.server.password, "hush");
  assert.equal(echo(configured).authentication, "usernameAndPassword");
  assert.ok(!JSON.stringify(echo(configured)).includes("hush"), "no secret is echoed");
  refused("-d 1s --username bench", /--username needs a password/);
  refused("-d 1s", /DRAGSTRIP_PASSWORD is empty/, { DRAGSTRIP_PASSWORD: "" });
});

void test("payloads have the requested size", () => {
  assert.equal(configuration("-d 1s").load.payload, "x".repeat(32));
  assert.equal(configuration("-d 1s --payload-bytes 100").load.payload, "x".repeat(100));
});

void test("clients that share queues leave the keys", () => {
  assert.equal(configuration("-d 1s --shared-queues").keepKeys, true);
  assert.equal(configuration("-d 1s").keepKeys, false);
});
