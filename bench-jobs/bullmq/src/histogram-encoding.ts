/**
 * HdrHistogram's V2 format as other languages write it. hdr-histogram-js 3.0.1
 * writes two fields of the header otherwise, and readers that check them refuse
 * the whole histogram: the normalizing index offset (0 for one that was never
 * shifted) and the ratio of integers to doubles (the double 1.0).
 */

import { deflateSync, inflateSync } from "node:zlib";
import { encodeIntoCompressedBase64, type Histogram } from "hdr-histogram-js";

/** Cookie and length in front of the compressed bytes. */
const ENVELOPE_BYTES = 8;
const NORMALIZING_OFFSET_AT = 8;
const RATIO_AT = 32;

/** The histogram, deflated, in base64. */
export function encoded(histogram: Histogram): string {
  const theirs = Buffer.from(encodeIntoCompressedBase64(histogram), "base64");
  const plain = inflateSync(theirs.subarray(ENVELOPE_BYTES));
  plain.writeInt32BE(0, NORMALIZING_OFFSET_AT);
  plain.writeDoubleBE(1, RATIO_AT);
  const deflated = deflateSync(plain);
  const envelope = Buffer.from(theirs.subarray(0, ENVELOPE_BYTES));
  envelope.writeInt32BE(deflated.length, 4);
  return Buffer.concat([envelope, deflated]).toString("base64");
}
