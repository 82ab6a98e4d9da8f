// Figures as tables: peaks, parts of the reserved bytes, categories, call stacks, failed allocations.

const PARTS = [["requested", "block"], ["rounding", "block"], ["pending", "pending"], ["releasable", "releasable"], ["stranded", "stranded"]];

function table(heads, rows) {
  const cell = (tag, head, content) => make(tag, { class: head.number ? "number" : head.place ? "place" : "" }, content);
  const body = rows.map((row) => make("tr", {}, ...row.map((content, column) => cell("td", heads[column], content))));
  const titles = heads.map((head) => cell("th", head, head.name));
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...titles)), make("tbody", {}, ...body)));
}

function partsBar(parts) {
  const spans = PARTS.map(([name, style]) => {
    const span = make("span", { class: style, title: `${name}: ${bytesText(parts[`${name}_bytes`])}` });
    span.style.flexGrow = parts[`${name}_bytes`];
    return span;
  });
  return make("div", { class: "bar", "aria-hidden": "true" }, ...spans);
}

function partsTable(parts) {
  const rows = [...PARTS.map(([name]) => name), "reserved"].map((name) => {
    const bytes = parts[`${name}_bytes`];
    return [name === "reserved" ? "= reserved" : name, countText(bytes), bytesText(bytes), shareText(bytes, parts.reserved_bytes)];
  });
  return table([{ name: "Part" }, { name: "Bytes", number: true }, { name: "", number: true }, { name: "Share", number: true }], rows);
}

function showPeaks(page, device) {
  const { summary } = device;
  const figure = (name, value, small) => make("div", {}, make("dt", {}, name), make("dd", {}, value, make("small", {}, small)));
  const peak = (what) => {
    const bytes = summary[`peak_${what}_bytes`];
    return figure(`Peak ${what}`, bytesText(bytes), `${countText(bytes)} bytes ${whenText(summary[`at_peak_${what}`])}`);
  };
  const free = summary.at_peak_reserved.releasable_bytes + summary.at_peak_reserved.stranded_bytes;
  const figures = make("dl", { class: "figures" },
    peak("allocated"), peak("reserved"),
    figure("Free at the reserved peak", bytesText(free), `${shareText(free, summary.peak_reserved_bytes)}; stranded ${bytesText(summary.at_peak_reserved.stranded_bytes)}`),
    figure("Failed allocations", countText(summary.oom_events), summary.oom_events ? "explained below" : ""));
  const late = summary.begins_late ? [make("p", {}, "The trace begins late: what was allocated before is counted, earlier peaks are not in it.")] : [];
  byId("peaks").replaceChildren(figures, ...late);
  byId("facts").textContent = `GPU ${summary.device}: ${eventsText(summary.events, summary.duration_secs)}. ${page.words.settings}`;
}

function showKinds(device) {
  const { summary } = device;
  const bytes = { name: "Bytes", number: true };
  const heads = [bytes, { name: "Share", number: true }, { name: "Blocks", number: true }];
  const figures = (held) => [bytesText(held.bytes), shareText(held.bytes, summary.peak_allocated_bytes), countText(held.blocks)];
  const parts = [table([{ name: "Category" }, ...heads, { name: "Decided by" }],
    summary.categories.map((held) => [held.category.replace(/-/g, " "), ...figures(held), held.decided_by.replace(/-/g, " ")]))];
  parts.push(make("p", { class: "quiet" }, "The innermost known frame decides. Backward runs in threads without Python frames: its allocations have no stack and stay unknown, unless an annotation was open."));
  if (summary.phases.some((held) => held.phase !== null)) {
    parts.push(make("h3", {}, "By annotation at allocation"));
    parts.push(table([{ name: "Phase", place: true }, ...heads], summary.phases.slice(0, 100).map((held) => [held.phase === null ? "(no annotation)" : held.phase, ...figures(held)])));
  }
  byId("kinds").replaceChildren(...parts);
}

function heldRows(stacks, places) {
  return stacks.map((held, place) => {
    const frames = held.frames.map((frame) => make("li", {}, frameText(frame)));
    const where = frames.length ? make("details", {}, make("summary", {}, places[place]), make("ol", {}, ...frames)) : places[place];
    return [bytesText(held.bytes), `${(100 * held.share_ratio).toFixed(1)} %`, countText(held.blocks), where];
  });
}

const HELD = [{ name: "Bytes", number: true }, { name: "Share", number: true }, { name: "Blocks", number: true }, { name: "Allocated at", place: true }];

function showStacks(device, words) {
  const { stacks, stack_count } = device.summary;
  const note = make("p", { class: "quiet" }, `${countText(stacks.length)} of ${countText(stack_count)} call stacks; a row opens to all frames, innermost first.`);
  byId("stacks").replaceChildren(note, table(HELD, heldRows(stacks, words.places)));
}

function showOoms(device, words) {
  byId("ooms-section").hidden = device.ooms.length === 0;
  const explained = device.ooms.map((oom, place) => {
    const told = words.ooms[place];
    const parts = [
      make("h3", {}, told.title),
      ...told.advice.map((advice) => make("p", { class: "advice" }, advice)),
      ...told.sentences.map((sentence) => make("p", {}, sentence)),
      partsBar(oom),
      make("details", {}, make("summary", {}, "Reserved bytes at that moment"), partsTable(oom)),
    ];
    if (oom.pinned_by.length) {
      const heads = [{ name: "Free bytes kept", number: true }, { name: "Segments", number: true }, { name: "Blocks", number: true }, { name: "Allocated at", place: true }];
      const rows = oom.pinned_by.map((kept, row) => [bytesText(kept.kept_free_bytes), countText(kept.segments), countText(kept.blocks), told.pinned_by[row]]);
      const note = told.pinned_note === null ? [] : [make("p", { class: "quiet" }, told.pinned_note)];
      parts.push(make("details", {}, make("summary", {}, "Blocks pinning partly free segments"), table(heads, rows), ...note));
    }
    if (oom.holders.length) {
      parts.push(make("details", {}, make("summary", {}, "Allocated bytes by call stack"), table(HELD, heldRows(oom.holders, told.holders))));
    }
    return make("article", { class: "oom" }, ...parts);
  });
  const left = device.summary.oom_events - device.ooms.length;
  const note = left > 0 ? [make("p", { class: "quiet" }, `${countText(device.summary.oom_events)} allocations failed; the last ${device.ooms.length} are explained.`)] : [];
  byId("ooms").replaceChildren(...note, ...explained);
}
