use super::*;

/// Vectors of Project Wycheproof: one a line.
const WYCHEPROOF: &str = include_str!("wycheproof.txt");

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.trim_start_matches('-').as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

struct Vector {
    name: String,
    cipher: Cipher,
    valid: bool,
    key: Vec<u8>,
    nonce: [u8; NONCE],
    envelope: Vec<u8>,
    message: Vec<u8>,
    sealed: Vec<u8>,
}

impl Vector {
    fn read(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').collect();
        let [cipher, number, result, key, nonce, envelope, message, ciphertext, tag] = words[..] else {
            panic!("{line}");
        };
        Self {
            name: format!("{cipher} {number}"),
            cipher: if cipher == "aes" { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 },
            valid: result == "valid",
            key: bytes(key),
            nonce: bytes(nonce).try_into().unwrap(),
            envelope: bytes(envelope),
            message: bytes(message),
            sealed: [bytes(ciphertext), bytes(tag)].concat(),
        }
    }

    fn check(&self) {
        let (key, name) = (Key::of(self.cipher, &self.key), &self.name);
        let mut sealed = self.message.clone();
        let tag = key.seal(self.nonce, &self.envelope, &mut sealed).unwrap();
        sealed.extend_from_slice(tag.as_ref());
        assert_eq!(sealed == self.sealed, self.valid, "{name} sealed");
        let mut opened = self.sealed.clone();
        let result = key.open(self.nonce, &self.envelope, &mut opened);
        assert_eq!(result.is_ok(), self.valid, "{name} opened");
        if self.valid {
            assert_eq!(opened[..self.message.len()], self.message, "{name} opened");
        }
    }
}

#[test]
fn the_vectors_of_wycheproof_are_sealed_and_opened_as_they_should_be() {
    let vectors: Vec<_> = WYCHEPROOF.lines().filter(|line| !line.starts_with('#')).map(Vector::read).collect();
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let of = |valid| vectors.iter().filter(|one| one.cipher == cipher && one.valid == valid).count();
        assert!(of(true) >= 20 && of(false) >= 20, "{cipher:?}: {} and {}", of(true), of(false));
    }
    vectors.iter().for_each(Vector::check);
}

#[test]
fn the_vector_of_rfc_8439_is_sealed_as_it_should_be() {
    let text = "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen \
                would be it.";
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let sealed = "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b\
                  1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc\
                  3ff4def08e4b7a9de576d26586cec64b6116";
    let key = "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f";
    let (nonce, envelope) = ("070000004041424344454647", "50515253c0c1c2c3c4c5c6c7");
    let tag = "1ae10b594f09e26a7e902ecbd0600691";
    Vector::read(&format!("chacha 8439 valid {key} {nonce} {envelope} {hex} {sealed} {tag}")).check();
}

#[test]
fn the_numbers_of_ciphers_on_the_wire_are_read_back() {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        assert_eq!(Cipher::from_wire(cipher.code()), Some(cipher));
    }
    assert_eq!((Cipher::from_wire(0), Cipher::from_wire(3)), (None, None));
}
