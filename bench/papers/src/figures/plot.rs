//! A chart as a picture: SVG, or PNG.
use super::canvas::{Canvas, Picture, letters_width};
use super::figure::{Axis, Chart, Curve, Style, short};
use plotters::coord::Shift;
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

/// Of a PNG picture, which has twice the pixels in each direction, for screens that show so many.
const SCALE: u32 = 2;
/// Its title and legend: the height of a line, and the distance from the edge and between entries.
const LINE: i32 = 34;
const GAP: i32 = 36;
/// A sign of the legend, and from where its name stands.
const SIGN: i32 = 34;

type Plane<'a, B> = ChartContext<'a, B, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The picture. Lines and letters that are neither curve nor mark take the colour of the text around it.
///
/// # Errors
/// What the plotting library says.
pub fn svg(chart: &Chart) -> Result<String, String> {
    let mut text = String::new();
    draw(chart, &SVGBackend::with_string(&mut text, SIZE).into_drawing_area(), 1)
        .map_err(|error| failed(chart, &*error))?;
    Ok(text.replace("\"#000000\"", "\"currentColor\""))
}

/// The same as a PNG file, which stands alone: on white, with title and legend.
///
/// # Errors
/// What the plotting library says.
pub fn png(chart: &Chart) -> Result<Vec<u8>, String> {
    let (width, height) = (SIZE.0 * SCALE, SIZE.1 * SCALE);
    let entries = placed_legend(chart, width as i32);
    let head = entries.last().map_or(0, |(_, (_, y))| y + LINE) as u32;
    let mut picture = Picture::new((width, height + head));
    let mut all = || -> Drawn {
        let (above, below) = Canvas(&mut picture).into_drawing_area().split_vertically(head);
        draw_head(chart, &entries, &above)?;
        draw(chart, &below, SCALE)
    };
    all().map_err(|error| failed(chart, &*error))?;
    Ok(picture.png())
}

fn failed(chart: &Chart, error: &dyn std::error::Error) -> String {
    format!("{}: cannot be drawn: {error}", chart.title)
}

fn draw<B: DrawingBackend>(chart: &Chart, root: &DrawingArea<B, Shift>, scale: u32) -> Drawn
where
    B::ErrorType: 'static,
{
    let points = || chart.curves.iter().flat_map(|curve| &curve.points).filter(|(x, y)| x.is_finite() && y.is_finite());
    let across = span(points().map(|(x, _)| placed(chart.x, *x)), chart.x);
    let up = span(points().map(|(_, y)| placed(chart.y, *y)), chart.y);
    let mut builder = ChartBuilder::on(root);
    builder.margin(12 * scale).x_label_area_size(44 * scale).y_label_area_size(68 * scale);
    let mut plane = builder.build_cartesian_2d(across, up)?;
    let label = |axis: Axis| move |value: &f64| short(if axis.log { round(10_f64.powf(*value)) } else { *value });
    let (x_label, y_label) = (label(chart.x), label(chart.y));
    let mut mesh = plane.configure_mesh();
    mesh.x_desc(chart.x.label).y_desc(chart.y.label).light_line_style(TRANSPARENT);
    mesh.bold_line_style(BLACK.mix(0.15));
    mesh.axis_desc_style(("sans-serif", 15 * scale)).label_style(("sans-serif", 13 * scale));
    mesh.x_label_formatter(&x_label).y_label_formatter(&y_label).draw()?;
    for (curve, colour) in coloured(chart) {
        draw_curve(&mut plane, chart, curve, colour, scale)?;
    }
    root.present()?;
    Ok(())
}

/// The title, and below it what each curve is.
fn draw_head<B: DrawingBackend>(chart: &Chart, entries: &[(&str, (i32, i32))], area: &DrawingArea<B, Shift>) -> Drawn
where
    B::ErrorType: 'static,
{
    area.fill(&WHITE)?;
    let text = |text: &str, at, size: u32| {
        area.draw_text(text, &TextStyle::from(("sans-serif", size * SCALE)).color(&BLACK), at)
    };
    text(&chart.title, (GAP, GAP / 3), 15)?;
    for ((curve, colour), (name, (x, y))) in coloured(chart).zip(entries) {
        let middle = (x + SIGN / 3, y + 11); // of its small letters
        match curve.style {
            Style::Line => area.draw(&Circle::new(middle, 6, colour.filled()))?,
            Style::Paper => area.draw(&Cross::new(middle, 10, colour.stroke_width(5)))?,
            Style::Model => {
                for from in [x - 6, x + 12] {
                    area.draw(&PathElement::new([(from, middle.1), (from + 12, middle.1)], colour.stroke_width(4)))?;
                }
            }
        }
        text(name, (x + SIGN, *y), 13)?;
    }
    Ok(())
}

/// Where each name of the legend stands, in lines that are as wide as the picture.
fn placed_legend(chart: &Chart, width: i32) -> Vec<(&str, (i32, i32))> {
    let (mut x, mut y) = (GAP, GAP / 3 + LINE + 8);
    let mut place = |curve: &'_ Curve| {
        let takes = SIGN + letters_width(&curve.name);
        if x > GAP && x + takes > width - GAP {
            (x, y) = (GAP, y + LINE);
        }
        let at = (x, y);
        x += takes + GAP;
        at
    };
    chart.curves.iter().map(|curve| (curve.name.as_str(), place(curve))).collect()
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

fn draw_curve<B: DrawingBackend>(
    plane: &mut Plane<'_, B>,
    chart: &Chart,
    curve: &Curve,
    colour: RGBColor,
    scale: u32,
) -> Drawn
where
    B::ErrorType: 'static,
{
    let finite = curve.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
    let points: Vec<_> = finite.map(|(x, y)| (placed(chart.x, *x), placed(chart.y, *y))).collect();
    let marks = |points: Vec<(f64, f64)>| points.into_iter().map(move |at| Circle::new(at, 3 * scale, colour.filled()));
    match curve.style {
        Style::Line => {
            plane.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2 * scale)))?;
            plane.draw_series(marks(points))?;
        }
        Style::Model => {
            plane.draw_series(DashedLineSeries::new(points, 6 * scale, 4 * scale, colour.stroke_width(2 * scale)))?;
        }
        Style::Paper => {
            let crosses = points.into_iter().map(|at| Cross::new(at, 6 * scale as i32, colour.stroke_width(3 * scale)));
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
    use super::super::canvas::read;
    use super::*;
    use std::collections::BTreeSet;

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
    fn a_png_picture_shows_curves_axes_title_and_legend() {
        let (width, height, pixels) = read(&png(&chart(Axis::linear("x"), vec![(1.0, 2.0), (3.0, 1.0)])).unwrap());
        assert!((width, height) > SIZE && pixels.len() == (width * height) as usize);
        let colours: BTreeSet<_> = pixels.iter().collect();
        assert!(colours.len() > 20, "{} colours: smooth letters and lines have many", colours.len());
        for RGBColor(red, green, blue) in &COLOURS[..3] {
            assert!(colours.contains(&[*red, *green, *blue]));
        }
        let head = &pixels[..(width * 80) as usize];
        assert!(head.iter().any(|pixel| *pixel != [255; 3]) && pixels[0] == [255; 3]);
    }

    #[test]
    fn a_legend_too_wide_for_a_line_goes_on_in_the_next() {
        let mut chart = chart(Axis::linear("x"), vec![]);
        chart.curves.iter_mut().for_each(|curve| curve.name = "x".repeat(80));
        let at: Vec<_> = placed_legend(&chart, 1_520).into_iter().map(|(_, at)| at).collect();
        assert_eq!(at.iter().map(|(x, _)| *x).collect::<Vec<_>>(), [GAP; 3]);
        assert!(at[0].1 < at[1].1 && at[1].1 < at[2].1);
        let taller = |chart: &Chart| read(&png(chart).unwrap()).1;
        assert_eq!(taller(&chart), SIZE.1 * SCALE + at[2].1 as u32 + LINE as u32);
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
