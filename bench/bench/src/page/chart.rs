//! Curves as SVG.
use super::html::{escape, line};
use super::short;

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 340.0;
/// Room for the numbers at the left, at the right for names, and above and below.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 220.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 46.0;
/// Colours that are told apart by those who see fewer of them, too.
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#444444", "#8a6d00"];

/// One or several curves.
#[derive(Clone, Debug)]
pub struct Chart {
    pub title: String,
    pub across: Axis,
    pub up: Axis,
    pub series: Vec<Series>,
}

/// One direction.
#[derive(Clone, Debug)]
pub struct Axis {
    pub name: String,
    pub scale: Scale,
}

/// How far apart values stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// As far as their difference, from 0 on.
    Linear,
    /// As far as their ratio.
    Logarithm,
    /// Shares of a whole: 90 % as far from 99 % as that from 99.9 %.
    Nines,
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// A span of places on an axis.
struct Range {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Chart {
    /// Latencies by the share that is faster, in microseconds.
    pub fn latency(title: &str, series: Vec<Series>) -> Self {
        Self::plain(title, ["share of the messages, %", "us"], [Scale::Nines, Scale::Logarithm], series)
    }

    /// Any curves; what is said of each is said of the axis across, then of the one up.
    pub fn plain(title: &str, names: [&str; 2], scales: [Scale; 2], series: Vec<Series>) -> Self {
        let [across, up] = [0, 1].map(|which| Axis { name: names[which].into(), scale: scales[which] });
        Self { title: title.into(), across, up, series }
    }

    /// Writes the picture.
    pub fn write(&self, out: &mut String) {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let across = Range::of(self.across.scale, points().map(|point| point.0));
        let up = Range::of(self.up.scale, points().map(|point| point.1));
        line(
            out,
            &format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
                 height=\"{HEIGHT}\" role=\"img\" font-family=\"system-ui,sans-serif\" font-size=\"12\">"
            ),
        );
        line(out, &format!("<title>{}</title>", escape(&self.title)));
        self.grid(out, &across, &up);
        for (place, series) in self.series.iter().enumerate() {
            series.write(out, place, &across, &up);
        }
        line(out, "</svg>");
    }

    fn grid(&self, out: &mut String, across: &Range, up: &Range) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (value, name) in across.ticks() {
            let x = x(across, value);
            line(out, &format!("<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/>"));
            text(out, x, bottom + 16.0, "middle", &name);
        }
        for (value, name) in up.ticks() {
            let y = y(up, value);
            line(out, &format!("<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/>"));
            text(out, LEFT - 6.0, y + 4.0, "end", &name);
        }
        line(out, &format!("<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#444\"/>"));
        text(out, f64::midpoint(LEFT, right), HEIGHT - 10.0, "middle", &self.across.name);
        text(out, LEFT, TOP - 12.0, "middle", &self.up.name);
    }
}

impl Series {
    fn write(&self, out: &mut String, place: usize, across: &Range, up: &Range) {
        let colour = COLOURS.get(place % COLOURS.len()).copied().unwrap_or("#000");
        let points: Vec<String> =
            self.points.iter().map(|point| format!("{:.1},{:.1}", x(across, point.0), y(up, point.1))).collect();
        line(
            out,
            &format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                points.join(" ")
            ),
        );
        let height = TOP + 12.0 + 18.0 * place as f64;
        let from = WIDTH - RIGHT + 12.0;
        line(out, &format!("<path d=\"M{from} {}h16\" stroke=\"{colour}\" stroke-width=\"3\"/>", height - 4.0));
        text(out, from + 22.0, height, "start", &self.name);
    }
}

impl Range {
    fn of(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.map(|value| place(scale, value)) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let low = if scale == Scale::Linear { low.min(0.0) } else { low.floor() };
        let high = if scale == Scale::Linear { high * 1.05 } else { high.ceil() };
        Self { scale, low, high: if high > low { high } else { low + 1.0 } }
    }

    /// Where a value stands, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        (place(self.scale, value) - self.low) / (self.high - self.low)
    }

    /// The values that are named, with their names.
    fn ticks(&self) -> Vec<(f64, String)> {
        let whole = (self.low as i32)..=(self.high as i32);
        match self.scale {
            Scale::Linear => self.even_ticks(),
            Scale::Logarithm => whole.map(|tens| 10f64.powi(tens)).map(|value| (value, short(value))).collect(),
            Scale::Nines => whole
                .map(|nines| 1.0 - 10f64.powi(-nines))
                .map(|share| (share, format!("{}", (share * 1e8).round() / 1e6)))
                .collect(),
        }
    }

    fn even_ticks(&self) -> Vec<(f64, String)> {
        let rough = (self.high - self.low) / 5.0;
        let tens = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * tens).find(|step| *step >= rough).unwrap_or(rough);
        let count = ((self.high - self.low) / step) as usize;
        (0..=count).map(|n| self.low + n as f64 * step).map(|value| (value, named(value))).collect()
    }
}

fn named(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value => format!("{value}"),
    }
}

/// The share that stands for all, where a curve ends: with six nines.
const ALL: f64 = 1.0 - 1e-6;

fn place(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Linear => value,
        Scale::Logarithm => value.max(1e-3).log10(),
        Scale::Nines => -(1.0 - value.min(ALL)).log10(),
    }
}

fn x(range: &Range, value: f64) -> f64 {
    LEFT + range.share(value) * (WIDTH - LEFT - RIGHT)
}

fn y(range: &Range, value: f64) -> f64 {
    HEIGHT - BOTTOM - range.share(value) * (HEIGHT - TOP - BOTTOM)
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, what: &str) {
    line(out, &format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escape(what)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_their_scale_puts_them() {
        let nines = Range::of(Scale::Nines, [0.0, 0.999].into_iter());
        assert!((nines.share(0.9) - 1.0 / 3.0).abs() < 1e-9 && (nines.share(0.99) - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(nines.ticks().iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["0", "90", "99", "99.9"]);
        let logarithm = Range::of(Scale::Logarithm, [20.0, 800.0].into_iter());
        assert_eq!(
            logarithm.ticks().iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(),
            ["10.0", "100", "1000"]
        );
        let linear = Range::of(Scale::Linear, [5_000.0, 100_000.0].into_iter());
        assert_eq!(linear.ticks().first().map(|(value, _)| *value), Some(0.0));
        assert!(linear.share(100_000.0) < 1.0 && linear.ticks().iter().any(|(_, name)| name == "50k"));
    }

    #[test]
    fn no_curve_and_one_point_are_pictures_too() {
        for points in [vec![], vec![(1.0, 0.0)]] {
            let mut out = String::new();
            Chart::latency("t", vec![Series { name: "s".into(), points }]).write(&mut out);
            assert!(
                out.starts_with("<svg") && out.ends_with("</svg>\n") && !out.contains("NaN") && !out.contains("inf")
            );
        }
    }
}
