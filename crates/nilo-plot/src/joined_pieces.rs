//! Which pieces of a metric over steps are one line: a process that goes on where another one stopped, as a resumed program does.

use crate::metric_lines::PlotPoint;

/// Pieces that are further apart than this many steps of their own have something missing between them.
const MOST_STEPS_APART: f64 = 1.5;

/// More pieces than this are left as they are: nobody sees where they meet.
const MOST_PIECES: usize = 1_000;

/// Joins each piece to the only one that goes on where it stops, at the pace of either. Points ascend inside a piece.
pub(crate) fn join_pieces(mut pieces: Vec<Vec<PlotPoint>>) -> Vec<Vec<PlotPoint>> {
    pieces.retain(|piece| !piece.is_empty());
    if pieces.len() > MOST_PIECES {
        return pieces;
    }
    let mut next = vec![Vec::new(); pieces.len()];
    let mut before = vec![0; pieces.len()];
    for (index, piece) in pieces.iter().enumerate() {
        for (other, later) in pieces.iter().enumerate() {
            if goes_on(piece, later) {
                next[index].push(other);
                before[other] += 1;
            }
        }
    }
    let only_next = |index: usize| match next[index][..] {
        [only] if before[only] == 1 => Some(only),
        _ => None,
    };
    let mut is_joined = vec![false; pieces.len()];
    for index in (0..pieces.len()).filter_map(only_next) {
        is_joined[index] = true;
    }
    let mut lines = Vec::new();
    for first in (0..pieces.len()).filter(|index| !is_joined[*index]) {
        let mut line = std::mem::take(&mut pieces[first]);
        let mut at = first;
        while let Some(then) = only_next(at) {
            line.append(&mut pieces[then]);
            at = then;
        }
        lines.push(line);
    }
    lines
}

fn goes_on(piece: &[PlotPoint], later: &[PlotPoint]) -> bool {
    let (Some(end), Some(start)) = (piece.last(), later.first()) else {
        return false;
    };
    let last_step = piece.windows(2).last().map(|pair| pair[1].0 - pair[0].0);
    let first_step = later.windows(2).next().map(|pair| pair[1].0 - pair[0].0);
    let pace = last_step.into_iter().chain(first_step).fold(0.0, f64::max);
    let apart = start.0 - end.0;
    apart > 0.0 && apart <= MOST_STEPS_APART * pace
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(steps: &[f64]) -> Vec<PlotPoint> {
        steps.iter().map(|step| (*step, 1.0)).collect()
    }

    fn joined(pieces: &[&[f64]]) -> Vec<Vec<f64>> {
        let lines = join_pieces(pieces.iter().map(|steps| piece(steps)).collect());
        let steps = |line: Vec<PlotPoint>| line.into_iter().map(|point| point.0).collect();
        lines.into_iter().map(steps).collect()
    }

    #[test]
    fn what_goes_on_where_another_stopped_is_one_line() {
        // A resumed run is read before the one that it resumes.
        let resumed: [&[f64]; 3] = [&[4.0, 5.0], &[2.0, 3.0], &[0.0, 1.0]];
        assert_eq!(joined(&resumed), [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]]);
        // One evaluation of the resumed run, at the pace of those before.
        assert_eq!(joined(&[&[0.0, 20.0], &[40.0]]), [[0.0, 20.0, 40.0]]);
    }

    #[test]
    fn steps_that_are_missing_are_a_gap() {
        let apart: [&[f64]; 2] = [&[0.0, 1.0, 2.0], &[5.0, 6.0]];
        assert_eq!(joined(&apart), [vec![0.0, 1.0, 2.0], vec![5.0, 6.0]]);
        assert_eq!(joined(&[&[0.0], &[1.0]]), [[0.0], [1.0]]);
    }

    #[test]
    fn pieces_that_overlap_and_two_that_go_on_alike_stay_apart() {
        let epochs: [&[f64]; 2] = [&[0.0, 1.0, 2.0], &[0.0, 1.0, 2.0]];
        assert_eq!(joined(&epochs).len(), 2);
        let branches: [&[f64]; 3] = [&[0.0, 1.0], &[2.0, 3.0], &[2.0, 3.0]];
        assert_eq!(joined(&branches).len(), 3);
    }
}
