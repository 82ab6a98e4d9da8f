// Allocated and reserved memory over the trace. Each column of pixels shows the highest and the lowest value in it.

const LEFT = 70;
const RIGHT = 10;
const TOP = 48;
const BOTTOM = 22;

class Timeline {
  constructor() {
    this.canvas = byId("timeline");
    this.painter = new Painter(this.canvas, 300, (...place) => this.paint(...place));
    this.overview = new Painter(byId("overview"), 36, (...place) => this.paintOverview(...place));
    this.dragged = null;
    this.pointer = null;
    this.listen();
  }

  show(device) {
    this.packed = device.timeline;
    Object.assign(this, readTimeline(device.timeline));
    this.marks = [
      { name: "peak allocated", key: "p", moment: device.summary.at_peak_allocated },
      { name: "peak reserved", moment: device.summary.at_peak_reserved },
      ...device.ooms.map((oom) => ({ name: "failed allocation", moment: oom, failed: true })),
    ];
    byId("axis-choice").hidden = !this.packed.has_times;
    this.setAxis(this.packed.has_times ? byId("axis").value : "event");
    const { summary } = device;
    this.canvas.setAttribute("aria-label", `Memory over ${countText(summary.events)} events: at most ${bytesText(summary.peak_allocated_bytes)} allocated and ${bytesText(summary.peak_reserved_bytes)} reserved`);
  }

  setAxis(axis) {
    this.axis = axis;
    this.whole = axis === "time"
      ? [this.packed.start_secs, Math.max(this.packed.end_secs, this.packed.start_secs + 1e-6)]
      : [this.packed.first_event - 1, this.packed.first_event - 1 + this.packed.events];
    this.view = [...this.whole];
    this.redraw();
  }

  redraw() {
    this.painter.draw();
    this.overview.draw();
    this.tell();
  }

  // The first and the last bucket of a stretch of the axis. Over time the one that began before it counts too: its level still holds.
  buckets(from, to) {
    let first;
    let last;
    if (this.axis === "event") {
      const place = (at) => (at - this.packed.first_event + 1) / this.packed.events_per_bucket;
      [first, last] = [Math.floor(place(from)), Math.ceil(place(to)) - 1];
    } else {
      [first, last] = [this.begunBefore(from), this.begunBefore(to)];
    }
    if (to >= this.whole[1]) last = this.count - 1;
    first = Math.min(Math.max(first, 0), this.count - 1);
    return [first, Math.min(Math.max(last, first), this.count - 1)];
  }

  // The last bucket that began before a time; -1 where none did.
  begunBefore(secs) {
    let [low, high] = [0, this.count];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] < secs) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  placeOf(moment) {
    if (moment.at_start) return this.whole[0];
    return this.axis === "time" ? moment.secs : moment.event - 0.5;
  }

  values(from, to) {
    const [first, last] = this.buckets(from, to);
    return extremes(this.levels, first, last + 1);
  }

  zoom(factor, around) {
    const [from, to] = this.view;
    const at = around === undefined ? (from + to) / 2 : around;
    this.look(at - (at - from) * factor, at + (to - at) * factor);
  }

  // Keeps the view inside of the trace, and not closer than a few events.
  look(from, to) {
    const [first, last] = this.whole;
    const least = this.axis === "event" ? Math.min(8, last - first) : Math.min(1e-5, last - first);
    const length = Math.min(Math.max(to - from, least), last - first);
    from = Math.min(Math.max((from + to - length) / 2, first), last - length);
    this.view = [from, from + length];
    this.redraw();
  }

  toPlace(x) {
    const [from, to] = this.view;
    const part = (x - LEFT) / Math.max(1, this.painter.width - LEFT - RIGHT);
    return from + Math.min(Math.max(part, 0), 1) * (to - from);
  }

  paint(context, width, height) {
    const paint = colours(["reserved", "allocated", "least", "line", "quiet", "text", "mark", "failed", "focus"]);
    const [from, to] = this.view;
    const [wide, high] = [Math.max(1, width - LEFT - RIGHT), height - TOP - BOTTOM];
    const whole = this.values(from, to);
    const top = Math.max(byId("scale").checked ? 0 : whole.reserved, whole.most, 1) * 1.03;
    const y = (bytes) => TOP + high * (1 - Math.min(bytes / top, 1));
    const x = (at) => LEFT + wide * (at - from) / (to - from);
    const columns = Array.from({ length: Math.floor(wide) }, (_, column) =>
      this.values(from + (to - from) * column / wide, from + (to - from) * (column + 1) / wide));
    for (const [name, key] of [["reserved", "reserved"], ["allocated", "most"], ["least", "least"]]) {
      context.fillStyle = paint[name];
      columns.forEach((values, column) => {
        const bytes = Math.max(values[key], 0);
        if (bytes > 0) context.fillRect(LEFT + column, y(bytes), 1, TOP + high - y(bytes));
      });
    }
    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const bytes = byteStep(top, 5);
    for (let level = 0; level <= top; level += bytes) {
      context.fillStyle = paint.quiet;
      context.fillText(bytesText(level), LEFT - 6, y(level));
      context.fillStyle = paint.line;
      context.fillRect(LEFT, Math.round(y(level)), wide, 0.5);
    }
    const step = this.axis === "event" ? Math.max(1, roundStep(to - from, wide / 110)) : roundStep(to - from, wide / 110);
    context.textBaseline = "top";
    context.textAlign = "center";
    for (let tick = Math.ceil(from / step); tick * step <= to; tick += 1) {
      const at = tick * step;
      context.fillStyle = paint.line;
      context.fillRect(Math.round(x(at)), TOP + high, 1, 4);
      context.fillStyle = paint.quiet;
      const decimals = Math.max(0, Math.min(9, -Math.floor(Math.log10(step) + 1e-9)));
      context.fillText(this.axis === "time" ? `${at.toFixed(decimals)} s` : countText(at), x(at), TOP + high + 6);
    }
    this.paintMarks(context, x, high, wide, paint);
    if (this.dragged) {
      const [start, end] = [Math.min(this.dragged.from, this.dragged.to), Math.max(this.dragged.from, this.dragged.to)];
      context.globalAlpha = 0.25;
      context.fillStyle = paint.focus;
      context.fillRect(start, TOP, end - start, high);
      context.globalAlpha = 1;
    } else if (this.pointer !== null) {
      context.fillStyle = paint.text;
      context.fillRect(Math.round(x(this.pointer)), TOP, 1, high);
    }
  }

  // Names that would lie over each other are in rows; what has no room has its line.
  paintMarks(context, x, high, wide, paint) {
    context.textBaseline = "bottom";
    context.textAlign = "center";
    const taken = [LEFT, LEFT, LEFT];
    const marks = this.marks.map((mark) => ({ ...mark, at: this.placeOf(mark.moment) }));
    marks.sort((one, other) => one.at - other.at);
    for (const mark of marks) {
      if (mark.at === null || mark.at < this.view[0] || mark.at > this.view[1]) continue;
      const at = x(mark.at);
      context.strokeStyle = context.fillStyle = mark.failed ? paint.failed : paint.mark;
      context.setLineDash(mark.failed ? [] : [4, 3]);
      const half = context.measureText(mark.name).width / 2;
      const middle = Math.min(Math.max(at, LEFT + half), LEFT + wide - half);
      const row = taken.findIndex((end) => middle - half >= end);
      const top = row < 0 ? TOP : TOP - 3 - 14 * row;
      if (row >= 0) {
        context.fillText(mark.name, middle, top);
        taken[row] = middle + half + 8;
      }
      context.beginPath();
      context.moveTo(at, row > 0 && Math.abs(at - middle) < half ? top : TOP);
      context.lineTo(at, TOP + high);
      context.stroke();
    }
    context.setLineDash([]);
  }

  paintOverview(context, width, height) {
    const paint = colours(["reserved", "allocated", "focus", "line"]);
    const [first, last] = this.whole;
    const wide = Math.max(1, width - LEFT - RIGHT);
    const top = Math.max(extremes(this.levels, 0, this.count).reserved, 1);
    for (let column = 0; column < wide; column += 1) {
      const values = this.values(first + (last - first) * column / wide, first + (last - first) * (column + 1) / wide);
      for (const [name, bytes] of [["reserved", values.reserved], ["allocated", values.most]]) {
        context.fillStyle = paint[name];
        context.fillRect(LEFT + column, height * (1 - bytes / top), 1, height * bytes / top);
      }
    }
    const at = (place) => LEFT + wide * (place - first) / (last - first);
    context.strokeStyle = paint.focus;
    context.lineWidth = 2;
    context.strokeRect(at(this.view[0]), 1, Math.max(2, at(this.view[1]) - at(this.view[0])), height - 2);
  }

  tell() {
    const isAt = this.pointer !== null;
    const [from, to] = this.view;
    const column = (to - from) / Math.max(1, this.painter.width - LEFT - RIGHT);
    const [start, end] = isAt ? [this.pointer, this.pointer + column] : [from, to];
    const values = this.values(start, end);
    const epb = this.packed.events_per_bucket;
    const event = (bucket) => Math.min(bucket * epb + this.packed.first_event, this.packed.first_event + this.packed.events - 1);
    const [one, other] = this.buckets(start, end);
    const last = Math.min(event(other) + epb - 1, this.packed.first_event + this.packed.events - 1);
    const events = event(one) === last ? `event ${countText(last)}` : `events ${countText(event(one))} to ${countText(last)}`;
    const time = this.packed.has_times ? `, ${secsText(this.times[one])}${isAt ? "" : ` to ${secsText(this.axis === "time" ? to : this.times[other])}`}` : "";
    const allocated = values.least === values.most ? bytesText(values.most) : `${bytesText(values.least)} to ${bytesText(values.most)}`;
    byId("timeline-readout").textContent = `${isAt ? "" : "Shown: "}${events}${time}\nallocated ${allocated}, reserved up to ${bytesText(values.reserved)}`;
  }

  listen() {
    const { canvas } = this;
    const placed = (event) => event.clientX - canvas.getBoundingClientRect().left;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      canvas.setPointerCapture(event.pointerId);
      this.dragged = { from: placed(event), to: placed(event) };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (this.dragged) this.dragged.to = placed(event);
      this.pointer = this.toPlace(placed(event));
      this.painter.draw();
      this.tell();
    });
    canvas.addEventListener("pointerup", () => {
      const dragged = this.dragged;
      this.dragged = null;
      if (dragged && Math.abs(dragged.to - dragged.from) > 4) {
        const ends = [this.toPlace(dragged.from), this.toPlace(dragged.to)];
        this.look(Math.min(...ends), Math.max(...ends));
      }
    });
    canvas.addEventListener("pointerleave", () => {
      this.pointer = null;
      this.redraw();
    });
    canvas.addEventListener("dblclick", () => this.look(...this.whole));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.toPlace(placed(event)));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const [from, to] = this.view;
      const peak = this.placeOf(this.marks[0].moment);
      const keys = {
        ArrowLeft: () => this.look(from - (to - from) / 10, to - (to - from) / 10),
        ArrowRight: () => this.look(from + (to - from) / 10, to + (to - from) / 10),
        "+": () => this.zoom(0.5),
        "=": () => this.zoom(0.5),
        "-": () => this.zoom(2),
        Home: () => this.look(...this.whole),
        p: () => peak !== null && this.look(peak - (to - from) / 4, peak + (to - from) / 4),
      };
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    byId("timeline-in").addEventListener("click", () => this.zoom(0.5));
    byId("timeline-out").addEventListener("click", () => this.zoom(2));
    byId("timeline-all").addEventListener("click", () => this.look(...this.whole));
    byId("scale").addEventListener("change", () => this.redraw());
    byId("axis").addEventListener("change", (event) => this.setAxis(event.target.value));
  }
}
