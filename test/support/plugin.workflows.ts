/** A user's own workflows, beside which ours are hosted. */
export async function greet(name: string): Promise<string> {
  return `hello ${name}`;
}
