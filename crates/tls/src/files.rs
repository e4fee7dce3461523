//! A client's certificates and key, read from files.
use crate::config::{ClientTls, Own};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

/// Begins a section of PEM.
const BEGIN: &[u8] = b"-----BEGIN ";
const NO_CERTIFICATE: &str = "no certificate in PEM stands in it; name a file with a line -----BEGIN CERTIFICATE-----";
const NO_KEY: &str = "no private key in PEM stands in it; name a file with a line -----BEGIN PRIVATE KEY-----";
const ENCRYPTED: &str = "the private key is encrypted; name a file with the plain key, as `openssl pkey -in` makes it";

/// A file that is of no use to a client: which one, where, why, and what to do. The text tells nothing of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFileError {
    /// The file.
    pub file: PathBuf,
    /// The line on which the fault begins; `None` where the whole file has it.
    pub line: Option<usize>,
    /// The fault, and the remedy.
    pub why: String,
}

impl Display for TlsFileError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match self.line {
            Some(line) => write!(f, "{file}:{line}: {}", self.why),
            None => write!(f, "{file}: {}", self.why),
        }
    }
}

impl std::error::Error for TlsFileError {}

impl ClientTls {
    /// As [`Self::new`], with files: of the authority, and of this client's certificate and key. They are read once.
    ///
    /// # Errors
    /// [`TlsFileError`] where a file cannot be read, lacks its content, or the key is another certificate's.
    pub fn from_files(authority: &Path, own: Option<(&Path, &Path)>) -> Result<Self, TlsFileError> {
        let authority = PemFile::read(authority)?;
        let mut roots = RootCertStore::empty();
        for (line, certificate) in authority.certificates()? {
            roots.add(certificate).map_err(|error| authority.damaged(line, "certificate", &error))?;
        }
        let unfit = |error: &dyn Display| authority.fault(None, format!("{error}; name another authority"));
        let Some((chain, key)) = own else { return Self::of(roots, None).map_err(|error| unfit(&error)) };
        Self::of(roots.clone(), None).map_err(|error| unfit(&error))?;
        let (chain, key) = (PemFile::read(chain)?, PemFile::read(key)?);
        let (line, secret) = key.private_key()?;
        let own = Own { chain: chain.own_chain()?, key: secret };
        let other = |error| {
            let remedy = format!("name the key of the certificate in {}", chain.path.display());
            key.fault(Some(line), format!("{error}; {remedy}"))
        };
        Self::of(roots, Some(own)).map_err(other)
    }
}

/// A file of PEM.
struct PemFile<'a> {
    path: &'a Path,
    bytes: Vec<u8>,
}

/// A section of it.
struct Section<'a> {
    /// Its first line, from 1 on.
    line: usize,
    label: &'a [u8],
    /// From its first line up to the next section.
    bytes: &'a [u8],
}

impl<'a> PemFile<'a> {
    fn read(path: &'a Path) -> Result<Self, TlsFileError> {
        let told = |error| format!("cannot be read: {error}; name a file in PEM that this program may read");
        let failed = |error| TlsFileError { file: path.to_owned(), line: None, why: told(error) };
        Ok(Self { path, bytes: std::fs::read(path).map_err(failed)? })
    }

    fn fault(&self, line: Option<usize>, why: impl Into<String>) -> TlsFileError {
        TlsFileError { file: self.path.to_owned(), line, why: why.into() }
    }

    fn damaged(&self, line: usize, what: &str, error: &dyn Display) -> TlsFileError {
        self.fault(Some(line), format!("the {what} is damaged ({error}); export it again"))
    }

    /// The sections, in order.
    fn sections(&self) -> Vec<Section<'_>> {
        let (mut sections, mut at): (Vec<(usize, usize)>, usize) = (Vec::new(), 0);
        for (number, line) in self.bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            if line.starts_with(BEGIN) {
                sections.push((number + 1, at));
            }
            at += line.len();
        }
        let ends = sections.iter().skip(1).map(|(_, start)| *start).chain([self.bytes.len()]);
        let section = |(&(line, start), end): (&(usize, usize), usize)| {
            let bytes = &self.bytes[start..end];
            let label = bytes[BEGIN.len()..].split(|byte| matches!(byte, b'-' | b'\n')).next().unwrap_or_default();
            Section { line, label, bytes }
        };
        sections.iter().zip(ends).map(section).collect()
    }

    /// All certificates, each with its line.
    fn certificates(&self) -> Result<Vec<(usize, CertificateDer<'static>)>, TlsFileError> {
        let mut found = Vec::new();
        for Section { line, bytes, .. } in self.sections().into_iter().filter(|one| one.label == b"CERTIFICATE") {
            let read = CertificateDer::from_pem_slice(bytes);
            found.push((line, read.map_err(|error| self.damaged(line, "certificate", &error))?));
        }
        if found.is_empty() { Err(self.fault(None, NO_CERTIFICATE)) } else { Ok(found) }
    }

    /// A certificate, and those of its issuers.
    fn own_chain(&self) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
        let mut chain = Vec::new();
        for (line, certificate) in self.certificates()? {
            let read = webpki::EndEntityCert::try_from(&certificate).map(drop);
            read.map_err(|error| self.damaged(line, "certificate", &error))?;
            chain.push(certificate);
        }
        Ok(chain)
    }

    /// The first private key, and its line.
    fn private_key(&self) -> Result<(usize, PrivateKeyDer<'static>), TlsFileError> {
        let sections = self.sections();
        let key = sections.iter().find(|one| one.label.ends_with(b"PRIVATE KEY"));
        let Some(Section { line, label, bytes }) = key else { return Err(self.fault(None, NO_KEY)) };
        let old = bytes.windows(b"Proc-Type: 4,ENCRYPTED".len()).any(|part| part == b"Proc-Type: 4,ENCRYPTED");
        if old || label.starts_with(b"ENCRYPTED") {
            return Err(self.fault(Some(*line), ENCRYPTED));
        }
        let read = PrivateKeyDer::from_pem_slice(bytes);
        // The reader's own words may quote the key.
        let damaged = |_| self.damaged(*line, "private key", &"it is no PKCS#8, SEC1 or PKCS#1");
        read.map(|key| (*line, key)).map_err(damaged)
    }
}
