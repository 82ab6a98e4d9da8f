//! A curve in one line of text, for terminals.

use nilo_sample::is_absent;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// At most `width` block characters over a scale from zero to the largest value.
///
/// Each character shows the largest of its values, so that a spike of one sample is seen; a space is where nothing was measured.
pub fn sparkline(values: &[f64], width: usize) -> String {
    draw(values, width, &BLOCKS)
}

/// The same for terminals without block characters.
pub fn sparkline_ascii(values: &[f64], width: usize) -> String {
    draw(values, width, &ASCII)
}

/// At most `width` block characters between the smallest and the largest value: the way of a figure whose zero means nothing, such as a loss.
///
/// Each character shows the largest of its values, or `×` where one of them is not finite.
pub fn trend(values: &[f64], width: usize) -> String {
    let width = width.min(values.len());
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let low = finite().fold(f64::INFINITY, f64::min);
    let high = finite().fold(f64::NEG_INFINITY, f64::max);
    // Halved, since the distance of two numbers may be too large for a number.
    let range = high / 2.0 - low / 2.0;
    let character = |index: usize| {
        let bucket = &values[index * values.len() / width..(index + 1) * values.len() / width];
        let measured = bucket.iter().copied().filter(|value| !is_absent(*value));
        match measured.reduce(|a, b| {
            if a.is_finite() && b.is_finite() {
                a.max(b)
            } else {
                f64::NAN
            }
        }) {
            None => ' ',
            Some(value) if !value.is_finite() => '×',
            Some(_) if range <= 0.0 => BLOCKS[3],
            Some(value) => {
                let share = (value / 2.0 - low / 2.0) / range;
                BLOCKS[(share * 7.0).round().clamp(0.0, 7.0) as usize]
            }
        }
    };
    (0..width).map(character).collect()
}

fn draw(values: &[f64], width: usize, levels: &[char; 8]) -> String {
    let width = width.min(values.len());
    let highest = |values: &[f64]| {
        let measured = |value: &f64| !is_absent(*value) && value.is_finite();
        values.iter().copied().filter(measured).reduce(f64::max)
    };
    let top = highest(values).unwrap_or(0.0);
    let character = |index: usize| {
        let bucket = &values[index * values.len() / width..(index + 1) * values.len() / width];
        let Some(value) = highest(bucket) else {
            return ' ';
        };
        let share = if top > 0.0 { value / top } else { 0.0 };
        // The full block is for the peak alone as far as eight levels can tell.
        levels[((share * 7.0).round().clamp(0.0, 7.0)) as usize]
    };
    (0..width).map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::ABSENT;
    use proptest::prelude::*;

    #[test]
    fn levels_rise_from_zero_to_the_peak() {
        let values: Vec<f64> = (0..8).map(f64::from).collect();
        assert_eq!(sparkline(&values, 8), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline_ascii(&values, 8), "_.:-=+*#");
    }

    #[test]
    fn what_was_not_measured_is_a_space() {
        assert_eq!(sparkline(&[1.0, ABSENT, f64::NAN, 1.0], 9), "█  █");
        assert_eq!(sparkline(&[], 9), "");
        assert_eq!(sparkline(&[0.0, -5.0], 9), "▁▁");
    }

    #[test]
    fn a_trend_has_its_own_zero_and_shows_what_is_not_finite() {
        assert_eq!(trend(&[1e6 + 7.0, 1e6 + 3.0, 1e6], 9), "█▄▁");
        assert_eq!(trend(&[5.0, 5.0], 9), "▄▄");
        assert_eq!(trend(&[0.0, f64::NAN, ABSENT, 1.0], 9), "▁× █");
        assert_eq!(trend(&[0.0, f64::INFINITY, 1.0, 1.0], 2), "×█");
        assert_eq!(trend(&[f64::MIN, f64::MAX], 2), "▁█");
        assert_eq!(trend(&[], 9), "");
    }

    proptest! {
        #[test]
        fn any_values_give_a_trend(bits in prop::collection::vec(any::<u64>(), 0..50), width in 0usize..70) {
            let values: Vec<f64> = bits.iter().copied().map(f64::from_bits).collect();
            prop_assert_eq!(trend(&values, width).chars().count(), width.min(values.len()));
        }

        #[test]
        fn one_spike_is_seen_at_any_width(at in 0usize..1000, width in 1usize..200) {
            let mut values = vec![1.0; 1000];
            values[at] = 100.0;
            prop_assert_eq!(sparkline(&values, width).matches('█').count(), 1);
        }

        #[test]
        fn any_values_give_a_line(bits in prop::collection::vec(any::<u64>(), 0..50), width in 0usize..70) {
            let values: Vec<f64> = bits.iter().copied().map(f64::from_bits).collect();
            prop_assert_eq!(sparkline(&values, width).chars().count(), width.min(values.len()));
        }
    }
}
