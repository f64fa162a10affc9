// Rates from counts that only grow: the difference over a window of some seconds.

interface Look {
  at: number;
  count: number;
}

/** The rate of one count. Readings older than the window are dropped. */
export class RateMeter {
  private looks: Look[] = [];

  constructor(private readonly windowMs = 10_000) {}

  see(at: number, count: number): void {
    const last = this.looks.at(-1);
    if (last && at <= last.at) return;
    if (last && count < last.count) this.looks = []; // another attempt counts from 0
    this.looks.push({ at, count });
    while (this.looks.length > 2 && this.looks[1]!.at <= at - this.windowMs) this.looks.shift();
  }

  /** The rate a second; null while there is only one reading. */
  get perSecond(): number | null {
    const first = this.looks[0];
    const last = this.looks.at(-1);
    if (!first || !last || first === last) return null;
    return ((last.count - first.count) * 1000) / (last.at - first.at);
  }
}

/** A meter for each key, made when first seen. */
export class Meters {
  private readonly meters = new Map<string, RateMeter>();

  constructor(private readonly windowMs = 10_000) {}

  see(key: string, at: number, count: number): void {
    const meter = this.meters.get(key) ?? new RateMeter(this.windowMs);
    this.meters.set(key, meter);
    meter.see(at, count);
  }

  rate(key: string): number | null {
    return this.meters.get(key)?.perSecond ?? null;
  }

  keepOnly(keys: ReadonlySet<string>): void {
    for (const key of this.meters.keys()) if (!keys.has(key)) this.meters.delete(key);
  }
}
