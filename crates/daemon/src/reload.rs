//! What clients may do, read again at SIGHUP.
use crate::config::{Settings, rights};
use crate::failure::Outcome;
use crate::tokens;
use consort_net::{ClientPolicy, Reload};
use consort_rights::Rules;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
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

/// Takes SIGHUP from here on: it does not end the process any more.
///
/// # Errors
/// Those of installing a handler.
pub fn take_hangups() -> io::Result<Signals> {
    Signals::new([SIGHUP])
}

/// Has each SIGHUP read again what clients may do. What is wrong is logged, and what held before holds on.
///
/// # Errors
/// Those of beginning a thread.
pub fn on_hangup(
    mut hangups: Signals,
    reload: Reload,
    settings: impl Fn() -> Outcome<Settings> + Send + 'static,
) -> io::Result<()> {
    std::thread::Builder::new().name("reload".into()).spawn(move || {
        for _ in hangups.forever() {
            match settings().and_then(|settings| policy(&settings)) {
                Ok(policy) => {
                    let (rules, tokens) = (policy.rules.len(), policy.tokens.len());
                    tracing::info!(target: "consort::audit", rules, tokens, "told by SIGHUP: rules and tokens read again");
                    reload.set(policy);
                }
                Err(failure) => {
                    let problem = failure.message;
                    tracing::error!(target: "consort::audit", problem, "told by SIGHUP: rules and tokens stay as they were");
                }
            }
        }
    })?;
    Ok(())
}
