import assert from "node:assert/strict";
import { test } from "node:test";

import { BadOrder, parseOrder } from "./order.ts";
import { sheet } from "./page.ts";
import { totals } from "./totals.ts";

test("totals add up what customers share", () => {
  const orders = ["a,rye,2", "b,Rye,3", "b,country,1"].map(parseOrder);
  assert.deepEqual([...totals(orders)], [["country", 1], ["rye", 5]]);
});

test("a line without a count is refused", () => {
  assert.throws(() => parseOrder("a,rye"), BadOrder);
});

test("the sheet omits comments", () => {
  assert.equal(sheet("# closed\na,rye,2\n", "Saturday"), "Saturday\n\nrye       2\n\n1 orders");
});
