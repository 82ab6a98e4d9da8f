//! Charts of a run, good enough for a paper: memory over time by process, several runs over each other, and a curve in a line of text.
//!
//! The way of a chart: `curve` takes the points from a recording, `stack` divides them among the processes, `frame` lays out the picture, `panel` draws metrics below it, [`memory_chart()`] and [`compare_chart()`] draw, [`Chart`] writes SVG or PNG.
//! A chart is a function of a recording and its options: no clocks, no files, no fonts of the machine.

mod charged_line;
mod chart;
mod compare_chart;
mod compare_gpu_lines;
mod cpu_lines;
mod curve;
mod flame_chart;
mod font;
mod frame;
mod gpu_lines;
mod joined_pieces;
mod legend;
mod levels;
mod limit_labels;
mod m4;
mod marks;
mod memory_bars;
mod memory_chart;
mod metric_lines;
mod options;
mod panel;
mod short_number;
mod sparkline;
mod stack;
mod subtitle;
mod svg;
mod theme;
mod ticks;
mod x_axis;

pub use crate::chart::{Chart, PlotError};
pub use crate::compare_chart::compare_chart;
pub use crate::flame_chart::{FlameFrame, FlameStack, flame_chart};
pub use crate::memory_bars::{MemoryBar, memory_bars};
pub use crate::memory_chart::memory_chart;
pub use crate::options::{ChartOptions, PeakMark, RanOutMark, XAxisKind};
pub use crate::short_number::short_number;
pub use crate::sparkline::{sparkline, sparkline_ascii, trend};
pub use crate::theme::Theme;
