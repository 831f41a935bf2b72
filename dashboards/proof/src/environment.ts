/**
 * What Grafana's libraries expect of the page that they run in: a window, a
 * navigator, and the list of transformations, which the application fills.
 * Importing it once is enough.
 */

import { standardTransformers, standardTransformersRegistry } from "@grafana/data";

const page = globalThis as unknown as Record<string, unknown>;
page["window"] ??= globalThis;
page["navigator"] ??= { language: "en-US" };

/** Ids of the transformations that @grafana/data brings. */
export const TRANSFORMATIONS: ReadonlySet<string> = new Set(Object.values(standardTransformers).map(({ id }) => id));

standardTransformersRegistry.setInit(() =>
  Object.values(standardTransformers).map((transformation) => ({
    id: transformation.id,
    name: transformation.name,
    transformation: () => Promise.resolve(transformation),
    editor: () => null,
    imageDark: "",
    imageLight: "",
  })),
);
