import type { Order } from "./order.ts";

/** Number of pieces of each product, by name: the same totals as OrderBook.totals in mill/orders/book.py. */
export function totals(orders: Order[]): Map<string, number> {
  const counted = new Map<string, number>();
  for (const { product, count } of orders) {
    counted.set(product, (counted.get(product) ?? 0) + count);
  }
  return new Map([...counted].sort(([one], [other]) => (one < other ? -1 : 1)));
}
