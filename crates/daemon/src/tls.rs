//! The daemon's certificate, and the authority of its clients'.
use crate::config::Settings;
use crate::failure::{Failure, Outcome};
use crate::security::read_secret;
use consort_net::{ServerTls, TlsListen};
use std::path::Path;

/// Where clients may connect by TLS, and what is shown there; `None` for nowhere.
///
/// # Errors
/// A file is missing, damaged, or does not fit the others; others may read the key.
pub fn listen(settings: &Settings) -> Outcome<Option<TlsListen>> {
    if settings.listen_tls.is_empty() {
        return Ok(None);
    }
    let (Some(certificate), Some(key)) = (&settings.certificate, &settings.certificate_key) else {
        return Err(Failure::usage(
            "listen_tls needs a certificate: name its file by certificate, and its key's by certificate_key, below [security]",
        ));
    };
    let chain = read(certificate)?;
    let secret = read_secret(key, "certificate key", "openssl genpkey -algorithm ED25519 -out")?;
    let authority = settings.client_authority.as_deref().map(read).transpose()?;
    let tls = ServerTls::new(&chain, secret.as_bytes(), authority.as_deref()).map_err(|error| {
        let authority =
            settings.client_authority.as_ref().map_or_else(String::new, |path| format!(", {}", path.display()));
        Failure::usage(format!("cannot use {}, {}{authority} for TLS: {error}", certificate.display(), key.display()))
    })?;
    let (addresses, most) = (settings.listen_tls.clone(), settings.limits.clients_most.saturating_add(64));
    Ok(Some(TlsListen { addresses, tls, most }))
}

fn read(path: &Path) -> Outcome<Vec<u8>> {
    std::fs::read(path)
        .map_err(|error| Failure::usage(format!("cannot read the certificate {}: {error}", path.display())))
}
