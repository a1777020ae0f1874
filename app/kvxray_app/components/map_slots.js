// Places in the legend for those that most blocks belong to, holders or tenants. Whoever has a place keeps it, and so its
// colour, as long as it is among them.

export class MapSlots {
  constructor(number) {
    this.number = number;
    this.slots = new Map(); // by key
  }

  /** `counts`: [key, blocks] of each that may have a place. */
  place(counts) {
    const most = [...counts]
      .sort((a, b) => b[1] - a[1])
      .slice(0, this.number)
      .map(([key]) => key);
    for (const key of [...this.slots.keys()]) if (!most.includes(key)) this.slots.delete(key);
    const taken = new Set(this.slots.values());
    for (const key of most) {
      if (this.slots.has(key)) continue;
      let slot = 0;
      while (taken.has(slot)) slot += 1;
      taken.add(slot);
      this.slots.set(key, slot);
    }
  }

  /** The place of a key; undefined where it has none. */
  get(key) {
    return this.slots.get(key);
  }

  /** What is written at each place; null where there is nobody. */
  names(nameOf) {
    const names = Array(this.number).fill(null);
    for (const [key, slot] of this.slots) names[slot] = nameOf(key);
    return names;
  }

  clear() {
    this.slots.clear();
  }
}
