//! A client written from the description of the protocol, not from this crate. It builds and reads every byte by itself.

/// A message as an application of Spread's library would see it.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    pub service: u32,
    pub sender: String,
    pub groups: Vec<String>,
    pub mess_type: i16,
    pub data: Vec<u8>,
}

/// Who speaks, and in which byte order.
pub struct Client {
    pub private: String,
    pub little: bool,
}

impl Client {
    pub fn new(private: &str) -> Self {
        Self { private: private.into(), little: true }
    }

    fn int(&self, n: i32) -> [u8; 4] {
        if self.little { n.to_le_bytes() } else { n.to_be_bytes() }
    }

    fn marked(&self, n: u32) -> [u8; 4] {
        if self.little { (n | 0x8000_0080).to_le_bytes() } else { n.to_be_bytes() }
    }

    pub fn frame(&self, service: u32, groups: &[&str], mess_type: i16, data: &[u8]) -> Vec<u8> {
        let mut out = self.marked(service).to_vec();
        out.extend(padded(&self.private));
        out.extend(self.int(groups.len() as i32));
        out.extend(self.marked(u32::from(mess_type as u16) << 8));
        out.extend(self.int(data.len() as i32));
        groups.iter().for_each(|group| out.extend(padded(group)));
        out.extend(data);
        out
    }

    /// Reads all messages in what a daemon sent.
    pub fn read(&self, mut bytes: &[u8]) -> Vec<Seen> {
        let mut seen = Vec::new();
        while !bytes.is_empty() {
            let (message, rest) = one(bytes);
            seen.push(message);
            bytes = rest;
        }
        seen
    }
}

pub fn padded(name: &str) -> [u8; 32] {
    let mut field = [0; 32];
    field[..name.len()].copy_from_slice(name.as_bytes());
    field
}

fn c_string(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).expect("a name has an end");
    String::from_utf8_lossy(&field[..end]).into_owned()
}

fn le(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn one(bytes: &[u8]) -> (Seen, &[u8]) {
    let kind = le(bytes, 0);
    assert_eq!(kind & 0x8000_0080, 0x8000_0080, "the daemon is little-endian");
    let (groups, data) = (le(bytes, 36) as usize, le(bytes, 44) as usize);
    let mut at = 48;
    let mut service = kind & !0x8000_0080;
    if service & 0x40_0000 != 0 {
        service = le(bytes, at) & !0x8000_0080 | 0x40_0000;
        at += 4;
    }
    let names = bytes[at..at + 32 * groups].chunks(32).map(c_string).collect();
    at += 32 * groups;
    let hint: [u8; 4] = bytes[40..44].try_into().unwrap();
    let hint = if hint[0] & 0x80 == 0 { u32::from_be_bytes(hint) } else { u32::from_le_bytes(hint) };
    let mess_type = (hint >> 8) as u16 as i16;
    let sender = c_string(&bytes[4..36]);
    let seen = Seen { service, sender, groups: names, mess_type, data: bytes[at..at + data].to_vec() };
    (seen, &bytes[at + data..])
}
