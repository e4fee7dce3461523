//! Certificates and keys.
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Why certificates or keys are of no use. The texts tell nothing of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// No certificate stands in it.
    #[error("no certificate in PEM stands in it")]
    NoCertificate,
    /// No private key stands in it.
    #[error("no private key in PEM (PKCS#8, SEC1 or PKCS#1) stands in it")]
    NoKey,
    /// No certificate can have this name.
    #[error("{0:?} is no name that a certificate can have; give a DNS name or an IP address")]
    NoServerName(String),
    /// It is damaged, or what it names does not fit together.
    #[error("{0}")]
    Unfit(String),
}

/// What a daemon shows, and whom it believes. Clones stand for the same: what takes its place in one holds for all.
#[derive(Clone)]
pub struct ServerTls {
    now: Arc<Mutex<Shown>>,
}

/// What a daemon shows, and by what it verifies certificates of clients, if it wants any.
#[derive(Clone)]
struct Shown {
    config: Arc<ServerConfig>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

/// Says of certificates that were believed once whether they are now.
#[derive(Clone)]
pub(crate) struct Belief(Option<Arc<dyn ClientCertVerifier>>);

/// Whom a client believes, and what it shows.
#[derive(Clone)]
pub struct ClientTls {
    pub(crate) config: Arc<ClientConfig>,
    /// What the certificates of daemons must name; `None` where it is the host of their address.
    pub(crate) server: Option<ServerName<'static>>,
}

/// A client's own certificate, those of its issuers, and its key.
pub(crate) struct Own {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl ServerTls {
    /// A daemon that shows this certificate, or chain, by its key. With an `authority` clients need certificates of it that
    /// no list of revoked certificates in the same text names. All are texts in PEM.
    ///
    /// # Errors
    /// [`TlsError`] where one of them is missing or damaged, or the key is another certificate's.
    pub fn new(chain: &[u8], key: &[u8], authority: Option<&[u8]>) -> Result<Self, TlsError> {
        let builder =
            ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]).map_err(unfit)?;
        let verifier = authority.map(verifier).transpose()?;
        let builder = match &verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
        };
        let mut config = builder.with_single_cert(certificates(chain)?, private_key(key)?).map_err(unfit)?;
        // A session is resumed by a new handshake: nothing of it is kept, and none is answered before it is proven.
        config.send_tls13_tickets = 0;
        Ok(Self { now: Arc::new(Mutex::new(Shown { config: Arc::new(config), verifier })) })
    }

    /// Connections that begin from here on are shown what the other shows, and believed by what it believes. Those that there
    /// are end soon if it does not believe them.
    pub fn replace(&self, other: &Self) {
        let new = other.shown();
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }

    fn shown(&self) -> Shown {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What holds for a connection that begins now.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.shown().config
    }

    /// What holds now for connections that began before.
    pub(crate) fn belief(&self) -> Belief {
        Belief(self.shown().verifier)
    }
}

impl Belief {
    /// Whether it says of all certificates the same as the other, but for those that expire meanwhile.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// Whether a certificate, followed by those of its issuers, is believed at this time.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self, chain: Option<&[CertificateDer<'_>]>, now: UnixTime) -> Result<(), rustls::Error> {
        match (&self.0, chain) {
            (None, _) => Ok(()),
            (Some(verifier), Some([own, issuers @ ..])) => verifier.verify_client_cert(own, issuers, now).map(drop),
            (Some(_), _) => Err(rustls::Error::NoCertificatesPresented),
        }
    }
}

/// Believes certificates of these authorities, unless a list of theirs says that they are revoked.
fn verifier(authority: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(authority).collect();
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(authority)?), provider());
    // Of an authority without a list nothing is known to be revoked.
    let builder = builder.with_crls(lists.map_err(unfit)?).allow_unknown_revocation_status();
    builder.build().map_err(unfit)
}

impl ClientTls {
    /// A client that believes daemons whose certificates are of this authority, and shows the certificate of `own` by its
    /// key where daemons ask for one. All are texts in PEM.
    ///
    /// # Errors
    /// [`TlsError`] where one of them is missing or damaged, or the key is another certificate's.
    pub fn new(authority: &[u8], own: Option<(&[u8], &[u8])>) -> Result<Self, TlsError> {
        let read = |(chain, key)| Ok(Own { chain: certificates(chain)?, key: private_key(key)? });
        Self::of(roots(authority)?, own.map(read).transpose()?)
    }

    pub(crate) fn of(roots: RootCertStore, own: Option<Own>) -> Result<Self, TlsError> {
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().map_err(unfit)?;
        let builder =
            ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]).map_err(unfit)?;
        let builder = builder.with_webpki_verifier(verifier);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(Own { chain, key }) => builder.with_client_auth_cert(chain, key).map_err(unfit)?,
        };
        Ok(Self { config: Arc::new(config), server: None })
    }

    /// Wants daemons whose certificates have this name, a DNS name or an address, whatever host they are reached at.
    ///
    /// # Errors
    /// [`TlsError::NoServerName`].
    pub fn named(self, server: &str) -> Result<Self, TlsError> {
        Ok(Self { server: Some(server_name(server)?), ..self })
    }
}

/// A host as certificates name it.
pub(crate) fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(bare.to_owned()).map_err(|_| TlsError::NoServerName(host.to_owned()))
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerTls")
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTls")
    }
}

/// The same if it was made at once, for the same name: what is in it is not compared.
impl PartialEq for ClientTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config) && self.server == other.server
    }
}

impl Eq for ClientTls {}

/// The name by which rules know a certificate: its first DNS name, else its first URI. A URI without a scheme, or with
/// characters that no URI has, is no name: it could pass for a DNS name, or for a line of a log.
pub(crate) fn subject(certificate: &CertificateDer<'_>) -> Option<String> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let dns = parsed.valid_dns_names().find(|name| is_plain(name)).map(str::to_owned);
    dns.or_else(|| parsed.valid_uri_names().find(|name| is_plain(name) && has_scheme(name)).map(str::to_owned))
}

fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A letter, then letters, digits, `+`, `-` and `.` before a colon (RFC 3986, 3.1).
fn has_scheme(uri: &str) -> bool {
    let Some((scheme, _)) = uri.split_once(':') else { return false };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(fits)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(unfit)?;
    if found.is_empty() { Err(TlsError::NoCertificate) } else { Ok(found) }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| TlsError::NoKey)
}

fn roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(unfit)?;
    }
    Ok(roots)
}

fn unfit(error: impl fmt::Display) -> TlsError {
    TlsError::Unfit(error.to_string())
}
