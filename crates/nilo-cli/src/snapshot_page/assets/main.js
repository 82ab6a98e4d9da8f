// Reads the data and shows a GPU.

const page = JSON.parse(byId("data").textContent);
document.querySelector("main").hidden = false;
const timeline = new Timeline();
const flame = new Flame(page.frames);
const segments = new Segments(page);

function showDevice(place) {
  const device = page.devices[place];
  const words = page.words.devices[place];
  showPeaks(page, device);
  showOoms(device, words);
  timeline.show(device);
  flame.show(device, page.has_stacks);
  showKinds(device);
  showStacks(device, words);
  segments.show(device);
}

byId("device").replaceChildren(...page.devices.map((device, place) => make("option", { value: place }, `${device.summary.device}`)));
byId("devices").hidden = page.devices.length < 2;
byId("device").addEventListener("change", (event) => showDevice(Number(event.target.value)));
showDevice(0);
document.documentElement.dataset.ready = "yes";
