import { parseOrder } from "./order.ts";
import { totals } from "./totals.ts";

/** The sheet that hangs in the bakery. It is plain text, because it is printed and flour gets everywhere. */
export function sheet(csv: string, title: string): string {
  const lines = csv.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#"));
  const orders = lines.map(parseOrder);
  const sums = [...totals(orders)].map(([product, count]) => `${product.padEnd(10)}${count}`);
  return [title, "", ...sums, "", `${orders.length} orders`].join("\n");
}
