package consort

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"
)

// Options say how a client connects.
type Options struct {
	// Name is what the client is called, which no other client of the daemon may be; the daemon finds one where it is empty.
	Name string
	// Views asks for views of the network.
	Views bool
	// Positions asks for the position of each message, and its sender's incarnation.
	Positions bool
	// Token proves who the client is, where the daemon asks for it; `consort token` makes it. Empty for none, 160 bytes at
	// most. Whoever reads it on its way can show it, too. At a Unix socket it is shown only to a daemon that runs as this
	// user, as root, or as the user who alone may write to the socket's directory; with any other daemon, connecting fails
	// with an UntrustedDaemonError.
	Token string
	// HostTimeout is how long a daemon at a TCP address may be silent before the connection is given up, as a
	// ConnectionLostError whose cause is a SilenceError: 1 s to 6 h, 2 s where it is 0. Its machine has vanished then, or
	// the daemon is stopped for that long. The daemon says something four times in that time, so that a stop of half of it
	// is never too long. A daemon of an earlier release promises to say nothing, and is not given up.
	HostTimeout time.Duration
	// DaemonTimeout is the same for a daemon of this machine, at a Unix socket: 1 s to 6 h, 10 s where it is 0, and Forever.
	// It is stopped then, or hangs: a daemon that ends is noticed at once.
	DaemonTimeout time.Duration
	// TLS has TLS 1.3 spoken with a daemon at a TCP address of its listen_tls: RootCAs is whom to believe, Certificates what
	// the client shows. Earlier versions are never spoken, and ServerName is the address's host where it is empty. nil has
	// none spoken. A Unix socket has no TLS.
	TLS *tls.Config
}

// Forever, as a DaemonTimeout, has the daemon be silent for as long as it likes.
const Forever time.Duration = -1

// Dial connects to a daemon and opens a session: at a path of a Unix socket, with a slash in it, or at host:port.
func Dial(ctx context.Context, address string, options Options) (*Client, error) {
	endpoint, err := options.endpoint(address)
	if err != nil {
		return nil, err
	}
	client, err := endpoint.dial(ctx)
	if err != nil {
		return nil, err
	}
	go client.pump()
	return client, nil
}

// endpoint is where a daemon lets clients in, and what is asked of it there.
type endpoint struct {
	kind, at, address string
	options           Options
	// silence is how long the daemon may be silent; 0 for ever.
	silence time.Duration
	// tls is how TLS is spoken; nil where it is not.
	tls *tls.Config
	// roams: a Session connects.
	roams bool
}

// endpoint checks what was given; nobody is connected to.
func (o Options) endpoint(address string) (endpoint, error) {
	kind, at, err := network(address)
	if err != nil {
		return endpoint{}, err
	}
	if o.Name != "" && !isClient(o.Name) {
		return endpoint{}, invalid("%q is no name for a client: use 1 to %d printable ASCII characters, no space, no `#`", o.Name, clientMax)
	}
	silence, err := o.silenceAt(kind)
	if err != nil {
		return endpoint{}, err
	}
	sealed, err := o.tlsAt(kind, at, address)
	return endpoint{kind: kind, at: at, address: address, options: o, silence: silence, tls: sealed}, err
}

// dial connects to the daemon.
func (e endpoint) dial(ctx context.Context) (*Client, error) {
	client, err := e.enter(ctx)
	var refused *NotWelcomeError
	if e.silence > 0 && errors.As(err, &refused) && refused.Reason == ReasonMalformed {
		// So says a daemon of an earlier release, which knows no heartbeats.
		e.silence = 0
		return e.enter(ctx)
	}
	return client, err
}

// enter connects once.
func (e endpoint) enter(ctx context.Context) (*Client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, e.kind, e.at)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %w; is a daemon running there?", e.address, err)
	}
	// A context that ends makes whatever is being read or written late.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	client, from, err := e.open(conn)
	if !stop() {
		err = fmt.Errorf("%s did not let us in in time: %w", e.address, context.Cause(ctx))
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	go client.write()
	go client.read(from)
	return client, nil
}

// hello is what such a client says first; it asks for heartbeats where a daemon may not be silent for ever.
func hello(options Options, silence time.Duration) []byte {
	var flags byte
	if options.Views {
		flags |= 1
	}
	if options.Positions {
		flags |= 16
	}
	if silence > 0 {
		flags |= 32
	}
	if options.Token != "" {
		flags |= 128
	}
	return frame(kindHello, func(bytes []byte) []byte {
		bytes = binary.BigEndian.AppendUint32(bytes, magic)
		bytes = append(binary.BigEndian.AppendUint16(bytes, version), flags)
		bytes = append(appendName(bytes, options.Name), make([]byte, 16)...)
		if silence > 0 {
			bytes = binary.BigEndian.AppendUint32(bytes, uint32((silence / silenceBeats).Milliseconds()))
		}
		if options.Token != "" {
			bytes = appendName(bytes, options.Token)
		}
		return bytes
	})
}

// open checks who may see a token, shakes hands where TLS is wanted, says hello, and reads the answer.
func (e endpoint) open(conn net.Conn) (*Client, *bufio.Reader, error) {
	if err := e.checkUser(conn); err != nil {
		return nil, nil, err
	}
	noDaemon := func(why any) error { return fmt.Errorf("%s: %w: %v", e.address, ErrNoDaemon, why) }
	client := &Client{silence: silence{conn: conn, bound: e.silence}, roams: e.roams}
	client.conn = heard{conn, &client.silence}
	if err := e.secure(client); err != nil {
		return nil, nil, err
	}
	// Where it cannot be said, what the daemon said last tells more.
	_, unsaid := client.conn.Write(hello(e.options, e.silence))
	from := bufio.NewReaderSize(client.conn, 64<<10)
	kind, body, err := readFrame(from, textMax)
	switch {
	case isAlert(err):
		return nil, nil, e.noTLS(err)
	case err != nil && unsaid != nil:
		return nil, nil, noDaemon(unsaid)
	case err != nil:
		return nil, nil, noDaemon(err)
	}
	r := &reader{bytes: body}
	switch kind {
	case kindDisconnect:
		return nil, nil, &NotWelcomeError{Reason: Reason(r.u8()), Text: r.text()}
	case kindWelcome:
	default:
		return nil, nil, noDaemon(fmt.Sprintf("it began with an event of kind %#x", kind))
	}
	if spoken := r.u16(); spoken != version {
		return nil, nil, noDaemon(fmt.Sprintf("it speaks version %d, this client version %d; use those of one release", spoken, version))
	}
	w := welcome{daemon: r.daemon()}
	r.u64()
	w.number = r.u32()
	r.text()
	w.name, w.messageMax, w.creditMax, w.groupsMax = r.name(), r.u32(), r.u32(), r.u16()
	if err := r.done("welcome"); err != nil {
		return nil, nil, noDaemon(err)
	}
	client.welcome, client.events = w, make(chan Event)
	client.left, client.changed = make(chan struct{}), make(chan struct{})
	return client, from, nil
}

type welcome struct {
	daemon                DaemonID
	number                uint32
	name                  string
	messageMax, creditMax uint32
	groupsMax             uint16
}
