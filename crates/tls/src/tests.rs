//! Daemons' listeners and clients, with certificates made for the purpose.
use super::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevokedCertParams, SanType,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

const PATIENCE: Duration = Duration::from_secs(20);
/// The number that all certificates have here.
const SERIAL: u64 = 77;

/// An authority, in PEM, and what signs for it.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> Authority {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    let name = format!("authority {}", MADE.fetch_add(1, Ordering::Relaxed));
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let pem = params.self_signed(&key).unwrap().pem();
    Authority { pem, issuer: Issuer::new(params, key) }
}

/// A certificate for these names and its key, both in PEM.
fn certificate(authority: &Authority, names: &[&str]) -> (String, String) {
    certificate_until(authority, names, SystemTime::now() + Duration::from_secs(86_400))
}

/// The same with the time when it expires.
fn certificate_until(authority: &Authority, names: &[&str], until: SystemTime) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.not_after = until.into();
    params.serial_number = Some(SERIAL.into());
    (params.signed_by(&key, &authority.issuer).unwrap().pem(), key.serialize_pem())
}

/// A list by which an authority has revoked the certificates of this number, in PEM.
fn revocations(authority: &Authority, serial: u64) -> String {
    let now = SystemTime::now();
    let revoked = RevokedCertParams {
        serial_number: serial.into(),
        revocation_time: now.into(),
        reason_code: None,
        invalidity_date: None,
    };
    let params = CertificateRevocationListParams {
        this_update: (now - Duration::from_secs(60)).into(),
        next_update: (now + Duration::from_secs(86_400)).into(),
        crl_number: 1.into(),
        issuing_distribution_point: None,
        revoked_certs: vec![revoked],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    params.signed_by(&authority.issuer).unwrap().pem().unwrap()
}

/// Whether a connection ends within this time.
fn ends_within(stream: &mut UnixStream, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).unwrap();
    matches!(stream.read(&mut [0; 8]), Ok(0))
}

fn server(authority: &Authority, clients: Option<&str>) -> ServerTls {
    let (chain, key) = certificate(authority, &["localhost", "127.0.0.1"]);
    ServerTls::new(chain.as_bytes(), key.as_bytes(), clients.map(str::as_bytes)).unwrap()
}

fn listener(authority: &Authority, clients: Option<&Authority>) -> TlsListener {
    let tls = server(authority, clients.map(|clients| clients.pem.as_str()));
    TlsListener::open(&[([127, 0, 0, 1], 0).into()], &tls, 8).unwrap()
}

fn client(authority: &Authority, own: Option<&(String, String)>) -> ClientTls {
    let own = own.map(|(chain, key)| (chain.as_bytes(), key.as_bytes()));
    ClientTls::new(authority.pem.as_bytes(), own).unwrap()
}

fn connect(tls: &ClientTls, address: SocketAddr, host: &str) -> std::io::Result<Bridge> {
    tls.bridge(TcpStream::connect(address).unwrap(), host, PATIENCE)
}

fn arrival(listener: &TlsListener) -> Arrival {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(arrival) = listener.next_arrival() {
            arrival.stream.set_nonblocking(false).unwrap();
            arrival.stream.set_read_timeout(Some(PATIENCE)).unwrap();
            return arrival;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("nobody came");
}

/// Reads so many bytes.
fn read(stream: &mut UnixStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn what_one_end_says_the_other_hears_and_ends_are_heard_too() {
    let authority = authority();
    let listener = listener(&authority, None);
    let bridge = connect(&client(&authority, None), listener.addresses()[0], "localhost").unwrap();
    let mut there = arrival(&listener);
    assert_eq!((there.certificate, there.peer.ip().is_loopback()), (None, true));
    let (mut here, large) = (bridge.stream, vec![7; 3 << 20]);
    let writer = std::thread::spawn({
        let (mut here, large) = (here.try_clone().unwrap(), large.clone());
        move || here.write_all(&large).unwrap()
    });
    there.stream.write_all(b"welcome").unwrap();
    assert_eq!(read(&mut here, 7), b"welcome");
    assert_eq!(read(&mut there.stream, large.len()), large);
    writer.join().unwrap();
    here.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(there.stream.read(&mut [0; 8]).unwrap(), 0, "the end is heard");
    there.stream.write_all(b"bye").unwrap();
    drop(there.stream);
    assert_eq!(read(&mut here, 3), b"bye");
    assert_eq!(here.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(bridge.problem.text(), None);
}

#[test]
fn a_client_s_certificate_gives_its_name() {
    let (daemons, clients) = (authority(), authority());
    let listener = listener(&daemons, Some(&clients));
    let own = certificate(&clients, &["billing.example", "other.example"]);
    let _bridge = connect(&client(&daemons, Some(&own)), listener.addresses()[0], "127.0.0.1").unwrap();
    assert_eq!(arrival(&listener).certificate.as_deref(), Some("billing.example"));
    let named = |uri: &str| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
        let own = (params.signed_by(&key, &clients.issuer).unwrap().pem(), key.serialize_pem());
        let _bridge = connect(&client(&daemons, Some(&own)), listener.addresses()[0], "localhost").unwrap();
        arrival(&listener).certificate
    };
    assert_eq!(named("spiffe://site/audit").as_deref(), Some("spiffe://site/audit"));
    for passes_for_another in ["billing.example", "a:b\nINFO forged", "a: b", "4:a", ":a", "\u{1b}[2J:"] {
        assert_eq!(named(passes_for_another), None, "{passes_for_another:?}");
    }
}

#[test]
fn a_daemon_that_is_not_to_be_believed_is_refused_with_the_reason() {
    let (daemons, others) = (authority(), authority());
    let listener = listener(&daemons, None);
    let error = connect(&client(&others, None), listener.addresses()[0], "localhost").unwrap_err();
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    let error = connect(&client(&daemons, None), listener.addresses()[0], "elsewhere.example").unwrap_err();
    assert!(
        error.to_string().contains("not valid for name") || error.to_string().contains("NotValidForName"),
        "{error}"
    );
    let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = plain.local_addr().unwrap();
    let silent = std::thread::spawn(move || plain.accept().map(|(stream, _)| stream));
    let socket = TcpStream::connect(address).unwrap();
    let error = client(&daemons, None).bridge(socket, "localhost", Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    drop(silent.join());
    assert!(listener.next_arrival().is_none());
}

#[test]
fn a_client_without_the_right_certificate_is_refused_and_told_why() {
    let (daemons, clients, others) = (authority(), authority(), authority());
    let listener = listener(&daemons, Some(&clients));
    let wrong = certificate(&others, &["billing.example"]);
    for (own, told) in [(None, "CertificateRequired"), (Some(&wrong), "UnknownCA")] {
        let problem = match connect(&client(&daemons, own), listener.addresses()[0], "localhost") {
            Err(error) => error.to_string(),
            Ok(mut bridge) => {
                bridge.stream.set_read_timeout(Some(PATIENCE)).unwrap();
                assert!(bridge.stream.read(&mut [0; 8]).is_ok_and(|n| n == 0));
                bridge.problem.text().unwrap().to_owned()
            }
        };
        assert!(problem.contains(told), "{problem}");
    }
    assert!(listener.next_arrival().is_none());
}

#[test]
fn a_session_ends_when_its_certificate_expires_and_no_other_does() {
    let (daemons, clients) = (authority(), authority());
    let listener = listener(&daemons, Some(&clients));
    let soon = certificate_until(&clients, &["billing.example"], SystemTime::now() + Duration::from_secs(3));
    let later = certificate(&clients, &["audit.example"]);
    let connected = |own| {
        let bridge = connect(&client(&daemons, Some(own)), listener.addresses()[0], "localhost").unwrap();
        (bridge, arrival(&listener))
    };
    let ((expires, mut expired), (lasts, mut lasted)) = (connected(&soon), connected(&later));
    assert!(ends_within(&mut expired.stream, PATIENCE));
    (&lasts.stream).write_all(b"hello").unwrap();
    assert_eq!(read(&mut lasted.stream, 5), b"hello");
    drop(expires);
}

#[test]
fn a_reload_ends_sessions_of_those_who_are_not_believed_any_more() {
    let (daemons, clients, others) = (authority(), authority(), authority());
    let shown = server(&daemons, Some(&clients.pem));
    let listener = TlsListener::open(&[([127, 0, 0, 1], 0).into()], &shown, 8).unwrap();
    let address = listener.addresses()[0];
    let own = certificate(&clients, &["billing.example"]);
    let both = format!("{}{}", clients.pem, others.pem);
    let other_serial = format!("{both}{}", revocations(&clients, SERIAL + 1));
    let revoked = format!("{both}{}", revocations(&clients, SERIAL));
    let empty = connect(&client(&daemons, Some(&own)), address, "localhost").unwrap();
    let mut there = arrival(&listener);
    for believed in [&both, &other_serial] {
        shown.replace(&server(&daemons, Some(believed)));
        assert!(!ends_within(&mut there.stream, Duration::from_secs(2)), "it is believed");
    }
    shown.replace(&server(&daemons, Some(&revoked)));
    assert!(ends_within(&mut there.stream, PATIENCE), "it is revoked");
    drop(empty);
    shown.replace(&server(&daemons, Some(&both)));
    let again = connect(&client(&daemons, Some(&own)), address, "localhost").unwrap();
    let mut there = arrival(&listener);
    shown.replace(&server(&daemons, Some(&others.pem)));
    assert!(ends_within(&mut there.stream, PATIENCE), "its authority is another's");
    drop(again);
    shown.replace(&server(&daemons, Some(&revoked)));
    let refused = connect(&client(&daemons, Some(&own)), address, "localhost");
    let problem = refused.map(|mut bridge| {
        assert!(ends_within(&mut bridge.stream, PATIENCE));
        bridge.problem.text().unwrap().to_owned()
    });
    let problem = problem.unwrap_or_else(|error| error.to_string());
    assert!(problem.contains("CertificateRevoked"), "{problem}");
}

#[test]
fn garbage_and_silence_end_their_own_connections_and_no_other() {
    let authority = authority();
    let listener = listener(&authority, None);
    let mut silent = Vec::new();
    for n in 0..5_u8 {
        let mut stream = TcpStream::connect(listener.addresses()[0]).unwrap();
        let garbage: Vec<u8> = (0..2_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ n).collect();
        let _ = stream.write_all(&garbage[..usize::from(n) * 400]);
        silent.push(stream);
    }
    let bridge = connect(&client(&authority, None), listener.addresses()[0], "localhost").unwrap();
    let mut there = arrival(&listener);
    (&bridge.stream).write_all(b"hello").unwrap();
    assert_eq!(read(&mut there.stream, 5), b"hello");
}

#[test]
fn who_does_not_shake_hands_or_does_not_go_when_its_daemon_has_makes_room_for_others() {
    let authority = authority();
    let (listener, tls) = (listener(&authority, None), client(&authority, None));
    let address = listener.addresses()[0];
    let silent: Vec<_> = (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut stay = Vec::new();
    for _ in 0..8 {
        stay.push(connect(&tls, address, "localhost").unwrap());
        drop(arrival(&listener));
    }
    let bridge = connect(&tls, address, "localhost").unwrap();
    let mut there = arrival(&listener);
    (&bridge.stream).write_all(b"hello").unwrap();
    assert_eq!(read(&mut there.stream, 5), b"hello");
    drop((silent, stay));
}

#[test]
fn a_listener_that_is_dropped_lets_nobody_in_and_what_is_said_goes_on() {
    let authority = authority();
    let listener = listener(&authority, None);
    let address = listener.addresses()[0];
    let mut bridge = connect(&client(&authority, None), address, "localhost").unwrap();
    let mut there = arrival(&listener);
    drop(listener);
    assert!(std::net::TcpListener::bind(address).is_ok(), "its address is free");
    there.stream.write_all(b"farewell").unwrap();
    drop(there);
    assert_eq!(read(&mut bridge.stream, 8), b"farewell");
    assert!(matches!(bridge.stream.read(&mut [0; 8]), Ok(0)));
}

#[test]
fn what_is_no_certificate_or_key_or_not_its_key_is_told() {
    let authority = authority();
    let ((chain, key), (_, other)) = (certificate(&authority, &["localhost"]), certificate(&authority, &["localhost"]));
    let server = |chain: &str, key: &str| ServerTls::new(chain.as_bytes(), key.as_bytes(), None).map(drop);
    assert_eq!(server("", &key), Err(TlsError::NoCertificate));
    assert_eq!(server(&chain, "nothing"), Err(TlsError::NoKey));
    assert!(matches!(server(&chain, &other), Err(TlsError::Unfit(_))));
    assert!(server(&chain, &key).is_ok());
    let roots = ClientTls::new(b"nothing", None).map(drop);
    assert_eq!(roots, Err(TlsError::NoCertificate));
    let damaged = chain.replace("MII", "@@@");
    assert!(server(&damaged, &key).is_err());
}

#[test]
fn a_client_of_files_speaks_tls_and_a_bad_file_is_named_with_its_line_and_the_remedy() {
    let (daemons, clients) = (authority(), authority());
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (chain, key) = certificate(&clients, &["billing.example"]);
    let [root, own, secret] = [("a.pem", &daemons.pem), ("c.pem", &chain), ("c.key", &key)].map(|(n, t)| write(n, t));
    let listener = listener(&daemons, Some(&clients));
    let tls = ClientTls::from_files(&root, Some((&own, &secret))).unwrap();
    let _bridge = connect(&tls, listener.addresses()[0], "localhost").unwrap();
    assert_eq!(arrival(&listener).certificate.as_deref(), Some("billing.example"));

    let fails = |root: &Path, own: &Path, secret: &Path, file: &Path, line: Option<usize>, says: &str| {
        let error = ClientTls::from_files(root, Some((own, secret))).unwrap_err();
        assert_eq!((error.file.as_path(), error.line), (file, line), "{error}");
        assert!(error.to_string().contains(says), "{error}");
        let mut secret = key.lines().filter(|line| !line.starts_with("-----"));
        assert!(!secret.any(|line| error.to_string().contains(line)), "the key is told");
    };
    let missing = folder.path().join("missing");
    fails(&missing, &own, &secret, &missing, None, "cannot be read: No such file");
    fails(&root, &missing, &secret, &missing, None, "name a file in PEM that this program may read");
    fails(&root, &own, &missing, &missing, None, "cannot be read");
    fails(&secret, &own, &secret, &secret, None, "no certificate in PEM stands in it; name a file with a line");
    fails(&root, &own, &own, &own, None, "no private key in PEM stands in it; name a file with a line");
    let spoilt = |text: &str| text.replacen("MI", "@@", 1);
    let two = write("two.pem", &format!("of the site\n{chain}{}", spoilt(&daemons.pem)));
    let line = 2 + chain.lines().count();
    fails(&two, &own, &secret, &two, Some(line), "the certificate is damaged (");
    fails(&root, &two, &secret, &two, Some(line), "export it again");
    let empty = write("empty.pem", "\n-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n");
    fails(&empty, &own, &secret, &empty, Some(2), "the certificate is damaged (");
    fails(&root, &empty, &secret, &empty, Some(2), "the certificate is damaged (");
    let cut = write("cut.key", &key[..60]);
    fails(&root, &own, &cut, &cut, Some(1), "the private key is damaged (it is no PKCS#8, SEC1 or PKCS#1)");
    let locked = write("locked.key", &key.replace("PRIVATE", "ENCRYPTED PRIVATE"));
    fails(&root, &own, &locked, &locked, Some(1), "the private key is encrypted; name a file with the plain key");
    let other = write("other.key", &format!("\n{}", certificate(&clients, &["audit"]).1));
    fails(&root, &own, &other, &other, Some(2), &format!("name the key of the certificate in {}", own.display()));
}

#[test]
fn a_client_that_names_its_daemon_wants_that_name_whatever_the_host() {
    let authority = authority();
    let (listener, tls) = (listener(&authority, None), client(&authority, None));
    let named = |name: &str| tls.clone().named(name).unwrap();
    connect(&named("localhost"), listener.addresses()[0], "elsewhere.example").unwrap();
    connect(&named("127.0.0.1"), listener.addresses()[0], "elsewhere.example").unwrap();
    let error = connect(&named("elsewhere.example"), listener.addresses()[0], "localhost").unwrap_err();
    assert!(error.to_string().contains("elsewhere.example") && !is_no_tls(&error), "{error}");
    assert_eq!((named("localhost") == named("localhost"), named("localhost") == tls), (true, false));
    let error = tls.named("two words").unwrap_err();
    assert_eq!(error, TlsError::NoServerName("two words".into()));
    assert!(error.to_string().ends_with("give a DNS name or an IP address"), "{error}");
}

#[test]
fn who_speaks_no_tls_is_told_from_who_is_not_believed() {
    let (daemons, others) = (authority(), authority());
    let listener = listener(&daemons, None);
    assert!(!is_no_tls(&connect(&client(&others, None), listener.addresses()[0], "localhost").unwrap_err()));
    for says in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b""] {
        let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = plain.local_addr().unwrap();
        let answers = std::thread::spawn(move || {
            let (mut stream, _) = plain.accept().unwrap();
            let _ = stream.read(&mut [0; 4_096]).and_then(|_| stream.write_all(says));
        });
        let error = connect(&client(&daemons, None), address, "localhost").unwrap_err();
        assert!(is_no_tls(&error), "{error:?}");
        answers.join().unwrap();
    }
}
