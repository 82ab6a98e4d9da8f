//! How often keys were asked for lately, roughly and in little memory: a count-min sketch that ages.

const ROWS: usize = 4;
const LEAST_WIDTH: usize = 1024;
/// Counts are halved after this many requests for each column: old popularity fades.
const REQUESTS_PER_COLUMN: usize = 10;

#[derive(Debug)]
pub(super) struct FrequencySketch {
    counters: Vec<u8>,
    width: usize,
    requests: usize,
}

impl FrequencySketch {
    pub(super) fn new() -> FrequencySketch {
        FrequencySketch {
            counters: vec![0; ROWS * LEAST_WIDTH],
            width: LEAST_WIDTH,
            requests: 0,
        }
    }

    /// Makes room for so many keys. Counting starts anew when it grows: columns cannot be split.
    pub(super) fn hold(&mut self, keys: usize) {
        if keys * 4 > self.width {
            self.width = (keys * 8).next_power_of_two();
            self.counters = vec![0; ROWS * self.width];
            self.requests = 0;
        }
    }

    pub(super) fn add(&mut self, key: u64) {
        for place in places(key, self.width) {
            self.counters[place] = self.counters[place].saturating_add(1);
        }
        self.requests += 1;
        if self.requests >= self.width * REQUESTS_PER_COLUMN {
            self.counters.iter_mut().for_each(|counter| *counter >>= 1);
            self.requests /= 2;
        }
    }

    pub(super) fn count(&self, key: u64) -> u8 {
        places(key, self.width)
            .into_iter()
            .map(|place| self.counters[place])
            .min()
            .unwrap_or(0)
    }
}

fn places(key: u64, width: usize) -> [usize; ROWS] {
    std::array::from_fn(|row| {
        row * width + (spread(key ^ (row as u64) << 60) as usize & (width - 1))
    })
}

/// Close keys end far from each other (the finalizer of SplitMix64).
pub(super) fn spread(key: u64) -> u64 {
    let key = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ key >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ key >> 31
}
