// Runs an ELF on rp2040js: UART0 on stdin and stdout, cycle counts of the work pin on stderr as
// JSON lines. Usage: node rp2040_run.mjs RP2040JS_DIRECTORY IMAGE.elf MAX_INSTRUCTIONS
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [library, image, limit] = process.argv.slice(2);
const { RP2040 } = await import(pathToFileURL(path.join(library, 'dist/esm/index.js')).href);

const WORK_PIN = 15;
const SLICE = 20000;
const chip = new RP2040();
chip.logger = { debug() {}, info() {}, warn() {}, error() {} };

// Loadable segments at their physical addresses.
const elf = fs.readFileSync(image);
const headers = elf.readUInt32LE(28);
const count = elf.readUInt16LE(44);
for (let i = 0; i < count; ++i) {
  const h = headers + 32 * i;
  if (elf.readUInt32LE(h) !== 1) continue;
  const [offset, physical, size] = [4, 12, 16].map((field) => elf.readUInt32LE(h + field));
  if (size > 0) chip.flash.set(elf.subarray(offset, offset + size), physical - 0x10000000);
}
chip.core.VTOR = 0x10000000;
chip.core.SP = chip.readUint32(0x10000000);
chip.core.PC = chip.readUint32(0x10000004) & ~1;

let stopped = null;
chip.onBreak = (code) => { stopped = { code, r0: chip.core.registers[0] | 0 }; };

let output = [];
chip.uart[0].onByte = (byte) => output.push(byte);

let began = 0;
chip.gpio[WORK_PIN].addListener((state) => {
  if (state === 1) began = chip.core.cycles;
  if (state === 0 && began > 0) {
    process.stderr.write(JSON.stringify({ cycles: chip.core.cycles - began }) + '\n');
    began = 0;
  }
});

let input = [];
let position = 0;
let ended = false;
process.stdin.on('data', (data) => {
  input = position < input.length ? [...input.slice(position), ...data] : [...data];
  position = 0;
});
process.stdin.on('end', () => { ended = true; });

let instructions = 0;
function finish(code, reason) {
  if (output.length > 0) fs.writeSync(1, Buffer.from(output));
  process.stderr.write(JSON.stringify({ end: reason, instructions }) + '\n');
  process.exit(code);
}

// An idle program waits for the UART in a loop: while nothing is to read it need not run.
const UARTFR = 0x40034018;
function run() {
  for (let i = 0; i < SLICE && stopped === null; ++i) {
    if ((i & 63) === 0) {
      while (position < input.length && !chip.uart[0].rxFIFO.full) {
        chip.uart[0].feedByte(input[position++]);
      }
    }
    chip.core.executeInstruction();
    ++instructions;
  }
  if (output.length > 0) {
    fs.writeSync(1, Buffer.from(output));
    output = [];
  }
  if (stopped !== null) finish(stopped.code === 0xab ? stopped.r0 & 0xff : 100, 'exit');
  if (instructions > Number(limit)) finish(101, 'instruction limit');
  if (ended && position >= input.length) {
    if (++run.idle > 500) finish(102, 'input ended');
  }
  setImmediate(run);
}
run.idle = 0;
run();
