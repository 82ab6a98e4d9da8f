//! Colours: a light theme for paper, a dark one for the screen.
//!
//! Series take the colours of Okabe and Ito, which people with any colour vision can tell apart, then some of Paul Tol's "muted" set.
//! Red is kept for what kills.

/// Light or dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// Black on white.
    #[default]
    Light,
    /// White on near black.
    Dark,
}

/// The colours of a theme.
#[derive(Debug)]
pub(crate) struct Palette {
    pub(crate) background: &'static str,
    /// Text and the line of the total.
    pub(crate) ink: &'static str,
    /// Text that is read second.
    pub(crate) muted: &'static str,
    pub(crate) grid: &'static str,
    pub(crate) axis: &'static str,
    /// Limits and OOM kills.
    pub(crate) danger: &'static str,
    /// Processes that are too many for a colour of their own.
    pub(crate) others: &'static str,
    pub(crate) series: [&'static str; 12],
}

impl Theme {
    pub(crate) fn palette(self) -> &'static Palette {
        match self {
            Theme::Light => &LIGHT,
            Theme::Dark => &DARK,
        }
    }
}

impl Palette {
    /// A colour mixed with the background, as if it were transparent; opaque, so that areas may overlap.
    pub(crate) fn tint(&self, colour: &str, share: f64) -> String {
        let channel = |hex: &str, index: usize| {
            let digits = hex.get(1 + 2 * index..3 + 2 * index);
            let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            f64::from(value.unwrap_or(0))
        };
        let mix = |index| {
            let value =
                channel(colour, index) * share + channel(self.background, index) * (1.0 - share);
            value.round() as u8
        };
        format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
    }
}

const LIGHT: Palette = Palette {
    background: "#ffffff",
    ink: "#16191d",
    muted: "#565d66",
    grid: "#e4e7ea",
    axis: "#8b929a",
    danger: "#c1121f",
    others: "#a9afb6",
    series: [
        "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#882255",
        "#332288", "#ddcc77", "#44aa99", "#aa4499",
    ],
};

const DARK: Palette = Palette {
    background: "#14171b",
    ink: "#f0f2f4",
    muted: "#a7afb8",
    grid: "#2a2f36",
    axis: "#6d757e",
    danger: "#ff6b6b",
    others: "#6b727a",
    series: [
        "#3a94d0", "#e69f00", "#1fae86", "#cc79a7", "#7cc5f0", "#e2703a", "#f0e442", "#b3527f",
        "#8479d6", "#ddcc77", "#5cc2b1", "#c46bc4",
    ],
};
