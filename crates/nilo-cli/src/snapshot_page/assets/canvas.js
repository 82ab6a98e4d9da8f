// Canvases as sharp as the screen, redrawn at most once a frame, in the colours of the style sheet.

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function colours(names) {
  return Object.fromEntries(names.map((name) => [name, colour(name)]));
}

// A canvas of a height in CSS pixels; `paint` gets the context and the width.
class Painter {
  constructor(canvas, height, paint) {
    this.canvas = canvas;
    this.height = height;
    this.paint = paint;
    this.waiting = false;
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  get width() {
    return this.canvas.clientWidth;
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.drawNow();
    });
  }

  drawNow() {
    const scale = window.devicePixelRatio || 1;
    const height = typeof this.height === "function" ? this.height(this.width) : this.height;
    const [wide, high] = [Math.max(1, Math.round(this.width * scale)), Math.max(1, Math.round(height * scale))];
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
      this.canvas.style.height = `${height}px`;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, this.width, height);
    context.font = "12px system-ui, sans-serif";
    this.paint(context, this.width, height);
  }
}

// Steps of an axis: 1, 2 or 5 times a power of the base.
function roundStep(range, most) {
  const raw = range / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw);
  return step * power;
}

// Steps of bytes: powers of two.
function byteStep(range, most) {
  return 2 ** Math.ceil(Math.log2(Math.max(1, range) / Math.max(1, most)));
}
