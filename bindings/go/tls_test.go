package consort

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key = a.sign(template)
	return a
}

// sign makes a key, and a certificate for it: of the authority's, or of its own where that has none yet.
func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	parent, by := template, key
	if a.cert != nil {
		parent, by = a.cert, a.key
	}
	bytes, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(bytes)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// of is a certificate that has a name of DNS, or an address.
func (a *authority) of(name string) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{KeyUsage: x509.KeyUsageDigitalSignature}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	cert, key := a.sign(template)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// believing are options of a client that believes the authority, and shows these.
func (a *authority) believing(own ...tls.Certificate) Options {
	return Options{TLS: &tls.Config{RootCAs: a.pool(), Certificates: own}}
}

func writePEM(t *testing.T, dir, name, kind string, bytes []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// security is what daemons are configured with that have a certificate of this authority for 127.0.0.1, and ask for those
// of clients, if that is one.
func security(t *testing.T, daemons, clients *authority) string {
	t.Helper()
	dir, cert := t.TempDir(), daemons.of("127.0.0.1")
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("[security]\ncertificate = %q\ncertificate_key = %q\n",
		writePEM(t, dir, "daemon.pem", "CERTIFICATE", cert.Certificate[0]), writePEM(t, dir, "daemon.key", "PRIVATE KEY", key))
	if clients != nil {
		text += fmt.Sprintf("client_authority = %q\n", writePEM(t, dir, "clients.pem", "CERTIFICATE", clients.cert.Raw))
	}
	return text
}

// noLeak has a test end only once the goroutines that it started have.
func noLeak(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for late := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(late) {
				stacks := make([]byte, 1<<16)
				t.Fatalf("%d goroutines are left: %s", runtime.NumGoroutine()-before, stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
}

// newTLSDaemon starts a daemon that is alone and speaks TLS; it is configured with this, too.
func newTLSDaemon(t *testing.T, more string) (address string) {
	t.Helper()
	c, port := folderOf(t), freePorts(t, 5)
	c.configure(0, fmt.Sprintf("cluster = %q\nmulticast = \"off\"\n[[node]]\nid = 1\naddress = \"127.0.0.1:%d\"\n"+
		"[clients]\nlisten_tls = [\"127.0.0.1:TLS_PORT\"]\n%s", c.name, port, more), port+4)
	t.Cleanup(func() { c.kill(0) })
	c.start(0)
	return c.sealed[0]
}

func mustDial(t *testing.T, address string, options Options) *Client {
	t.Helper()
	client, err := Dial(long(t), address, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(long(t)) })
	return client
}

// nextOf is the next event of a kind.
func nextOf[E Event](t *testing.T, client *Client) E {
	t.Helper()
	for {
		event, err := client.Receive(long(t))
		if err != nil {
			t.Fatal(err)
		}
		if event, is := event.(E); is {
			return event
		}
	}
}

func TestACertificateSaysWhoAClientIsAndWhatItMayDo(t *testing.T) {
	noLeak(t)
	daemons, clients := newAuthority(t, "daemons"), newAuthority(t, "clients")
	rules := "[[rights]]\nwho = [\"certificate:*.billing\"]\ngroups = [\"orders\"]\nallow = [\"join\", \"send\"]\n" +
		"[[rights]]\nwho = [\"certificate:audit\"]\ngroups = [\"*\"]\nallow = [\"join\", \"see\"]\n"
	address := newTLSDaemon(t, security(t, daemons, clients)+rules)
	sender := mustDial(t, address, daemons.believing(clients.of("eu.billing")))
	auditor := mustDial(t, address, daemons.believing(clients.of("audit")))
	if _, err := auditor.Join(long(t), "orders"); err != nil {
		t.Fatal(err)
	}
	nextOf[*GroupView](t, auditor)
	large := strings.Repeat("7", 1<<20)
	if _, err := sender.Multicast(long(t), Agreed, []string{"orders"}, []byte(large)); err != nil {
		t.Fatal(err)
	}
	if message := nextOf[*Message](t, auditor); string(message.Payload) != large {
		t.Fatalf("%d bytes came", len(message.Payload))
	}
	if err := sender.WaitOrdered(long(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := auditor.Multicast(long(t), Agreed, []string{"orders"}, []byte("no")); err != nil {
		t.Fatal(err)
	}
	refused := nextOf[*Refused](t, auditor)
	if want := "certificate:audit may not send to orders: no rule allows it"; refused.Text != want {
		t.Fatal(refused.Text)
	}
}

func TestATokenIsShownOverTLS(t *testing.T) {
	noLeak(t)
	daemons := newAuthority(t, "daemons")
	tokens := filepath.Join(t.TempDir(), "tokens")
	token, err := folderOf(t).command("token", tokens, "ann").Output()
	if err != nil {
		t.Fatal(err)
	}
	address := newTLSDaemon(t, security(t, daemons, nil)+fmt.Sprintf("tokens = %q\n", tokens)+
		"[[rights]]\nwho = [\"token:ann\"]\ngroups = [\"g\"]\nallow = [\"join\", \"see\"]\n")
	options := daemons.believing()
	options.Token = strings.TrimSpace(string(token))
	ann := mustDial(t, address, options)
	if _, err := ann.Join(long(t), "g"); err != nil {
		t.Fatal(err)
	}
	if view := nextOf[*GroupView](t, ann); len(view.Members) != 1 {
		t.Fatal(view)
	}
	options.Token = "s1.ann.00"
	var refused *NotWelcomeError
	if _, err := Dial(long(t), address, options); !errors.As(err, &refused) {
		t.Fatal(err)
	}
}

func TestFailedHandshakesSayWhy(t *testing.T) {
	noLeak(t)
	daemons, clients, others := newAuthority(t, "daemons"), newAuthority(t, "clients"), newAuthority(t, "others")
	address := newTLSDaemon(t, security(t, daemons, clients))
	own := clients.of("eu.billing")
	fails := func(address string, options Options, says string) error {
		t.Helper()
		_, err := Dial(long(t), address, options)
		if err == nil || !strings.Contains(err.Error(), "cannot connect to "+address+" by TLS: ") || !strings.Contains(err.Error(), says) {
			t.Fatalf("%v, which does not say %q", err, says)
		}
		return err
	}
	var unknown x509.UnknownAuthorityError
	if err := fails(address, others.believing(own), "unknown authority"); !errors.As(err, &unknown) {
		t.Fatal(err)
	}
	var unnamed x509.HostnameError
	byName := strings.Replace(address, "127.0.0.1", "localhost", 1)
	if err := fails(byName, daemons.believing(own), "localhost"); !errors.As(err, &unnamed) {
		t.Fatal(err)
	}
	foreign := others.of("eu.billing")
	shown := daemons.believing()
	shown.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &foreign, nil }
	// The client is through before the daemon looks at its certificate. One that the daemon does not ask for is not shown.
	for range 10 {
		fails(address, daemons.believing(), "certificate required")
		fails(address, daemons.believing(foreign), "certificate required")
		fails(address, shown, "unknown certificate authority")
	}
	named := daemons.believing(own)
	named.TLS.ServerName = "127.0.0.1"
	mustDial(t, byName, named)
	if named.TLS.MinVersion != 0 {
		t.Fatal("what was given was changed")
	}
	if _, err := Dial(within(t, 5*time.Second), address, Options{}); err == nil {
		t.Fatal("who speaks no TLS was let in")
	}
}

func TestWhoSpeaksNoTLSIsToldFromADaemon(t *testing.T) {
	noLeak(t)
	options := newAuthority(t, "daemons").believing()
	for _, says := range []string{welcomeOfBob, "48545450", ""} {
		bytes := unhex(t, says)
		address := serve(t, "tcp", func(conn net.Conn) {
			_, _ = conn.Write(bytes)
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		})
		_, err := Dial(long(t), address, options)
		if !errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), "is TLS spoken there?") {
			t.Fatalf("%q: %v", says, err)
		}
	}
	silent := serve(t, "tcp", func(conn net.Conn) {
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	})
	_, err := Dial(within(t, 100*time.Millisecond), silent, options)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "did not let us in in time") {
		t.Fatal(err)
	}
	session := SessionOptions{Options: options, ConnectWithin: 100 * time.Millisecond, ReconnectWithin: time.Second}
	var unreachable *UnreachableError
	if _, err := DialSession(long(t), []string{silent}, session); !errors.As(err, &unreachable) {
		t.Fatal(err)
	}
}

func TestOldVersionsOfTLSAreNotSpoken(t *testing.T) {
	noLeak(t)
	daemons := newAuthority(t, "daemons")
	config := &tls.Config{Certificates: []tls.Certificate{daemons.of("127.0.0.1")}, MaxVersion: tls.VersionTLS12}
	address := serve(t, "tcp", func(conn net.Conn) {
		_ = tls.Server(conn, config).Handshake()
		_ = conn.Close()
	})
	options := daemons.believing()
	options.TLS.MinVersion = tls.VersionTLS12
	if _, err := Dial(long(t), address, options); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Fatal(err)
	}
}

func TestTLSThatCannotBeIsRefused(t *testing.T) {
	old := Options{TLS: &tls.Config{MaxVersion: tls.VersionTLS12}}
	for _, bad := range []struct {
		address, says string
		options       Options
	}{
		{"/nonexistent/socket", "TLS is given for `/nonexistent/socket`, a Unix socket; name a host:port", Options{TLS: &tls.Config{}}},
		{"127.0.0.1:1", "TLS.MaxVersion is TLS 1.2; daemons speak TLS 1.3", old},
	} {
		_, err := Dial(long(t), bad.address, bad.options)
		_, ofSession := DialSession(long(t), []string{bad.address}, SessionOptions{Options: bad.options})
		for _, err := range []error{err, ofSession} {
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), bad.says) {
				t.Errorf("%v, which does not say %q", err, bad.says)
			}
		}
	}
	for at, want := range map[string]string{"[::1]:4839": "::1", "eu.example:4839": "eu.example"} {
		config, err := Options{TLS: &tls.Config{}}.tlsAt("tcp", at, at)
		if err != nil || config.ServerName != want || config.MinVersion != tls.VersionTLS13 {
			t.Errorf("%s: %v %v", at, config, err)
		}
	}
}

func TestADaemonThatFallsSilentOverTLSIsGivenUp(t *testing.T) {
	noLeak(t)
	daemons := newAuthority(t, "daemons")
	config := &tls.Config{Certificates: []tls.Certificate{daemons.of("127.0.0.1")}}
	welcome := unhex(t, welcomeOfBob+beat)
	address := serve(t, "tcp", func(conn net.Conn) {
		sealed := tls.Server(conn, config)
		_, _ = sealed.Write(welcome)
		_, _ = io.Copy(io.Discard, sealed)
		_ = conn.Close()
	})
	options := daemons.believing()
	options.HostTimeout = time.Second
	bob := mustDial(t, address, options)
	_, err := bob.Receive(long(t))
	var lost *ConnectionLostError
	var silent *SilenceError
	if !errors.As(err, &lost) || !errors.As(err, &silent) || silent.Silence != time.Second {
		t.Fatal(err)
	}
}

func TestASessionGoesOnAtTheNextDaemonOverTLS(t *testing.T) {
	noLeak(t)
	daemons, clients := newAuthority(t, "daemons"), newAuthority(t, "clients")
	c := newCluster(t, "ring", "[clients]\nlisten_tls = [\"127.0.0.1:TLS_PORT\"]\n"+security(t, daemons, clients))
	options := SessionOptions{Options: daemons.believing(clients.of("eu.billing")), ReconnectWithin: 5 * time.Minute}
	session, err := DialSession(long(t), c.sealed[:], options)
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t, 5*time.Minute)
	defer func() { _ = session.Close(ctx) }()
	go func() {
		for range session.Events() {
		}
	}()
	for round := range 2 {
		for range 20 {
			sent, err := session.SendAndWait(ctx, Agreed, []string{"orders"}, []byte("one dozen"))
			if err != nil || sent.Fate != FateOrdered {
				t.Fatalf("round %d: %v %v", round, sent, err)
			}
		}
		if round == 0 {
			c.kill(0)
		}
	}
	if at := session.Daemon().Node; at == 1 {
		t.Fatal("it is at the daemon that was killed")
	}
}
