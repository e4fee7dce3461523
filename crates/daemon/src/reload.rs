//! What clients may do, what they are shown, and the cluster's keys, read again at SIGHUP.
use crate::config::{Settings, rights};
use crate::failure::{Failure, Outcome};
use crate::signals::Caught;
use crate::{security, tls, tokens};
use consort_net::{ClientPolicy, Reload};
use consort_rights::Rules;
use consort_seal::KeyRing;
use std::io;

/// What holds for clients after these settings, and the files that they name.
///
/// # Errors
/// A file that cannot be read, or in which something is wrong.
pub fn policy(settings: &Settings) -> Outcome<ClientPolicy> {
    let mut rules = settings.rights.clone();
    if let Some(path) = &settings.rights_file {
        rules.extend(rights::read_file(path)?);
    }
    let tokens = settings.tokens.as_deref().map(tokens::load).transpose()?;
    let tcp_proves = settings.tcp_proves.unwrap_or(tokens.is_some() || settings.client_authority.is_some());
    Ok(ClientPolicy { rules: Rules::new(rules), tokens: tokens.unwrap_or_default(), tcp_proves })
}

/// The cluster's keys after these settings, for a daemon that has keys, or has none, already.
fn keys(settings: &Settings, has_keys: bool) -> Outcome<Option<KeyRing>> {
    match (&settings.key, has_keys) {
        (Some(path), true) => security::load(path).map(Some),
        (None, false) => Ok(None),
        (Some(_), false) => {
            Err(Failure::usage("`key` below [security] is new, and a daemon begins to seal at its start"))
        }
        (None, true) => Err(Failure::usage("`key` below [security] is gone, and a daemon ends to seal at its start")),
    }
}

/// Has each SIGHUP read again what clients may do, the certificates and the cluster's keys. What is wrong is logged, and
/// what held before holds on.
///
/// # Errors
/// Those of beginning a thread.
pub fn on_hangup(
    hangups: Caught,
    reload: Reload,
    settings: impl Fn() -> Outcome<Settings> + Send + 'static,
) -> io::Result<()> {
    hangups.each("reload", move || {
        let has_keys = reload.keys().is_some();
        let read = |settings| Ok((policy(&settings)?, keys(&settings, has_keys)?, tls::server(&settings)?));
        match settings().and_then(read) {
            Ok((policy, keys, shown)) => {
                if shown.is_some_and(|shown| reload.set_tls(&shown)) {
                    tracing::info!(target: "consort::audit", "told by SIGHUP: certificates read again");
                }
                let (rules, tokens) = (policy.rules.len(), policy.tokens.len());
                tracing::info!(target: "consort::audit", rules, tokens, "told by SIGHUP: rules and tokens read again");
                keys.into_iter().for_each(|keys| reload.offer_keys(keys));
                reload.set(policy);
            }
            Err(failure) => {
                let problem = failure.message;
                tracing::error!(target: "consort::audit", problem, "told by SIGHUP: rules, tokens, certificates and keys stay as they were");
            }
        }
    })
}
