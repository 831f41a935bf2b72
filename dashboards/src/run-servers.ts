// The servers of the run, beside the clients where that shows which side reached its limit.
import type * as timeseries from "@grafana/grafana-foundation-sdk/timeseries";
import { BAD, DOUBTFUL, fixed, GOOD, steps } from "./looks.js";
import { dashedLimits, legendTable, live, set, thresholds, timeSeries } from "./panels.js";
import { CLIENTS, rate, selector, SERVERS } from "./queries.js";

const CLIENT = "blue";
const SERVER = "purple";
/** One color for each side. */
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
        "CPU use of each server thread; with several servers, the busiest. A thread near 100 % limits the server: if the others are idle, more CPUs do not help.",
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
          "CPUs in use on each side, all pods together; dashed lines are the limits. If only the clients reach their limit, the run measured the clients.",
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
          "The share of time for which a CPU limit paused a container; the worst pod of each side. Above 1 %, the limit and not the server determines the tail latency.",
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
          "Bytes per second of all pods of each side; dashed lines are sent bytes. A flat top while CPUs are idle is the limit of the network.",
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
        title: "TCP retransmissions",
        unit: "cps",
        description:
          "TCP segments per second that were lost and sent again. Each delays its request by a timeout, so they appear in the tail latency first.",
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
        "All servers together. Used: the size of the data, as the server reports it. Resident: memory of the process. Container: memory that counts against the limit. Resident far above used means fragmentation.",
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
          "Commands that the servers counted, and operations that the clients counted. The lines should coincide unless an operation consists of several commands; a server that counts more has another client.",
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
        "The share of reads that found their key; empty without reads. Misses are cheaper than hits, so runs with different ratios did different work.",
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
        "Keys per second that the servers removed to free memory (evicted) or because of their age (expired). Evictions make a run Invalid unless it allows them.",
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
      title: "Cost of observing the servers",
      unit: "s",
      description:
        "Time that the slowest observer took to read the counters of its server. This runs on the measured machine: a few milliseconds each second are the price of the panels above.",
    },
    [12, 7],
    [live(`max(${selector("dragstrip_observer_scrape_duration_seconds", SERVERS)})`, "slowest scrape")],
  );
