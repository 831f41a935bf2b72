/** Answers as the frames that Grafana's data source makes. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { framesOf } from "../src/frames";
import type { Series } from "../src/prometheus";

const fields = (frames: ReturnType<typeof framesOf>): unknown[] =>
  frames.map((frame) => frame.fields.map(({ name, values }) => [name, values as unknown[]]));
const series = (labels: Record<string, string>, ...values: number[]): Series => ({
  labels,
  points: values.map((value, index) => [index, value] as const),
});

void test("each series is a frame that carries its labels and is named by the legend", () => {
  const target = { refId: "A", legendFormat: "{{pod}} {{absent}}!" };
  const frames = framesOf([{ target, series: [series({ __name__: "up", pod: "p" }, 1, 2)] }]);
  assert.deepEqual(fields(frames), [[["Time", [0, 1000]], ["up", [1, 2]]]]);
  const value = frames[0]?.fields[1];
  assert.equal(value?.config.displayNameFromDS, "p !");
  assert.deepEqual(value.labels, { __name__: "up", pod: "p" });
});

void test("a table has a column for each label, in the order of their names, and nothing where a series lacks it", () => {
  const answer = [series({ run: "a", phase: "x" }, 1), series({ run: "b" }, 2)];
  assert.deepEqual(fields(framesOf([{ target: { refId: "A", format: "table" }, series: answer }])), [
    [["Time", [0, 0]], ["phase", ["x", ""]], ["run", ["a", "b"]], ["Value", [1, 2]]],
  ]);
});

void test("values of several tables are numbered, one without rows counted among them", () => {
  const target = (refId: string) => ({ refId, format: "table" as const });
  const frames = framesOf([{ target: target("A"), series: [series({ run: "a" }, 1)] }, { target: target("B"), series: [] }]);
  assert.deepEqual(fields(frames), [[["Time", [0]], ["run", ["a"]], ["Value #A", [1]]], [["Time", []], ["Value #B", []]]]);
});

void test("cumulative buckets become the count of each, by rising bound", () => {
  const answer = [series({ le: "+Inf" }, 9), series({ le: "0.5" }, 5), series({ le: "0.1" }, 2)];
  assert.deepEqual(fields(framesOf([{ target: { refId: "A", format: "heatmap" }, series: answer }])), [
    [["Time", [0]], ["0.1", [2]], ["0.5", [3]], ["+Inf", [4]]],
  ]);
});
