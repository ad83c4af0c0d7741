// The memory that the kernels work on: one block of bytes, in which everything has an address.

import { plainKernels } from "./plain.mjs";

const PAGE = 65_536; // the unit of memory of WebAssembly
const FIRST_PAGES = 4; // at least what the compiler asks for its stack
const ALIGNMENT = 16;

/** A block that grows, where there is no WebAssembly. */
class PlainBlock {
  constructor() {
    this.buffer = new ArrayBuffer(PAGE);
  }

  grow(pages) {
    const larger = new ArrayBuffer(this.buffer.byteLength + pages * PAGE);
    new Uint8Array(larger).set(new Uint8Array(this.buffer));
    this.buffer = larger;
  }
}

/** Returns the kernels of a compiled module over a block, null where the browser has no WebAssembly with vectors. */
async function compiledKernels(wasm, block) {
  try {
    return (await WebAssembly.instantiate(wasm, { env: { memory: block } })).instance.exports;
  } catch {
    return null;
  }
}

/** The memory of one model, with the kernels over it in `kernels`. */
export class Memory {
  /** Takes the compiled kernels, or null for plain ones. */
  static async open(wasm) {
    const memory = new Memory();
    const block = typeof WebAssembly === "object" && wasm ? new WebAssembly.Memory({ initial: FIRST_PAGES }) : null;
    const compiled = block && (await compiledKernels(wasm, block));
    memory.block = compiled ? block : new PlainBlock();
    memory.isCompiled = Boolean(compiled);
    // Address 0 stands for nothing; the compiler's own constants and stack end at __heap_base.
    memory.end = compiled ? compiled.__heap_base.value : ALIGNMENT;
    memory.look();
    memory.kernels = compiled || plainKernels(memory);
    return memory;
  }

  /** Makes the views, which end with each growth of the block. */
  look() {
    this.floats = new Float32Array(this.block.buffer);
    this.bytes = new Uint8Array(this.block.buffer);
    this.signed = new Int8Array(this.block.buffer);
  }

  /** Returns the address of so many new bytes, which are zero. */
  reserve(size) {
    const address = Math.ceil(this.end / ALIGNMENT) * ALIGNMENT;
    this.end = address + size;
    const missing = this.end - this.bytes.length;
    if (missing > 0) {
      this.block.grow(Math.ceil(missing / PAGE));
      this.look();
    }
    return address;
  }

  /** Returns the address of so many new numbers. */
  numbers(count) {
    return this.reserve(4 * count);
  }

  /** Returns a copy of numbers. */
  copy(address, count) {
    return this.floats.slice(address >> 2, (address >> 2) + count);
  }

  fill(address, count, value = 0) {
    this.floats.fill(value, address >> 2, (address >> 2) + count);
  }

  move(from, count, to) {
    this.floats.copyWithin(to >> 2, from >> 2, (from >> 2) + count);
  }
}

/** Numbers whose count depends on the sentence: a place that is left for a larger one when it is too small. */
export class Room {
  constructor(memory) {
    Object.assign(this, { memory, address: 0, size: 0 });
  }

  /** Returns the address of at least so many numbers. What was there is gone. */
  of(count) {
    if (count > this.size) {
      this.size = 2 * count;
      this.address = this.memory.numbers(this.size);
    }
    return this.address;
  }
}
