/** A client of Prometheus' HTTP API. Touches the network. */

/** Labels of a series. */
export type Labels = Record<string, string>;

/** One series: its points are [Unix seconds, value], values may be NaN or infinite. */
export interface Series {
  readonly labels: Labels;
  readonly points: readonly (readonly [number, number])[];
}

/** From and to in Unix seconds. */
export interface TimeRange {
  readonly from: number;
  readonly to: number;
}

/** The source of answers: Prometheus itself, or a double in tests. */
export interface Source {
  instant(expression: string, at: number): Promise<Series[]>;
  range(expression: string, range: TimeRange, stepSeconds: number): Promise<Series[]>;
  labelValues(label: string, selector: string | undefined, range: TimeRange): Promise<string[]>;
}

type RawPoint = [number, string];
interface RawSeries {
  metric: Labels;
  value?: RawPoint;
  values?: RawPoint[];
}
interface Answer<T> {
  status: "success" | "error";
  error?: string;
  data: T;
}

/** Prometheus writes infinities as "+Inf" and "-Inf". */
const numberOf = (text: string): number => Number(text.replace("Inf", "Infinity"));

export class Prometheus implements Source {
  constructor(private readonly url: string) {}

  async instant(expression: string, at: number): Promise<Series[]> {
    const answer = await this.ask<{ resultType: string; result: RawSeries[] | RawPoint }>("query", {
      query: expression,
      time: String(at),
    });
    if (answer.resultType === "scalar") return [series({ metric: {}, value: answer.result as RawPoint })];
    return (answer.result as RawSeries[]).map(series);
  }

  async range(expression: string, range: TimeRange, stepSeconds: number): Promise<Series[]> {
    // As Grafana's data source: ends on whole steps, so that a reload asks for the same points.
    const align = (time: number): number => Math.floor(time / stepSeconds) * stepSeconds;
    const answer = await this.ask<{ result: RawSeries[] }>("query_range", {
      query: expression,
      start: String(align(range.from)),
      end: String(align(range.to)),
      step: String(stepSeconds),
    });
    return answer.result.map(series);
  }

  async labelValues(label: string, selector: string | undefined, range: TimeRange): Promise<string[]> {
    const parameters: Record<string, string> = { start: String(range.from), end: String(range.to) };
    if (selector !== undefined) parameters["match[]"] = selector;
    return this.ask<string[]>(`label/${encodeURIComponent(label)}/values`, parameters);
  }

  private async ask<T>(path: string, parameters: Record<string, string>): Promise<T> {
    const response = await fetch(`${this.url}/api/v1/${path}?${new URLSearchParams(parameters).toString()}`);
    const text = await response.text();
    let answer: Answer<T>;
    try {
      answer = JSON.parse(text) as Answer<T>;
    } catch (cause) {
      throw new Error(`${this.url} answered ${String(response.status)} and no JSON`, { cause });
    }
    if (answer.status !== "success") throw new Error(answer.error ?? `HTTP ${String(response.status)}`);
    return answer.data;
  }
}

function series({ metric, value, values }: RawSeries): Series {
  const points = values ?? (value === undefined ? [] : [value]);
  return { labels: metric, points: points.map(([time, text]) => [time, numberOf(text)] as const) };
}
