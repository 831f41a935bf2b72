// The run as its servers saw it, with the clients beside where that tells who was at the limit.
import type * as timeseries from "@grafana/grafana-foundation-sdk/timeseries";
import { BAD, DOUBTFUL, fixed, GOOD, steps } from "./looks.js";
import { dashedLimits, legendTable, live, set, thresholds, timeSeries } from "./panels.js";
import { CLIENTS, rate, selector, SERVERS } from "./queries.js";

const CLIENT = "blue";
const SERVER = "purple";
/** A side's lines have its colour. */
const sides = (builder: timeseries.PanelBuilder): timeseries.PanelBuilder =>
  builder
    .overrideByRegexp("^server.*", [set.color(fixed(SERVER))])
    .overrideByRegexp("^client.*", [set.color(fixed(CLIENT))]);

const DASHED = [set.custom("lineStyle", { fill: "dash", dash: [8, 6] }), set.custom("fillOpacity", 0)];

export const serverThreads = () =>
  timeSeries(
    {
      title: "CPU of each server thread",
      unit: "percentunit",
      description:
        "How much of one CPU each thread of the server uses; of several servers the busiest. A thread near 100 % is the server's limit: with one such thread among idle ones, more CPUs do not help.",
    },
    [12, 9],
    [live(`max by (thread) (${rate("dragstrip_server_thread_cpu_seconds_total", SERVERS)})`, "{{thread}}")],
  )
    .max(1)
    .fillOpacity(0)
    .thresholds(thresholds(steps(GOOD, [0.95, BAD])))
    .thresholdsStyle(dashedLimits())
    .legend(legendTable());

export const clientAndServer = () =>
  sides(
    timeSeries(
      {
        title: "CPUs of clients and servers",
        unit: "short",
        description:
          "CPUs in use on both sides, all pods together; dashed is what they may use. When the clients' line is at its limit and the servers' is not, it is the clients that were measured.",
      },
      [12, 9],
      [
        live(`sum(${rate("dragstrip_server_cpu_seconds_total", SERVERS)})`, "servers"),
        live(`sum(${rate("dragstrip_runner_cpu_seconds_total", CLIENTS)})`, "clients"),
        live(`sum(${selector("dragstrip_server_cpu_limit", SERVERS)})`, "servers, limit"),
        live(`sum(${selector("dragstrip_runner_cpu_limit", CLIENTS)})`, "clients, limit"),
      ],
    ),
  ).overrideByRegexp(".*, limit$", DASHED);

export const throttling = () =>
  sides(
    timeSeries(
      {
        title: "CPU throttling",
        unit: "percentunit",
        description:
          "The share of time for which a CPU limit held a container back; the worst pod of each side. Above 1 % the tail of the latency is the limit's, not the server's.",
      },
      [24, 6],
      [
        live(`max(${rate("dragstrip_server_throttled_seconds_total", SERVERS)})`, "server"),
        live(`max(${rate("dragstrip_runner_throttled_seconds_total", CLIENTS)})`, "client"),
      ],
    )
      .axisSoftMax(0.02)
      .thresholds(thresholds(steps(GOOD, [0.01, DOUBTFUL])))
      .thresholdsStyle(dashedLimits()),
  );

export const network = () =>
  sides(
    timeSeries(
      {
        title: "Network",
        unit: "Bps",
        description:
          "Bytes per second of all pods of a side; dashed is what they sent. A flat top that no CPU explains is the network's limit.",
      },
      [12, 8],
      [
        live(`sum(${rate("dragstrip_server_network_receive_bytes_total", SERVERS)})`, "servers, received"),
        live(`sum(${rate("dragstrip_server_network_transmit_bytes_total", SERVERS)})`, "servers, sent"),
        live(`sum(${rate("dragstrip_runner_network_receive_bytes_total", CLIENTS)})`, "clients, received"),
        live(`sum(${rate("dragstrip_runner_network_transmit_bytes_total", CLIENTS)})`, "clients, sent"),
      ],
    ),
  ).overrideByRegexp(".*, sent$", DASHED);

export const retransmissions = () =>
  sides(
    timeSeries(
      {
        title: "TCP segments sent again",
        unit: "cps",
        description:
          "TCP segments per second that were sent again because they were lost on the way. Each costs its request a timeout, so they show in the far tail first.",
      },
      [12, 8],
      [
        live(`sum(${rate("dragstrip_server_network_retransmitted_segments_total", SERVERS)})`, "servers"),
        live(`sum(${rate("dragstrip_runner_network_retransmitted_segments_total", CLIENTS)})`, "clients"),
      ],
    ).axisSoftMax(1),
  );

export const memory = () =>
  timeSeries(
    {
      title: "Memory of the servers",
      unit: "bytes",
      description:
        "All servers together. Used is what the server says that its data takes, resident what the kernel gave the process, container what the limit counts. Resident far above used is fragmentation.",
    },
    [24, 8],
    [
      live(`sum(${selector("dragstrip_server_used_memory_bytes", SERVERS)})`, "used"),
      live(`sum(${selector("dragstrip_server_resident_memory_bytes", SERVERS)})`, "resident"),
      live(`sum(${selector("dragstrip_server_container_memory_bytes", SERVERS)})`, "container"),
      live(`sum(${selector("dragstrip_server_container_memory_peak_bytes", SERVERS)})`, "container, peak"),
      live(`sum(${selector("dragstrip_server_max_memory_bytes", SERVERS)} > 0)`, "maxmemory"),
    ],
  )
    .fillOpacity(0)
    .overrideByRegexp("^(container, peak|maxmemory)$", [set.custom("lineStyle", { fill: "dash", dash: [8, 6] })]);

export const commands = () =>
  sides(
    timeSeries(
      {
        title: "Commands counted on both sides",
        unit: "ops",
        description:
          "What the servers counted as commands, and what the clients counted as operations. The lines belong on each other, unless an operation is several commands; a server that counts more has another user.",
      },
      [12, 8],
      [
        live(`sum(${rate("dragstrip_server_commands_processed_total", SERVERS)})`, "servers"),
        live(`sum(${rate("dragstrip_runner_operations_total", CLIENTS)})`, "clients"),
      ],
    ),
  );

export const hitRatio = () => {
  const hits = `sum(${rate("dragstrip_server_keyspace_hits_total", SERVERS)})`;
  const misses = `sum(${rate("dragstrip_server_keyspace_misses_total", SERVERS)})`;
  return timeSeries(
    {
      title: "Hit ratio",
      mayBeEmpty: "nothing was read",
      unit: "percentunit",
      description:
        "The share of reads that found their key. Empty while nothing is read. Misses are cheaper than hits: two runs with other ratios did other work.",
    },
    [12, 8],
    [live(`${hits} / (${hits} + ${misses} > 0)`, "hits")],
  ).max(1);
};

export const keysLost = () =>
  timeSeries(
    {
      title: "Keys evicted and expired",
      unit: "cps",
      description:
        "Keys per second that the servers dropped for memory (evicted) or for their age (expired). Evictions make a run Invalid unless it allows them.",
    },
    [12, 7],
    [
      live(`sum(${rate("dragstrip_server_evicted_keys_total", SERVERS)})`, "evicted"),
      live(`sum(${rate("dragstrip_server_expired_keys_total", SERVERS)})`, "expired"),
    ],
  )
    .axisSoftMax(1)
    .overrideByName("evicted", [set.color(fixed(BAD))]);

export const observer = () =>
  timeSeries(
    {
      title: "Cost of looking at the servers",
      unit: "s",
      description:
        "How long the observer beside a server took to read its counters; the slowest. It is work on the measured machine: milliseconds each second are the price of the lines above.",
    },
    [12, 7],
    [live(`max(${selector("dragstrip_observer_scrape_duration_seconds", SERVERS)})`, "slowest scrape")],
  );
