//! Where clients come from, and the tokens by which they prove who they are.
use crate::Node;
use consort_order::Engine;
use consort_rights::{Identity, Rules, TokenProblem, Tokens};
use consort_session::listing::Transport;
use consort_session::{Disconnect, DisconnectReason};
use consort_types::{ClientId, Duration, Instant};

/// What is known of a connection when it is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOrigin {
    /// What carries it.
    pub transport: Transport,
    /// Who it is, as far as that is known.
    pub identity: Identity,
    /// What time it is, in seconds since 1970: tokens expire by that.
    pub unix_seconds: u64,
}

/// What holds for clients, and may change while a node runs.
#[derive(Clone, Debug, Default)]
pub struct ClientPolicy {
    /// What they may do.
    pub rules: Rules,
    /// What they may show to prove who they are.
    pub tokens: Tokens,
    /// Whether native clients at TCP ports are let in only if they have proven who they are.
    pub tcp_proves: bool,
}

/// Where a client comes from, and what it has shown.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenHolder {
    pub transport: Transport,
    pub opened: Instant,
    /// What time it was then, in seconds since 1970.
    pub unix: u64,
    /// What it has shown, and proven by that.
    pub shown: Option<String>,
}

impl TokenHolder {
    /// What time it is, in seconds since 1970.
    fn unix_at(&self, now: Instant) -> u64 {
        self.unix.saturating_add(now.since(self.opened).as_secs())
    }
}

impl<E: Engine> Node<E> {
    /// Looks at the token that a client has shown in its hello, if it has, and whether it had to.
    pub(crate) fn prove(&mut self, client: ClientId) -> Result<(), Disconnect> {
        let shown = self.clients.take_token(client);
        let Some(known) = self.rights.all.get(&client) else { return Ok(()) };
        let (holder, identity) = (known.token.clone(), known.identity.clone());
        let Some(token) = shown else {
            let may_come = !self.rights.tcp_proves || holder.transport != Transport::Tcp || identity.is_proven();
            let text =
                "clients at this address prove who they are by a token or a certificate; `consort token` makes a token";
            return if may_come { Ok(()) } else { Err(Disconnect::new(DisconnectReason::Unproven, text)) };
        };
        let unix = holder.unix_at(self.now);
        let proof = self.rights.tokens.verify(token.as_bytes(), unix).map_err(farewell)?;
        if let Some(expires) = proof.expires {
            let left = Duration::from_secs(expires.saturating_sub(unix));
            self.rights.expiries.insert((self.now + left, client));
        }
        let identity = identity.with_token(&proof.name);
        self.clients.known_as(self.now, client, identity.to_string());
        self.rights.identify(client, identity);
        if let Some(known) = self.rights.all.get_mut(&client) {
            known.token.shown = Some(token);
        }
        Ok(())
    }

    /// Sends those away whose tokens have expired.
    pub(crate) fn end_expired(&mut self) {
        while self.rights.next_expiry().is_some_and(|at| at <= self.now) {
            if let Some((_, client)) = self.rights.expiries.pop_first() {
                self.clients.end(client, &farewell(TokenProblem::Expired));
            }
        }
    }

    /// Sends those away whose tokens prove nothing any more.
    pub(super) fn end_unknown_tokens(&mut self) {
        let mut ended = Vec::new();
        for (client, known) in &self.rights.all {
            let Some(token) = &known.token.shown else { continue };
            if let Err(problem) = self.rights.tokens.verify(token.as_bytes(), known.token.unix_at(self.now)) {
                ended.push((*client, problem));
            }
        }
        ended.into_iter().for_each(|(client, problem)| self.clients.end(client, &farewell(problem)));
    }
}

impl super::RightsDesk {
    /// When the first token expires.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.expiries.first().map(|(at, _)| *at)
    }
}

fn farewell(problem: TokenProblem) -> Disconnect {
    let reason = match problem {
        TokenProblem::Malformed => DisconnectReason::TokenMalformed,
        TokenProblem::Unknown => DisconnectReason::TokenUnknown,
        TokenProblem::Expired => DisconnectReason::TokenExpired,
    };
    Disconnect::new(reason, problem.to_string())
}
