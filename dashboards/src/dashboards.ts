// All dashboards.
import type { Dashboard } from "@grafana/grafana-foundation-sdk/dashboard";
import { compare } from "./compare.js";
import { leaderboard } from "./leaderboard.js";
import { operator } from "./operator.js";
import { run } from "./run.js";

export const dashboards = (): Dashboard[] => [leaderboard(), run(), compare(), operator()];
