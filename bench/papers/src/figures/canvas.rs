//! A picture in memory: what the plotting library draws on for a PNG file, with letters of its own.
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendTextStyle, DrawingBackend, DrawingErrorKind};
use std::convert::Infallible;

/// What every PNG file begins with.
pub const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];
/// The filter of rows that are told by their difference from the row above.
const UP: u8 = 2;
/// What stands for a letter that the font lacks.
const UNKNOWN: char = '?';

/// Rows of pixels, three bytes each, at first white.
pub struct Picture {
    width: u32,
    pixels: Vec<u8>,
}

/// What draws on it.
pub struct Canvas<'a>(pub &'a mut Picture);

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl Picture {
    /// Of so many pixels.
    pub fn new((width, height): (u32, u32)) -> Self {
        Self { width, pixels: vec![u8::MAX; (width * height * 3) as usize] }
    }

    /// As a PNG file.
    pub fn png(&self) -> Vec<u8> {
        let (width, height) = self.size();
        // 8 bits, red, green and blue; the only compression, filter and order that matter here.
        let head = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
        let mut file = SIGNATURE.to_vec();
        let rows = self.rows_by_difference();
        for (kind, bytes) in [(b"IHDR", head), (b"IDAT", fdeflate::compress_to_vec(&rows)), (b"IEND", Vec::new())] {
            let content = [&kind[..], &bytes].concat();
            file.extend((bytes.len() as u32).to_be_bytes());
            file.extend(&content);
            file.extend(crc32fast::hash(&content).to_be_bytes());
        }
        file
    }

    /// Each row behind the number of its filter: what is written is the difference from the row above, mostly nothing.
    fn rows_by_difference(&self) -> Vec<u8> {
        let length = self.width as usize * 3;
        let above = std::iter::repeat_n(0, length).chain(self.pixels.iter().copied());
        let differences: Vec<u8> =
            self.pixels.iter().zip(above).map(|(pixel, above)| pixel.wrapping_sub(above)).collect();
        differences.chunks(length).flat_map(|row| [&[UP], row].concat()).collect()
    }

    fn size(&self) -> (u32, u32) {
        (self.width, self.pixels.len() as u32 / 3 / self.width)
    }

    fn mix(&mut self, (x, y): BackendCoord, colour: BackendColor, strength: f64) {
        let (width, height) = self.size();
        if x < 0 || y < 0 || x >= width as i32 || y >= height as i32 {
            return;
        }
        let (at, share) = ((y as u32 * width + x as u32) as usize * 3, (colour.alpha * strength).clamp(0.0, 1.0));
        let (red, green, blue) = colour.rgb;
        for (pixel, new) in self.pixels[at..at + 3].iter_mut().zip([red, green, blue]) {
            *pixel = (f64::from(*pixel) * (1.0 - share) + f64::from(new) * share).round() as u8;
        }
    }
}

/// The height of the letters nearest to a style's.
fn height<S: BackendTextStyle>(style: &S) -> RasterHeight {
    // The library's sizes count the space between lines, as those of its SVG backend.
    if style.size() / 1.24 < 22.0 { RasterHeight::Size20 } else { RasterHeight::Size24 }
}

/// How much room a text takes.
fn extent(text: &str, height: RasterHeight) -> (i32, i32) {
    let letters = text.chars().count() as i32;
    (letters * get_raster_width(FontWeight::Regular, height) as i32, height.val() as i32)
}

/// How wide a text of the legend is.
pub fn letters_width(text: &str) -> i32 {
    extent(text, RasterHeight::Size20).0
}

impl DrawingBackend for Canvas<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.0.size()
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, at: BackendCoord, colour: BackendColor) -> Drawn {
        self.0.mix(at, colour, 1.0);
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Drawn {
        let (height, colour, turn) = (height(style), style.color(), style.transform());
        let (wide, high) = extent(text, height);
        let left = match style.anchor().h_pos {
            HPos::Left => 0,
            HPos::Right => -wide,
            HPos::Center => -wide / 2,
        };
        let top = match style.anchor().v_pos {
            VPos::Top => 0,
            VPos::Center => -high / 2,
            VPos::Bottom => -high,
        };
        let step = get_raster_width(FontWeight::Regular, height) as i32;
        for (place, letter) in text.chars().enumerate() {
            let of = |letter| get_raster(letter, FontWeight::Regular, height);
            let Some(raster) = of(letter).or_else(|| of(UNKNOWN)) else { continue };
            for (row, line) in raster.raster().iter().enumerate() {
                for (column, strength) in line.iter().enumerate() {
                    let (x, y) = turn.transform(left + place as i32 * step + column as i32, top + row as i32);
                    self.0.mix((at.0 + x, at.1 + y), colour, f64::from(*strength) / 255.0);
                }
            }
        }
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let (wide, high) = extent(text, height(style));
        Ok((wide as u32, high as u32))
    }
}

/// Reads what [`Picture::png`] wrote: width, height, and the pixels.
#[cfg(test)]
pub fn read(file: &[u8]) -> (u32, u32, Vec<[u8; 3]>) {
    let number = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!((&file[..8], &file[12..16]), (&SIGNATURE[..], &b"IHDR"[..]));
    let (width, height, packed) = (number(16), number(20), number(33) as usize);
    assert_eq!(&file[37..41], b"IDAT");
    let rows = fdeflate::decompress_to_vec(&file[41..41 + packed]).unwrap();
    let length = width as usize * 3;
    let mut pixels = vec![0; length];
    for row in rows.chunks(length + 1) {
        assert_eq!(row[0], UP);
        let above = pixels.len() - length;
        (0..length).for_each(|at| pixels.push(row[at + 1].wrapping_add(pixels[above + at])));
    }
    (width, height, pixels[length..].chunks(3).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: BackendColor = BackendColor { alpha: 1.0, rgb: (255, 0, 0) };

    #[test]
    fn a_file_holds_the_pixels_that_were_drawn() {
        let mut picture = Picture::new((3, 2));
        let mut canvas = Canvas(&mut picture);
        canvas.draw_pixel((1, 0), RED).unwrap();
        canvas.draw_pixel((2, 1), BackendColor { alpha: 0.5, rgb: (0, 0, 0) }).unwrap();
        let white = [255; 3];
        assert_eq!(read(&picture.png()), (3, 2, vec![white, [255, 0, 0], white, white, white, [128; 3]]));
    }

    #[test]
    fn what_is_drawn_beyond_the_edge_is_left_out() {
        let mut picture = Picture::new((2, 2));
        for at in [(-1, 0), (0, -1), (2, 0), (0, 2)] {
            Canvas(&mut picture).draw_pixel(at, RED).unwrap();
        }
        assert_eq!(read(&picture.png()).2, vec![[255; 3]; 4]);
    }

    #[test]
    fn each_chunk_ends_with_its_checksum() {
        let file = Picture::new((1, 1)).png();
        let (kind_and_bytes, sum) = (&file[12..29], &file[29..33]);
        assert_eq!(crc32fast::hash(kind_and_bytes).to_be_bytes(), sum);
        assert_eq!(file[file.len() - 8..], *b"IEND\xae\x42\x60\x82");
    }
}
