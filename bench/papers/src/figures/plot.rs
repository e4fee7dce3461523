//! A chart as an SVG picture.
use super::figure::{Axis, Chart, Curve, Style, short};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::ops::Range;

/// In pixels.
const SIZE: (u32, u32) = (760, 420);
/// Colours that stand out from white and from black.
const COLOURS: [RGBColor; 8] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(127, 127, 127),
];

type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// The picture. Lines and letters that are neither curve nor mark take the colour of the text around it.
///
/// # Errors
/// What the plotting library says.
pub fn svg(chart: &Chart) -> Result<String, String> {
    let mut text = String::new();
    draw(chart, &mut text).map_err(|error| format!("{}: cannot be drawn: {error}", chart.title))?;
    Ok(text.replace("\"#000000\"", "\"currentColor\""))
}

fn draw(chart: &Chart, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    let points = || chart.curves.iter().flat_map(|curve| &curve.points).filter(|(x, y)| x.is_finite() && y.is_finite());
    let across = span(points().map(|(x, _)| placed(chart.x, *x)), chart.x);
    let up = span(points().map(|(_, y)| placed(chart.y, *y)), chart.y);
    let mut builder = ChartBuilder::on(&root);
    builder.margin(12).x_label_area_size(44).y_label_area_size(68);
    let mut plane = builder.build_cartesian_2d(across, up)?;
    let label = |axis: Axis| move |value: &f64| short(if axis.log { round(10_f64.powf(*value)) } else { *value });
    let (x_label, y_label) = (label(chart.x), label(chart.y));
    let mut mesh = plane.configure_mesh();
    mesh.x_desc(chart.x.label).y_desc(chart.y.label).light_line_style(TRANSPARENT);
    mesh.bold_line_style(BLACK.mix(0.15)).axis_desc_style(("sans-serif", 15)).label_style(("sans-serif", 13));
    mesh.x_label_formatter(&x_label).y_label_formatter(&y_label).draw()?;
    for (curve, colour) in coloured(chart) {
        draw_curve(&mut plane, chart, curve, colour)?;
    }
    root.present()?;
    Ok(())
}

/// What each curve is, for beside the picture, where it hides nothing: the colour as people write it in HTML, a sign, and the
/// name.
pub fn legend(chart: &Chart) -> impl Iterator<Item = (String, &'static str, &str)> {
    coloured(chart).map(|(curve, RGBColor(red, green, blue))| {
        let sign = match curve.style {
            Style::Line => "\u{25cf}",
            Style::Model => "- -",
            Style::Paper => "\u{d7}",
        };
        (format!("#{red:02x}{green:02x}{blue:02x}"), sign, curve.name.as_str())
    })
}

fn coloured(chart: &Chart) -> impl Iterator<Item = (&Curve, RGBColor)> {
    chart.curves.iter().zip(COLOURS.iter().copied().cycle())
}

fn draw_curve(
    plane: &mut Plane<'_, '_>,
    chart: &Chart,
    curve: &Curve,
    colour: RGBColor,
) -> Result<(), Box<dyn std::error::Error>> {
    let finite = curve.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
    let points: Vec<_> = finite.map(|(x, y)| (placed(chart.x, *x), placed(chart.y, *y))).collect();
    let marks = |points: Vec<(f64, f64)>| points.into_iter().map(move |at| Circle::new(at, 3, colour.filled()));
    match curve.style {
        Style::Line => {
            plane.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
            plane.draw_series(marks(points))?;
        }
        Style::Model => {
            plane.draw_series(DashedLineSeries::new(points, 6, 4, colour.stroke_width(2)))?;
        }
        Style::Paper => {
            let crosses = points.into_iter().map(|at| Cross::new(at, 6, colour.stroke_width(3)));
            plane.draw_series(crosses)?;
        }
    }
    Ok(())
}

/// Where a value stands on its axis.
fn placed(axis: Axis, value: f64) -> f64 {
    if axis.log { value.max(f64::MIN_POSITIVE).log10() } else { value }
}

/// To two digits.
fn round(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    (value / unit).round() * unit
}

/// From nought, or from the least power that is shown, to a little above the largest.
fn span(values: impl Iterator<Item = f64>, axis: Axis) -> Range<f64> {
    let (least, most) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (value.min(least), value.max(most)));
    if !least.is_finite() {
        return 0.0..1.0;
    }
    let from = if axis.log { least } else { least.min(0.0) };
    let room = (most - from).max(f64::EPSILON) * 0.05;
    if axis.log { from - room..most + room } else { from..most + room }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(x: Axis, points: Vec<(f64, f64)>) -> Chart {
        let curves = vec![
            Curve::line("ours", points.clone()),
            Curve::paper("paper <&>", points.clone()),
            Curve::model("model", points),
        ];
        Chart { title: "t".into(), x, y: Axis::linear("latency, us"), curves }
    }

    #[test]
    fn every_curve_has_a_colour_a_sign_and_its_name() {
        let chart = chart(Axis::linear("x"), vec![(1.0, 2.0)]);
        let told: Vec<_> = legend(&chart).collect();
        assert_eq!(told[0], ("#1f77b4".into(), "\u{25cf}", "ours"));
        assert_eq!((told[1].1, told[2].1), ("\u{d7}", "- -"));
        assert!(svg(&chart).unwrap().contains("#1F77B4"));
    }

    #[test]
    fn a_picture_names_its_axes_and_units() {
        for x in [Axis::linear("load, 1/s"), Axis::log("load, 1/s")] {
            let picture = svg(&chart(x, vec![(1.0, 10.0), (100.0, f64::NAN), (1_000.0, 25.0)])).unwrap();
            assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"), "{picture}");
            for text in ["load, 1/s", "latency, us"] {
                assert!(picture.contains(text), "{text}: {picture}");
            }
            assert!(!picture.contains("\"#000000\"") && !picture.contains("NaN"));
        }
    }

    #[test]
    fn nothing_to_draw_is_an_empty_picture() {
        assert!(svg(&chart(Axis::linear("x"), vec![])).unwrap().contains("latency, us"));
    }

    #[test]
    fn ticks_of_powers_have_two_digits() {
        assert_eq!([round(3.981), round(15.85), round(0.0501), round(1_258.9)].map(short), ["4", "16", "0.05", "1300"]);
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!([short(0.5), short(2.0), short(1_500.0), short(100.0)], ["0.5", "2", "1500", "100"]);
    }
}
