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

    proptest! {
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
