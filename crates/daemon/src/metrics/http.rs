//! As much of HTTP/1.1 as it takes to be asked for a page: one request for each connection, without a body.

/// No request has more bytes before its empty line.
const HEAD_MAX: usize = 8 << 10;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// Whether only the head of the answer is wanted.
    pub head_only: bool,
    /// The path, without what stands behind a question mark.
    pub path: String,
    /// The host that it was sent to, as it says, in small letters and without the port.
    pub host: Option<String>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// Code and name.
    pub status: &'static str,
    kind: &'static str,
    /// What is told.
    pub body: String,
}

impl HttpResponse {
    /// A sentence for people.
    pub fn text(status: &'static str, sentence: impl Into<String>) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: sentence.into() + "\n" }
    }

    /// Metrics.
    pub fn metrics(body: String) -> Self {
        Self { status: "200 OK", kind: "text/plain; version=0.0.4; charset=utf-8", body }
    }

    /// Not now, and why.
    pub fn unavailable(why: String) -> Self {
        Self::text("503 Service Unavailable", why)
    }

    /// The answer as it is sent.
    pub fn bytes(&self, with_body: bool) -> Vec<u8> {
        let Self { status, kind, body } = self;
        let length = body.len();
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let mut text = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{allow}Connection: close\r\n\r\n"
        );
        text.push_str(if with_body { body } else { "" });
        text.into_bytes()
    }
}

/// Reads a request, or says what is wrong with it; `None` while more bytes must come.
pub fn read(bytes: &[u8]) -> Option<Result<HttpRequest, HttpResponse>> {
    let ends = |end: &[u8]| bytes.windows(end.len()).any(|window| window == end);
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if line.len() < bytes.len() && !is_text(line) {
        return Some(Err(bad("that is no HTTP")));
    }
    if ends(b"\r\n\r\n") || ends(b"\n\n") {
        return Some(request(line, host(bytes)));
    }
    (bytes.len() > HEAD_MAX).then(|| Err(HttpResponse::text("431 Request Header Fields Too Large", "that is too long")))
}

/// What a request says it was sent to, without the port.
fn host(head: &[u8]) -> Option<String> {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    let fields = lines.filter_map(|line| std::str::from_utf8(line).ok()?.trim_end().split_once(':'));
    let mut hosts = fields.filter(|(name, _)| name.eq_ignore_ascii_case("host")).map(|(_, value)| value.trim());
    let host = hosts.next()?;
    let port = host.rfind(':').filter(|colon| host[colon + 1..].bytes().all(|byte| byte.is_ascii_digit()));
    let name = port.filter(|colon| !host[..*colon].contains(':') || host[..*colon].ends_with(']'));
    Some(name.map_or(host, |colon| &host[..colon]).trim_matches(['[', ']']).to_ascii_lowercase())
}

fn request(line: &[u8], host: Option<String>) -> Result<HttpRequest, HttpResponse> {
    let line = std::str::from_utf8(line).unwrap_or_default().trim_end_matches('\r');
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else { return Err(bad("a request has a method, a path and a version")) };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return Err(bad("ask in HTTP/1.1 for /metrics, /ready or /live"));
    }
    let path = target.split('?').next().unwrap_or_default().to_owned();
    match method {
        "GET" => Ok(HttpRequest { head_only: false, path, host }),
        "HEAD" => Ok(HttpRequest { head_only: true, path, host }),
        _ => Err(HttpResponse::text("405 Method Not Allowed", "there is nothing here but to be read with GET")),
    }
}

fn is_text(line: &[u8]) -> bool {
    line.strip_suffix(b"\r").unwrap_or(line).iter().all(|byte| matches!(byte, b' '..=b'~'))
}

fn bad(sentence: &str) -> HttpResponse {
    HttpResponse::text("400 Bad Request", sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Rng;

    fn status(bytes: &[u8]) -> &'static str {
        match read(bytes) {
            Some(Err(response)) => response.status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_is_read_once_it_is_whole() {
        let whole = b"GET /metrics?x=1 HTTP/1.1\r\nHost: here\r\n\r\n";
        (0..whole.len()).for_each(|len| assert_eq!(read(&whole[..len]), None, "{len}"));
        assert_eq!(
            read(whole),
            Some(Ok(HttpRequest { head_only: false, path: "/metrics".into(), host: Some("here".into()) }))
        );
        let head = read(b"HEAD /ready HTTP/1.0\n\n");
        assert_eq!(head, Some(Ok(HttpRequest { head_only: true, path: "/ready".into(), host: None })));
    }

    #[test]
    fn the_host_is_read_without_its_port() {
        let asked = |host: &str| {
            let request = read(format!("GET / HTTP/1.1\r\nAccept: a:b\r\n{host}\r\n\r\n").as_bytes());
            request.unwrap().unwrap().host
        };
        for (line, host) in [
            ("Host: Evil.example", Some("evil.example")),
            ("host:  localhost:9100", Some("localhost")),
            ("HOST: [::1]:9100", Some("::1")),
            ("Host: ::1", Some("::1")),
            ("Host: 10.0.0.1:80", Some("10.0.0.1")),
            ("Host:", Some("")),
            ("X-Host: a", None),
        ] {
            assert_eq!(asked(line).as_deref(), host, "{line}");
        }
    }

    #[test]
    fn what_is_no_request_is_told_what_it_is() {
        assert_eq!(status(b"\x16\x03\x01\n"), "400 Bad Request");
        assert_eq!(status(b"GET /metrics\r\n\r\n"), "400 Bad Request");
        assert_eq!(status(b"GET metrics HTTP/1.1\r\n\r\n"), "400 Bad Request");
        assert_eq!(status(b"GET / HTTP/2\r\n\r\n"), "400 Bad Request");
        assert_eq!(status(b"POST /metrics HTTP/1.1\r\n\r\n"), "405 Method Not Allowed");
        assert_eq!(status(&[b'x'; HEAD_MAX + 1]), "431 Request Header Fields Too Large");
    }

    #[test]
    fn no_bytes_panic_it_and_none_are_waited_for_for_ever() {
        let mut rng = Rng::new(4);
        for _ in 0..3_000 {
            let len = rng.below(300) as usize;
            let bytes: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
            drop(read(&bytes));
        }
        assert!(read(&[b'\n'; 2]).is_some() && read(&[0; HEAD_MAX + 1]).is_some());
    }

    #[test]
    fn an_answer_says_how_long_it_is_and_leaves_its_body_out_for_head() {
        let response = HttpResponse::text("405 Method Not Allowed", "no");
        let whole = String::from_utf8(response.bytes(true)).unwrap();
        assert!(whole.starts_with("HTTP/1.1 405 Method Not Allowed\r\n") && whole.ends_with("\r\n\r\nno\n"));
        assert!(whole.contains("Content-Length: 3\r\n") && whole.contains("Allow: GET, HEAD\r\n"));
        assert!(response.bytes(false).ends_with(b"\r\n\r\n"));
    }
}
