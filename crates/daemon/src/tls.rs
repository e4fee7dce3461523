//! The daemon's certificate, and the authority of its clients'.
use crate::config::Settings;
use crate::failure::{Failure, Outcome};
use crate::security::read_secret;
use consort_tls::ServerTls;
use std::path::Path;

/// What the daemon shows where it speaks TLS, to clients or to who reads its metrics; `None` where it does not.
///
/// # Errors
/// A file is missing, damaged, or does not fit the others; others may read the key.
pub fn server(settings: &Settings) -> Outcome<Option<ServerTls>> {
    let wanted_by = match (settings.listen_tls.is_empty(), settings.metrics_tls) {
        (false, _) => "listen_tls",
        (true, true) => "tls below [metrics]",
        (true, false) => return Ok(None),
    };
    let (Some(certificate), Some(key)) = (&settings.certificate, &settings.certificate_key) else {
        return Err(Failure::usage(format!(
            "{wanted_by} needs a certificate: name its file by certificate, and its key's by certificate_key, below [security]"
        )));
    };
    let chain = read(certificate)?;
    let secret = read_secret(key, "certificate key", "openssl genpkey -algorithm ED25519 -out")?;
    let authority = settings.client_authority.as_deref().map(read).transpose()?;
    ServerTls::new(&chain, secret.as_bytes(), authority.as_deref()).map(Some).map_err(|error| {
        let authority =
            settings.client_authority.as_ref().map_or_else(String::new, |path| format!(", {}", path.display()));
        Failure::usage(format!("cannot use {}, {}{authority} for TLS: {error}", certificate.display(), key.display()))
    })
}

fn read(path: &Path) -> Outcome<Vec<u8>> {
    std::fs::read(path)
        .map_err(|error| Failure::usage(format!("cannot read the certificate {}: {error}", path.display())))
}
