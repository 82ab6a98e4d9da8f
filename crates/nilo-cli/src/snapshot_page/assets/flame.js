// The allocated bytes at their peak by call stack: the outermost call on top, as wide as its bytes.

const ROW = 19;

function readFlame(packed, frames) {
  const numbers = packedReader(packed.data);
  const all = { frame: null, name: "all", bytes: packed.bytes, start: 0, depth: 0, parent: null, children: [] };
  const calls = [all];
  const open = [all];
  for (let place = 0; place < packed.calls; place += 1) {
    const depth = numbers.next() + 1;
    const frame = frames[numbers.next() - 1] || null;
    const bytes = numbers.next();
    open.length = depth;
    const parent = open[depth - 1];
    const before = parent.children[parent.children.length - 1];
    const start = before ? before.start + before.bytes : parent.start;
    const call = { frame, bytes, start, depth, parent, children: [] };
    call.name = frame ? frameText(frame) : "(no stack: backward threads, or before the trace began)";
    parent.children.push(call);
    open.push(call);
    calls.push(call);
  }
  return calls;
}

// Function first, then the file without its folder: boxes are narrow.
function shortName(call) {
  if (!call.frame) return call.name;
  const file = plainText(call.frame.file).split("/").pop();
  return `${plainText(call.frame.function)} ${file}${call.frame.line ? `:${call.frame.line}` : ""}`;
}

class Flame {
  constructor(frames) {
    this.frames = frames;
    this.canvas = byId("flame");
    this.painter = new Painter(this.canvas, () => ROW * (this.deepest() + 1), (...place) => this.paint(...place));
    this.listen();
  }

  show(device, hasStacks) {
    byId("flame-body").hidden = !hasStacks;
    byId("flame-missing").hidden = hasStacks;
    this.packed = device.flame;
    this.calls = readFlame(device.flame, this.frames);
    this.root = this.chosen = this.calls[0];
    this.canvas.setAttribute("aria-label", `${bytesText(device.flame.bytes)} allocated at the peak, in ${countText(device.flame.calls)} calls`);
    this.search(byId("flame-search").value);
    this.zoom(this.root);
  }

  // The lowest row that is wide enough to be seen.
  deepest() {
    const least = this.root.bytes / Math.max(1, this.painter.width) / 2;
    return this.visible().reduce((deepest, call) => (call.bytes >= least ? Math.max(deepest, call.depth) : deepest), 0);
  }

  // Callers of the chosen root, and what it calls.
  visible() {
    const end = this.root.start + this.root.bytes;
    return this.calls.filter((call) => (call.depth <= this.root.depth ? this.isCaller(call) : call.start >= this.root.start && call.start < end));
  }

  isCaller(call) {
    for (let one = this.root; one; one = one.parent) if (one === call) return true;
    return false;
  }

  zoom(call) {
    this.root = this.chosen = call;
    this.painter.draw();
    this.tell();
  }

  span(call, width) {
    if (call.depth <= this.root.depth) return [0, width];
    return [width * (call.start - this.root.start) / this.root.bytes, width * call.bytes / this.root.bytes];
  }

  paint(context, width) {
    const paint = colours(["own", "installed", "torch", "native", "frame-text", "page", "found", "focus", "line", "panel", "text"]);
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const call of this.visible()) {
      const [x, wide] = this.span(call, width);
      if (wide < 0.5) continue;
      const y = call.depth * ROW;
      const box = wide > 3 ? wide - 1 : wide;
      const isFound = this.found && this.found.has(call);
      context.globalAlpha = call.depth < this.root.depth ? 0.6 : 1;
      context.fillStyle = isFound ? paint.found : call.frame ? paint[call.frame.origin] : paint.line;
      context.fillRect(x, y, box, ROW - 1);
      if (wide > 30) this.write(context, shortName(call), x + 4, y + ROW / 2, wide - 8, isFound ? paint.page : call.frame ? paint["frame-text"] : paint.text);
      if (call === this.chosen && document.activeElement === this.canvas) {
        context.strokeStyle = paint.focus;
        context.lineWidth = 2;
        context.strokeRect(x + 1, y + 1, Math.max(box - 2, 1), ROW - 3);
      }
    }
    context.globalAlpha = 1;
  }

  write(context, text, x, y, wide, ink) {
    context.fillStyle = ink;
    const most = Math.floor(wide / 5);
    let shown = text.length > most ? text.slice(0, most) : text;
    while (shown.length > 1 && context.measureText(shown).width > wide) shown = shown.slice(0, Math.floor(shown.length * 0.9));
    context.fillText(shown.length < text.length ? `${shown.slice(0, -1)}…` : shown, x, y);
  }

  tell() {
    const call = this.chosen;
    const more = this.packed.left_out && call === this.calls[0] ? `; ${countText(this.packed.left_out)} small calls are not drawn` : "";
    byId("flame-readout").textContent = `${call.name}\n${bytesText(call.bytes)} (${countText(call.bytes)} bytes), ${shareText(call.bytes, this.packed.bytes)} of the allocated bytes${more}`;
  }

  search(text) {
    const wanted = text.trim().toLowerCase();
    this.found = wanted ? new Set(this.calls.filter((call) => call.parent && call.name.toLowerCase().includes(wanted))) : null;
    const told = byId("flame-found");
    if (!this.found) {
      told.textContent = "";
    } else {
      const isOutermost = (call) => {
        for (let one = call.parent; one; one = one.parent) if (this.found.has(one)) return false;
        return true;
      };
      const bytes = [...this.found].filter(isOutermost).reduce((sum, call) => sum + call.bytes, 0);
      told.textContent = `${countText(this.found.size)} calls, ${bytesText(bytes)} (${shareText(bytes, this.packed.bytes)})`;
    }
    this.painter.draw();
  }

  callAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, depth] = [event.clientX - box.left, Math.floor((event.clientY - box.top) / ROW)];
    return this.visible().find((call) => {
      const [start, wide] = this.span(call, box.width);
      return call.depth === depth && x >= start && x < start + Math.max(wide, 0.5);
    });
  }

  choose(call) {
    if (!call) return;
    this.chosen = call;
    this.painter.draw();
    this.tell();
  }

  listen() {
    this.canvas.addEventListener("pointermove", (event) => this.choose(this.callAt(event)));
    this.canvas.addEventListener("click", (event) => {
      const call = this.callAt(event);
      if (call) this.zoom(call);
    });
    this.canvas.addEventListener("focus", () => this.painter.draw());
    this.canvas.addEventListener("blur", () => this.painter.draw());
    this.canvas.addEventListener("keydown", (event) => {
      const call = this.chosen;
      const beside = (step) => call.parent && call.parent.children[call.parent.children.indexOf(call) + step];
      const keys = {
        ArrowUp: () => this.choose(call.parent),
        ArrowDown: () => this.choose(call.children[0]),
        ArrowLeft: () => this.choose(beside(-1)),
        ArrowRight: () => this.choose(beside(1)),
        Enter: () => this.zoom(call),
        Escape: () => this.zoom(this.calls[0]),
      };
      if (!keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    byId("flame-all").addEventListener("click", () => this.zoom(this.calls[0]));
    byId("flame-search").addEventListener("input", (event) => this.search(event.target.value));
  }
}
