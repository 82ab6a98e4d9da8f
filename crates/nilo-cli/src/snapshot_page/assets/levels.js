// The curve in coarser and coarser levels, four buckets of one in a bucket of the next, so that any stretch of it has its highest and
// lowest values after a few looks.

const FOLD = 4;

function readTimeline(packed) {
  const count = packed.buckets;
  const numbers = packedReader(packed.data);
  const finest = emptyLevel(count);
  const times = new Float64Array(count);
  let [micros, most, reserved] = [0, 0, 0];
  for (let place = 0; place < count; place += 1) {
    micros += numbers.next();
    most += numbers.change();
    times[place] = packed.start_secs + micros / 1e6;
    finest.most[place] = most * packed.unit_bytes;
    finest.least[place] = (most - numbers.next()) * packed.unit_bytes;
    reserved += numbers.change();
    finest.reserved[place] = reserved * packed.unit_bytes;
  }
  const levels = [finest];
  while (levels[levels.length - 1].most.length > FOLD) levels.push(coarser(levels[levels.length - 1]));
  return { levels, times, count };
}

function emptyLevel(count) {
  return { most: new Float64Array(count), least: new Float64Array(count), reserved: new Float64Array(count) };
}

function coarser(level) {
  const count = Math.ceil(level.most.length / FOLD);
  const next = emptyLevel(count);
  next.least.fill(Infinity);
  level.most.forEach((most, place) => {
    const into = Math.floor(place / FOLD);
    next.most[into] = Math.max(next.most[into], most);
    next.least[into] = Math.min(next.least[into], level.least[place]);
    next.reserved[into] = Math.max(next.reserved[into], level.reserved[place]);
  });
  return next;
}

// The highest and lowest values of the buckets from one up to, but without, another.
function extremes(levels, from, to) {
  const found = { most: 0, least: Infinity, reserved: 0 };
  const take = (level, place) => {
    found.most = Math.max(found.most, level.most[place]);
    found.least = Math.min(found.least, level.least[place]);
    found.reserved = Math.max(found.reserved, level.reserved[place]);
  };
  for (let height = 0; from < to; height += 1) {
    const level = levels[height];
    const isLast = height + 1 === levels.length;
    while (from < to && (isLast || from % FOLD)) take(level, from++);
    while (from < to && to % FOLD) take(level, --to);
    from /= FOLD;
    to /= FOLD;
  }
  return found;
}
