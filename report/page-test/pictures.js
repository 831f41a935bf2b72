/** Takes pictures of the sample suite's page for the documentation: PAGES=DIR npm run pictures -- OUTPUT-DIR */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [output] = process.argv.slice(2);
if (!process.env.PAGES || !output) throw new Error("PAGES must name the directory of the sample pages, and the first argument where pictures go");
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
for (const colorScheme of ["light", "dark"]) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 1800 }, colorScheme });
  await page.goto(pathToFileURL(join(process.env.PAGES, "suite.html")).href);
  // A bit of everything in one picture: the fastest of one phase, and what is drawn of it.
  await page.locator("#results").getByLabel("Show only this Phase").selectOption("read");
  for (const _ of ["ascending", "descending"]) await page.locator("#results th", { hasText: "Ops/s" }).getByRole("button").click();
  await page.addStyleTag({ content: "#results .box { max-height: 22rem; overflow: hidden; } #thresholds, #bars .card:nth-child(n+4) { display: none; } #bars .card { max-height: 23.4rem; overflow: hidden; }" });
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 85 });
  writeFileSync(join(output, `report-${colorScheme}.webp`), Buffer.from(data, "base64"));
  if (process.env.PNG) await page.screenshot({ path: join(output, `report-${colorScheme}.png`) });
}
await browser.close();
