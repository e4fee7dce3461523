//! A program in C speaks TLS with real daemons, and certificates made for the purpose.
use super::{Daemon, INSTALLED, Running, done, has, has_tools};
use consort_testbed::program_for_tests;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const RULES: &str = "\
    [[rights]]\nwho = [\"certificate:*.billing\"]\ngroups = [\"orders\"]\nallow = [\"join\", \"send\"]\n\
    [[rights]]\nwho = [\"certificate:audit\"]\ngroups = [\"*\"]\nallow = [\"join\", \"see\"]\n";

/// Files of authorities, certificates and keys.
struct Files(TempDir);

impl Files {
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    fn authority(&self, name: &str) -> (String, Issuer<'static, KeyPair>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).unwrap().pem();
        self.write(&format!("{name}.pem"), &pem);
        (pem, Issuer::new(params, key))
    }

    /// A certificate for a name or an address, and its key, in files; returns the key.
    fn certificate(&self, file: &str, by: &Issuer<'static, KeyPair>, name: &str, expired: bool) -> String {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        if expired {
            (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2020, 1, 2));
        }
        self.write(&format!("{file}.pem"), &params.signed_by(&key, by).unwrap().pem());
        self.write(&format!("{file}.key"), &key.serialize_pem());
        key.serialize_pem()
    }

    /// All that the program wants.
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        let [(root, daemons), (_, clients), (_, others)] =
            ["daemons", "clients", "others"].map(|name| files.authority(name));
        files.certificate("daemon", &daemons, "127.0.0.1", false);
        let key = files.certificate("own", &clients, "eu.billing", false);
        files.certificate("audit", &clients, "audit", false);
        files.certificate("old", &clients, "old.billing", true);
        files.certificate("wrong", &others, "eu.billing", false);
        files.write("damaged.pem", &format!("of the site\n{}", root.replacen("MI", "@@", 1)));
        files.write("locked.key", &key.replace("PRIVATE", "ENCRYPTED PRIVATE"));
        files
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

fn a_program_speaks_tls(checked: bool) {
    let (files, consort) = (Files::new(), program_for_tests().unwrap());
    let at = |name: &str| files.path().join(name).display().to_string();
    let tokens = at("tokens");
    let token = done(Command::new(&consort).args(["token", &tokens, "ann"]));
    let [certificate, key, authority] = ["daemon.pem", "daemon.key", "clients.pem"].map(at);
    let security = format!(
        "[security]\ncertificate = {certificate:?}\ncertificate_key = {key:?}\nclient_authority = {authority:?}\n\
         tokens = {tokens:?}\n{RULES}"
    );
    let [first, second, third] = Daemon::start_sealed(&consort, &security).unwrap();
    let program = INSTALLED.compile("tests/tls.c", &format!("tls-{checked}"), false);
    let mut run = INSTALLED.command(&program, checked);
    // Which bytes the ciphers' vector instructions have defined, valgrind does not follow.
    run.env("VALGRIND_OPTS", "--undef-value-errors=no");
    run.arg(files.path()).arg(first.unix()).args([first.tls(), second.tls(), third.tls()]);
    run.env("TOKEN", token.trim_end()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut run = Running(run.spawn().unwrap());
    let mut lines = BufReader::new(run.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("kill A"));
    first.kill();
    run.0.stdin.take().unwrap().write_all(b"done\n").unwrap();
    assert_eq!(lines.next().as_deref(), Some("sealed"));
    let status = run.0.wait().unwrap();
    assert!(status.success(), "it ended with {status}");
}

#[test]
fn a_program_speaks_tls_and_is_told_what_is_wrong() {
    if has_tools() {
        a_program_speaks_tls(false);
    }
}

#[test]
fn a_program_speaks_tls_under_valgrind_without_a_leak() {
    if has_tools() && has("valgrind") {
        a_program_speaks_tls(true);
    }
}
