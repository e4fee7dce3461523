//! TLS with daemons at TCP addresses.
use crate::failure::Failure;
use consort::ClientTls;
use pyo3::prelude::*;
use std::path::PathBuf;

/// TLS 1.3 with daemons at TCP addresses, of `listen_tls`: for any number of clients and sessions.
///
/// `authority` is a file with the certificates of the authority that daemons' certificates must be of; `certificate` one
/// with this client's, followed by those of its issuers; `key` one with its key. All are in PEM, and read once, here:
/// `InvalidArgument` tells file, line and remedy. Each daemon's certificate must name the host of its address, or
/// `server_name`, where that is given. A Unix socket has no TLS: a session may have addresses of both kinds.
#[pyclass(frozen, module = "consort._consort")]
pub(crate) struct Tls {
    pub(crate) tls: ClientTls,
    authority: PathBuf,
    certificate: Option<PathBuf>,
}

#[pymethods]
impl Tls {
    #[new]
    #[pyo3(signature = (authority, certificate=None, key=None, *, server_name=None))]
    fn new(
        authority: PathBuf,
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
        server_name: Option<&str>,
    ) -> PyResult<Self> {
        let own = match (&certificate, &key) {
            (Some(certificate), Some(key)) => Some((&**certificate, &**key)),
            (None, None) => None,
            _ => return Err(Failure::invalid("give certificate and key, or neither").into()),
        };
        let mut tls = ClientTls::from_files(&authority, own).map_err(Failure::invalid)?;
        if let Some(name) = server_name {
            tls = tls.named(name).map_err(Failure::invalid)?;
        }
        Ok(Self { tls, authority, certificate })
    }

    /// Nothing of the key.
    fn __repr__(&self) -> String {
        let certificate = self.certificate.as_ref().map_or_else(|| "None".into(), |path| format!("{path:?}"));
        format!("Tls(authority={:?}, certificate={certificate})", self.authority)
    }
}
