// All reserved bytes of a moment as one strip, in rows like text: the largest segment first, each with its blocks.

const USES = ["block", "pending", "releasable", "stranded"];
const USE_WORDS = ["allocated", "pending: another stream may still use it", "free, empty_cache would give it back", "free, but something else keeps the segment"];
const STRIP = 15;

function readSegments(map) {
  const numbers = packedReader(map.data);
  const segments = [];
  let start = 0;
  for (let place = 0; place < map.segments; place += 1) {
    const segment = { address: numbers.next(), stream: numbers.next(), flags: numbers.next(), start, size: 0, pieces: [], sums: [0, 0, 0, 0] };
    for (let left = numbers.next(); left > 0; left -= 1) {
      const use = numbers.next();
      const size = numbers.next() * map.unit_bytes;
      const stack = use < 2 ? numbers.next() : 0;
      segment.pieces.push({ use, size, stack, start: start + segment.size });
      segment.sums[use] += size;
      segment.size += size;
    }
    start += segment.size;
    segments.push(segment);
  }
  return segments;
}

class Segments {
  constructor(page) {
    this.page = page;
    this.canvas = byId("segments");
    this.painter = new Painter(this.canvas, (width) => this.rows(width) * STRIP, (...place) => this.paint(...place));
    this.listen();
  }

  show(device) {
    this.maps = device.maps;
    const names = { "peak-reserved": "the peak of reserved memory", "peak-allocated": "the peak of allocated memory", oom: "a failed allocation", end: "the end of the trace" };
    const select = byId("moment");
    select.replaceChildren(...this.maps.map((map, place) => make("option", { value: place }, `${names[map.kind]} (${whenText(map)})`)));
    this.look(0);
  }

  look(place) {
    this.map = this.maps[place];
    byId("moment").value = place;
    this.segments = readSegments(this.map);
    this.chosen = this.drawn = null;
    byId("moment-parts").replaceChildren(partsBar(this.map), partsTable(this.map));
    this.canvas.setAttribute("aria-label", `${countText(this.map.segments)} segments with ${bytesText(this.map.reserved_bytes)}`);
    this.painter.draw();
    this.tell();
  }

  rows(width) {
    return Math.min(60, Math.max(10, Math.round(24000 / Math.max(width, 1))));
  }

  paint(context, width, height) {
    const total = Math.max(this.map.reserved_bytes, 1);
    // Blocks are drawn once, the chosen one over them.
    const { canvas } = this.painter;
    const drawn = [this.map.kind, this.map.event, canvas.width, canvas.height, colour("page")].join();
    if (this.drawn !== drawn) {
      this.paintBlocks(context, width, total);
      this.strip = make("canvas", { width: canvas.width, height: canvas.height });
      this.strip.getContext("2d").drawImage(canvas, 0, 0);
      this.drawn = drawn;
    } else {
      context.drawImage(this.strip, 0, 0, width, height);
    }
    if (!this.chosen) return;
    context.strokeStyle = colour("focus");
    context.lineWidth = 2;
    const { start, size } = this.chosen.piece || this.chosen.segment;
    this.rectangles(start, size, width, this.rows(width), total, (x, y, wide) => context.strokeRect(x, y, Math.max(wide, 2), STRIP - 2));
  }

  paintBlocks(context, width, total) {
    const paint = colours([...USES, "block-other", "page"]);
    const rows = this.rows(width);
    const perPixel = total / (width * rows);
    // Pieces that share pixels are drawn over each other; free ones last, so that a gap is never hidden.
    const fill = (start, size, ink) => this.rectangles(start, size, width, rows, total, (x, y, wide) => {
      context.fillStyle = ink;
      context.fillRect(x, y, Math.max(wide, 0.6), STRIP - 2);
    });
    let other = false;
    for (const segment of this.segments) {
      for (const piece of segment.pieces.filter((one) => one.use < 2)) {
        other = !other;
        fill(piece.start, piece.size, piece.use === 0 && other ? paint["block-other"] : paint[USES[piece.use]]);
      }
      for (const piece of segment.pieces.filter((one) => one.use >= 2)) fill(piece.start, piece.size, paint[USES[piece.use]]);
    }
    context.fillStyle = paint.page;
    for (const segment of this.segments) {
      if (segment.size < 3 * perPixel) continue;
      const row = Math.min(rows - 1, Math.floor(segment.start / total * rows));
      context.fillRect((segment.start / total * rows - row) * width - 0.5, row * STRIP, 1, STRIP - 2);
    }
  }

  // A stretch of the strip, row by row.
  rectangles(start, size, width, rows, total, draw) {
    let from = start / total * rows;
    const to = (start + size) / total * rows;
    while (from < to - 1e-9) {
      const row = Math.floor(from + 1e-9);
      const end = Math.min(row + 1, to);
      draw((from - row) * width, row * STRIP, (end - from) * width);
      from = end;
    }
  }

  tell() {
    const told = byId("segments-readout");
    if (!this.chosen) {
      const summed = this.map.summed_segments ? `; of ${countText(this.map.summed_segments)} only the sums are drawn` : "";
      told.textContent = `${countText(this.map.segments)} segments, ${bytesText(this.map.reserved_bytes)}${summed}`;
      return;
    }
    const { segment, piece } = this.chosen;
    const kind = `${segment.flags & 2 ? "expandable segment" : "segment"}${segment.flags & 1 ? " for small requests" : ""}`;
    const held = segment.sums.map((bytes, use) => (bytes ? `${bytesText(bytes)} ${["allocated", "pending", "releasable", "stranded"][use]}` : "")).filter(Boolean);
    let text = `${kind} of ${bytesText(segment.size)} at 0x${segment.address.toString(16)}: ${held.join(", ")}`;
    if (piece) {
      const stack = this.page.stacks[piece.stack - 1];
      const frame = stack && stack.main !== null ? this.page.frames[stack.main] : null;
      const where = piece.use >= 2 ? "" : frame ? `, by ${frameText(frame)} (${stack.category})` : ", no stack";
      text += `\n${bytesText(piece.size)} ${USE_WORDS[piece.use]}${where}`;
    }
    told.textContent = text;
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const rows = this.rows(box.width);
    const row = Math.floor((event.clientY - box.top) / STRIP);
    const byte = (row + (event.clientX - box.left) / box.width) / rows * this.map.reserved_bytes;
    const holds = (one) => byte >= one.start && byte < one.start + one.size;
    const segment = this.segments.find(holds);
    return segment ? { segment, piece: segment.pieces.find(holds) } : null;
  }

  choose(chosen) {
    if (!chosen || !chosen.segment) return;
    this.chosen = chosen;
    this.painter.draw();
    this.tell();
  }

  listen() {
    byId("moment").addEventListener("change", (event) => this.look(Number(event.target.value)));
    this.canvas.addEventListener("pointermove", (event) => this.choose(this.at(event)));
    this.canvas.addEventListener("keydown", (event) => {
      const segment = this.chosen ? this.chosen.segment : null;
      const place = this.segments.indexOf(segment);
      const piece = segment ? segment.pieces.indexOf(this.chosen.piece) : -1;
      const keys = {
        ArrowRight: () => this.choose({ segment: this.segments[place + 1] }),
        ArrowLeft: () => this.choose({ segment: this.segments[place - 1] }),
        ArrowDown: () => this.choose({ segment, piece: segment && segment.pieces[Math.min(piece + 1, segment.pieces.length - 1)] }),
        ArrowUp: () => this.choose({ segment, piece: segment && segment.pieces[Math.max(piece - 1, 0)] }),
      };
      if (!keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
  }
}
