// Figures and names in words, and elements that hold nothing but text: names in a snapshot may be anything.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

function bytesText(bytes) {
  let unit = 0;
  while (bytes >= 1024 && unit + 1 < UNITS.length) {
    bytes /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(bytes) : bytes.toFixed(2)} ${UNITS[unit]}`;
}

function countText(number) {
  return Math.round(number).toLocaleString("en-US");
}

function shareText(part, whole) {
  return `${(100 * part / Math.max(whole, 1)).toFixed(1)} %`;
}

function secsText(secs) {
  if (secs === null) return "";
  if (secs < 1e-3) return `${(secs * 1e6).toFixed(0)} µs`;
  if (secs < 1) return `${(secs * 1e3).toFixed(1)} ms`;
  return `${secs.toFixed(3)} s`;
}

// A blank for what takes no room or turns the reading direction.
function plainText(text) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, " ");
}

// "1,200 events over 350 ms"; of one event there is no duration.
function eventsText(events, secs) {
  if (events === 1) return "1 event";
  if (secs === null) return `${countText(events)} events`;
  return `${countText(events)} events ${secs === 0 ? "within a microsecond" : `over ${secsText(secs)}`}`;
}

// "at event 1,200", or that it was so from the start.
function whenText(moment) {
  if (moment.event === 0) return "before the first event";
  if (moment.at_start) return "when the range begins";
  return `at ${eventText(moment)}`;
}

function eventText(moment) {
  const secs = moment.secs === null ? "" : `, ${secsText(moment.secs)} after the first`;
  const stage = moment.stage === null ? "" : `, in ${plainText(moment.stage)}`;
  return `event ${countText(moment.event)}${secs}${stage}`;
}

function fileText(file) {
  const packages = /^.*(?:site|dist)-packages\//;
  return plainText(file).replace(packages, "");
}

// "train.py:39 make_holes"
function frameText(frame) {
  const line = frame.line ? `:${frame.line}` : "";
  return `${fileText(frame.file)}${line} ${plainText(frame.function)}`.trim();
}

function make(tag, options, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options || {})) {
    if (name === "class") element.className = value;
    else element.setAttribute(name, value);
  }
  for (const child of children) {
    element.append(typeof child === "object" ? child : plainText(child));
  }
  return element;
}

function byId(id) {
  return document.getElementById(id);
}
