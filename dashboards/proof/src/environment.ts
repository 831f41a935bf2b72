/**
 * What Grafana's libraries expect of the page that they run in: a window, a
 * navigator, and the list of transformations, which the application fills.
 * Importing it once is enough.
 */

import { standardTransformers, standardTransformersRegistry } from "@grafana/data";

const page = globalThis as unknown as Record<string, unknown>;
page["window"] ??= globalThis;
page["navigator"] ??= { language: "en-US", languages: ["en-US"] };

// Deprecated for plugins, which use the application's list; there is no application here.
// eslint-disable-next-line @typescript-eslint/no-deprecated
const LIBRARY = Object.values(standardTransformers);

/** The transformations that @grafana/data brings, by id; some stand there under two names. */
const BY_ID = new Map<string, (typeof LIBRARY)[number]>(LIBRARY.map((transformation) => [transformation.id, transformation]));

/** Their ids. */
export const TRANSFORMATIONS: ReadonlySet<string> = new Set(BY_ID.keys());

standardTransformersRegistry.setInit(() =>
  [...BY_ID.values()].map((transformation) => ({
    id: transformation.id,
    name: transformation.name,
    transformation: () => Promise.resolve(transformation),
    editor: () => null,
    imageDark: "",
    imageLight: "",
  })),
);
