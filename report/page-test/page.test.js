/**
 * Tests the sample pages with Chromium: npm test, with the directory of the pages in PAGES.
 * `make test-report-page` writes them and runs the tests.
 */

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const pages = process.env.PAGES;
if (!pages) throw new Error("PAGES must name the directory of the sample pages");
const NAMES = ["suite", "matrix", "search", "memory", "local", "hostile", "large", "empty"];
const PHONE = { width: 360, height: 780 };

let browser;
before(async () => {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});
after(() => browser?.close());

/** Opens a page for `check`; the page must not send requests or report errors. */
async function open(name, options, check) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  try {
    const page = await context.newPage();
    const address = pathToFileURL(join(pages, `${name}.html`)).href;
    const wrong = [];
    page.on("request", (request) => request.url() !== address && wrong.push(`request: ${request.url()}`));
    page.on("console", (message) => wrong.push(`console: ${message.text()}`));
    page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
    page.on("dialog", (dialog) => (wrong.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
    await page.goto(address);
    await check(page);
    assert.deepEqual(wrong, [], `${name} sent a request or reported an error`);
  } finally {
    await context.close();
  }
}

const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

test("every page fits a phone, sends no request, and has readable charts", async () => {
  for (const name of NAMES) {
    await open(name, { viewport: PHONE }, async (page) => {
      assert.equal(await overflow(page), 0, `${name} is wider than the phone`);
      const charts = await page.$$eval("svg", (all) =>
        all.map((svg) => {
          const { width, height } = svg.getBoundingClientRect();
          const sizes = [...svg.querySelectorAll("text")].map((text) => (parseFloat(getComputedStyle(text).fontSize) * width) / svg.viewBox.baseVal.width);
          return { width, height, text: Math.min(...sizes), drawn: svg.querySelectorAll("polyline, rect").length, wrong: /NaN|Infinity|undefined/.test(svg.outerHTML) };
        }),
      );
      for (const chart of charts) {
        assert.ok(chart.width > 200 && chart.height > 60 && chart.drawn > 0, `${name} has an empty chart: ${JSON.stringify(chart)}`);
        assert.ok(chart.text >= 10, `${name} has text of ${chart.text} px on a phone`);
        assert.ok(!chart.wrong, `${name} has a coordinate that is not a number`);
      }
    });
  }
});

test("the first screen of a phone has figures, and at 1280 no column is cut off", async () => {
  for (const name of ["suite", "memory", "search", "matrix", "large", "local"]) {
    await open(name, { viewport: PHONE }, async (page) => {
      const bottom = await page.$eval("tbody tr", (row) => row.getBoundingClientRect().bottom);
      assert.ok(bottom <= PHONE.height, `${name}: the first figures end at ${bottom} px`);
    });
    await open(name, {}, async (page) => {
      const cut = await page.$$eval(".box", (all) => all.map((box) => [box.closest("section").id, box.scrollWidth - box.clientWidth]).filter(([, beyond]) => beyond > 1));
      assert.deepEqual(cut.filter(([id]) => id !== "figures"), [], `${name}: sections with a column beyond the page`);
    });
  }
});

test("each kind of chart appears with its data", async () => {
  const sections = { suite: ["bars", "latency", "steady", "seconds"], search: ["saturation", "latency", "seconds"], matrix: ["bars"] };
  for (const [name, ids] of Object.entries(sections)) {
    await open(name, {}, async (page) => {
      for (const id of ids) assert.ok((await page.locator(`#${id} svg`).count()) > 0, `${name} has no chart in ${id}`);
    });
  }
});

test("a click or a key sorts a table and sets aria-sort", async () => {
  await open("suite", {}, async (page) => {
    const head = page.locator("#results th", { hasText: "Ops/s" });
    const column = await head.evaluate((cell) => cell.cellIndex);
    const values = () => page.$$eval("#results tbody tr", (rows, at) => rows.map((row) => parseFloat(row.cells[at].textContent.replaceAll(",", ""))), column);
    await head.getByRole("button").click();
    const upwards = await values();
    assert.equal(await head.getAttribute("aria-sort"), "ascending");
    assert.deepEqual(upwards, upwards.toSorted((left, right) => left - right), "not ascending");
    await head.getByRole("button").press("Enter");
    assert.equal(await head.getAttribute("aria-sort"), "descending");
    assert.deepEqual(await values(), upwards.toReversed(), "not descending");
  });
  await open("memory", {}, async (page) => {
    await page.locator("#memory th", { hasText: "Used" }).getByRole("button").click();
    const first = await page.locator("#memory tbody tr").first().textContent();
    assert.match(first, /dragonfly/, "the least memory is not first");
  });
  await open("matrix", {}, async (page) => {
    const head = page.locator("#results th", { hasText: "value" });
    await head.getByRole("button").click();
    const values = await page.$$eval("#results tbody tr", (rows) => rows.map((row) => row.cells[2].textContent));
    assert.deepEqual([...new Set(values)], ["8 B", "64 B", "512 B", "4 KiB", "32 KiB"], "an axis is not sorted as it was declared");
  });
});

test("dates and versions are not sorted as numbers", async () => {
  await open("suite", {}, async (page) => {
    const sorted = async (heading) => {
      const head = page.locator("#runs th", { hasText: heading });
      await head.getByRole("button").click();
      return page.$$eval("#runs tbody tr", (rows, at) => rows.map((row) => row.cells[at].textContent.trim()), await head.evaluate((cell) => cell.cellIndex));
    };
    await sorted("Repetition");
    const started = await sorted("Started");
    assert.match(started[0], /^20\d\d-/);
    assert.deepEqual(started, started.toSorted(), "runs are not sorted by when they started");
    await page.$$eval("#runs tbody tr", (rows) => rows.forEach((row, at) => (row.cells[1].textContent = `7.2.${[10, 4, 9][at % 3]}`)));
    assert.deepEqual([...new Set(await sorted("Variant"))], ["7.2.4", "7.2.9", "7.2.10"], "versions are not sorted");
  });
});

test("signs and numbers repeat what colors say", async () => {
  await open("suite", {}, async (page) => {
    assert.deepEqual(await page.$$eval("#latency .legend b", (all) => all.map((each) => each.textContent)), ["1", "2", "3", "4"]);
    const charts = await page.$$eval("#latency svg", (all) => all.map((svg) => [...svg.querySelectorAll("text.fink")].map((text) => text.textContent.trim())));
    for (const chart of charts) assert.deepEqual(chart.toSorted(), ["1", "2", "3", "4"], "lines have no numbers");
    const dashes = await page.$$eval("#seconds polyline", (all) => all.map((line) => [line.classList.contains("sbad"), getComputedStyle(line).strokeDasharray !== "none"]));
    assert.ok(dashes.some(([invalid]) => invalid), "the sample has no Invalid timeline");
    for (const [invalid, dashed] of dashes) assert.equal(dashed, invalid, "an Invalid line alone is dashed");
  });
  await open("matrix", { viewport: PHONE }, async (page) => {
    const cells = await page.$$eval("#matrices td", (all) => all.map((each) => each.textContent));
    for (const sign of "▲▼≠") assert.ok(cells.some((each) => each.endsWith(sign)), `the sample has no ${sign}`);
  });
});

test("the part in which throughput was not steady is marked and named inside its chart", async () => {
  for (const viewport of [PHONE, { width: 1280, height: 900 }]) {
    await open("suite", { viewport }, async (page) => {
      const cards = await page.$$eval("#steady .card", (all) =>
        all.map((card) => {
          const box = (element) => element.getBoundingClientRect();
          const [svg, mark] = [card.querySelector("svg"), card.querySelector("rect.fshade")];
          const words = [...svg.querySelectorAll("text.fink")].find((text) => /from \d+ s to \d+ s/.test(text.textContent));
          return { charts: [...card.querySelectorAll("svg")].map((each) => each.getAttribute("aria-label").split(" by ")[0]), marked: box(mark).width, inside: box(words).left >= box(svg).left - 1 && box(words).right <= box(svg).right + 1, why: card.querySelector(".why").textContent };
        }),
      );
      assert.equal(cards.length, 2);
      for (const { charts, marked, inside, why } of cards) {
        assert.deepEqual(charts, ["ops/s", "p99 ms"]);
        assert.ok(marked > 5, "the marked part cannot be seen");
        assert.ok(inside, "the words leave the chart");
        assert.match(why, /lower from 22 s to 26 s of 60 s/);
      }
    });
  }
});

test("filters by phase and metric hide all other rows", async () => {
  await open("suite", {}, async (page) => {
    await page.locator("#results").getByLabel("Show only this Phase").selectOption("read");
    assert.equal(await page.locator("#results tbody tr:visible").count(), 16);
    await page.locator("#figures summary").click();
    await page.locator("#figures").getByLabel("Show only this Metric").selectOption("p99 ms");
    assert.equal(await page.locator("#figures tbody tr:visible").count(), 32);
  });
});

test("an Invalid measurement is struck out with its reason on hover and in text", async () => {
  await open("suite", {}, async (page) => {
    const struck = page.locator("#results s").first();
    assert.match(await struck.evaluate((cell) => getComputedStyle(cell).textDecorationLine), /line-through/);
    assert.match(await struck.getAttribute("title"), /evicted/);
    const row = page.locator("#results tr", { has: page.locator("s") }).first();
    assert.match(await row.innerText(), /✗ 1 of 3 Invalid[\s\S]*evicted/);
  });
});

test("text has enough contrast in light and dark mode", async () => {
  for (const colorScheme of ["light", "dark"]) {
    for (const name of ["suite", "matrix"]) {
      await open(name, { colorScheme }, async (page) => {
        const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).every((part) => part < 60));
        assert.equal(dark, colorScheme === "dark", `the page is not ${colorScheme}`);
        for (const { what, contrast } of await page.evaluate(contrasts)) {
          assert.ok(contrast >= 4.5, `${name}, ${colorScheme}: ${what} has a contrast of ${contrast.toFixed(2)}`);
        }
      });
    }
  }
});

/** In the page: the contrast, by WCAG, of one text of each kind. */
function contrasts() {
  const parse = (colour) => {
    const [red, green, blue, alpha = 1] = colour.match(/[\d.]+/g).map(Number);
    return { rgb: [red, green, blue], alpha };
  };
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) layers.push(parse(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((below, { rgb, alpha }) => below.map((part, at) => part * (1 - alpha) + rgb[at] * alpha), [255, 255, 255]);
  };
  const luminance = (rgb) => {
    const [red, green, blue] = rgb.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (element) => {
    const style = getComputedStyle(element);
    const [light, dark] = [luminance(parse(element instanceof SVGElement ? style.fill : style.color).rgb), luminance(behind(element))].sort((left, right) => right - left);
    return (light + 0.05) / (dark + 0.05);
  };
  const kinds = ["h1", ".rests", ".note", ".tag.good", ".tag.fair", ".tag.bad", ".up", ".even", "td b", "td small", "td s", "thead th", "nav a", "figcaption span", "svg .fmuted", "svg .fink", "summary"];
  return kinds.flatMap((kind) => [...document.querySelectorAll(kind)].slice(0, 40).map((element) => ({ what: `${kind} "${element.textContent.slice(0, 20)}"`, contrast: contrast(element) })));
}

test("the page works without its script and on paper", async () => {
  await open("suite", { javaScriptEnabled: false }, async (page) => {
    assert.equal(await page.locator("#results tbody tr").count(), 32);
    assert.equal(await page.locator("form, button").count(), 0, "controls without a script");
    await page.emulateMedia({ media: "print" });
    assert.equal(await page.locator("nav").isVisible(), false, "links are printed");
    assert.equal(await page.locator("#results .box").evaluate((box) => getComputedStyle(box).overflowX), "visible", "paper cannot be scrolled");
  });
});
