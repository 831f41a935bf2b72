// All dashboards.
import type { Dashboard } from "@grafana/grafana-foundation-sdk/dashboard";
import { leaderboard } from "./leaderboard.js";
import { run } from "./run.js";

export const dashboards = (): Dashboard[] => [leaderboard(), run()];
