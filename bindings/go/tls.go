package consort

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// tlsAt is how TLS is spoken with a daemon at such an address; nil where it is not.
func (o Options) tlsAt(kind, at, address string) (*tls.Config, error) {
	switch {
	case o.TLS == nil:
		return nil, nil
	case kind == "unix":
		return nil, invalid("TLS is given for `%s`, a Unix socket; name a host:port where the daemon speaks TLS, or give none", address)
	case o.TLS.MaxVersion != 0 && o.TLS.MaxVersion < tls.VersionTLS13:
		return nil, invalid("TLS.MaxVersion is %s; daemons speak TLS 1.3, so leave it 0", tls.VersionName(o.TLS.MaxVersion))
	}
	config := o.TLS.Clone()
	config.MinVersion = tls.VersionTLS13
	if config.ServerName == "" {
		config.ServerName = strings.Trim(at[:strings.LastIndexByte(at, ':')], "[]")
	}
	return config, nil
}

// heard is a connection below TLS. Silence is found out here: a slow record is not silence.
type heard struct {
	net.Conn
	silence *silence
}

func (h heard) Read(into []byte) (int, error) { return h.silence.Read(into) }

// secure shakes hands with the daemon, if TLS is wanted.
func (e endpoint) secure(client *Client) error {
	if e.tls == nil {
		return nil
	}
	sealed := tls.Client(heard{client.silence.conn, &client.silence}, e.tls)
	if err := sealed.Handshake(); err != nil {
		return e.noTLS(err)
	}
	client.conn = sealed
	return nil
}

// noTLS says why there is no TLS with the daemon.
func (e endpoint) noTLS(why error) error {
	var noRecord tls.RecordHeaderError
	if errors.As(why, &noRecord) || errors.Is(why, io.EOF) || errors.Is(why, io.ErrUnexpectedEOF) {
		return fmt.Errorf("cannot connect to %s by TLS: %w: %w; is TLS spoken there?", e.address, ErrNoDaemon, why)
	}
	return fmt.Errorf("cannot connect to %s by TLS: %w", e.address, why)
}

// isAlert is whether the other end said why it refuses TLS. It refuses a certificate when this end is through already.
func isAlert(err error) bool {
	var said *net.OpError
	return errors.As(err, &said) && said.Op == "remote error"
}
