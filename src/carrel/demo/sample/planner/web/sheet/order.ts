/** One line of the order sheet, as the planner writes it. */
export interface Order {
  customer: string;
  product: string;
  count: number;
}

export class BadOrder extends Error {}

export function parseOrder(line: string): Order {
  const [customer = "", product = "", count = ""] = line.split(",").map((field) => field.trim());
  if (!customer || !product || !/^[1-9][0-9]?$/.test(count)) {
    throw new BadOrder(`expected customer,product,count: ${line}`);
  }
  return { customer, product: product.toLowerCase(), count: Number(count) };
}
