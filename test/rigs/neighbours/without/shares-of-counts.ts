/** In place of counts that workspaces share: the memory is that of whoever comes first. */
import type { OutcomeCell } from "../../../../src/contracts/outcomes.js";
import { type Counted, OutcomeMeter as Own } from "../../../../src/verify/outcome-meter.js";

export { textOf } from "../../../../src/verify/outcome-meter.js";

const ALL = "all";

export class OutcomeMeter extends Own {
  readonly #ofAll = new Map<Counted, Counted>();
  readonly #workspaces = new Map<string, string>();

  override count(of: Counted, ...call: Parameters<Own["count"]> extends [Counted, ...infer Rest] ? Rest : never): void {
    let known = this.#ofAll.get(of);
    if (known === undefined) {
      const { apiId, keyId, identity, account, workspaceId } = of;
      this.#ofAll.set(of, (known = { cell: -1, workspaceId: ALL, apiId, keyId, identity, account }));
      this.#workspaces.set(keyId, workspaceId);
    }
    super.count(known, ...call);
  }

  override *cells(): Generator<OutcomeCell> {
    for (const cell of super.cells()) yield { ...cell, workspaceId: this.#workspaces.get(cell.keyId) ?? ALL };
  }

  override setsOf(): string[] {
    return super.setsOf(ALL);
  }
}
