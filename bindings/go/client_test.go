package consort

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"math/rand"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// welcomeOfBob is the welcome of the protocol page's example: node 1, client 2, "bob", 16 MiB, 256 KiB, 1000 groups.
const welcomeOfBob = "0000002b810002000100000000000000650000000000000002000000020002" + "6e3103626f62" + "010000000004000003e8"

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	decoded, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

// unhexed is the same of a text that is right.
func unhexed(text string) []byte {
	decoded, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		panic(err)
	}
	return decoded
}

// daemon plays a daemon that says these bytes, reads what comes, and closes when told.
func daemon(t *testing.T, says []byte) (address string, heard func(int) []byte, closes func()) {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	conns := make(chan net.Conn, 1)
	// A connection that nobody knows of any more would be closed.
	t.Cleanup(func() { runtime.KeepAlive(conns) })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Write(says)
		conns <- conn
	}()
	var conn net.Conn
	get := func() net.Conn {
		if conn == nil {
			conn = <-conns
		}
		return conn
	}
	heard = func(count int) []byte {
		read := make([]byte, count)
		_ = get().SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.ReadFull(get(), read); err != nil {
			t.Fatalf("only %x came: %v", read, err)
		}
		return read
	}
	return listener.Addr().String(), heard, func() { _ = get().Close() }
}

func within(t *testing.T, span time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), span)
	t.Cleanup(cancel)
	return ctx
}

func long(t *testing.T) context.Context { return within(t, 20*time.Second) }

// The bytes are those of the protocol page, section 6.
func TestASessionOfTheProtocolPageByteForByte(t *testing.T) {
	says := unhex(t, welcomeOfBob+
		"0000004e850167 0000000000000001 0000 0000000000000064 0000000000000001 000101"+
		"00000001 00010000000000000065 00000002 03626f62 00000001 00010000000000000065 00000002 03626f62 0000"+
		"00000011 94 0001 00000002 03626f62 0001 0167 6869"+
		"00000019 82 0000000000000002 0000000000000002 0000000000000012")
	address, heard, closes := daemon(t, says[:0x2b+4])
	_ = closes
	bob, err := Dial(long(t), address, Options{Name: "bob", DaemonTimeout: Forever})
	if err != nil {
		t.Fatal(err)
	}
	if got := heard(32); !bytes.Equal(got, unhex(t, "0000001c01c04ec11e0002 00 03626f62 0000000000000000 0000000000000000")) {
		t.Fatalf("hello: %x", got)
	}
	if number, err := bob.Join(long(t), "g"); number != 1 || err != nil {
		t.Fatal(number, err)
	}
	if number, err := bob.Multicast(long(t), Agreed, []string{"g"}, []byte("hi")); number != 2 || err != nil {
		t.Fatal(number, err)
	}
	if got := heard(7 + 11); !bytes.Equal(got, unhex(t, "00000003020167 00000007140001 0167 6869")) {
		t.Fatalf("requests: %x", got)
	}
}

func TestEventsOfTheProtocolPage(t *testing.T) {
	address, _, closes := daemon(t, unhex(t, welcomeOfBob+
		"0000004e850167 0000000000000001 0000 0000000000000064 0000000000000001 000101"+
		"00000001 00010000000000000065 00000002 03626f62 00000001 00010000000000000065 00000002 03626f62 0000"+
		"00000011 94 0001 00000002 03626f62 0001 0167 6869"))
	bob, err := Dial(long(t), address, Options{})
	if err != nil {
		t.Fatal(err)
	}
	event, err := bob.Receive(long(t))
	view, is := event.(*GroupView)
	if !is || view.Group != "g" || len(view.Members) != 1 || view.Members[0].PrivateName() != "#bob#n1" || view.Primary != PrimaryYes {
		t.Fatalf("%+v, %v", event, err)
	}
	event, err = bob.Receive(long(t))
	message, is := event.(*Message)
	if !is || message.Sender != "#bob#n1" || message.Service != Agreed || string(message.Payload) != "hi" || message.To[0] != "g" {
		t.Fatalf("%+v, %v", event, err)
	}
	closes()
	var lost *ConnectionLostError
	if _, err = bob.Receive(long(t)); !errors.As(err, &lost) || lost.Count != 0 {
		t.Fatal(err)
	}
	if _, open := <-bob.Events(); open || !errors.As(bob.Err(), &lost) {
		t.Fatal(bob.Err())
	}
}

// No byte of a daemon's may harm the program: whatever comes, the session ends with a reason, or goes on.
func TestDamagedEventsEndTheSessionAndNothingElse(t *testing.T) {
	whole := unhex(t, "0000004e850167 0000000000000001 0000 0000000000000064 0000000000000001 000101"+
		"00000001 00010000000000000065 00000002 03626f62 00000001 00010000000000000065 00000002 03626f62 0000"+
		"00000011 94 0001 00000002 03626f62 0001 0167 6869"+
		"0000001f b4 0001 00000002 03626f62 00000007140001 0167 6869 00000005140001 0167"+
		"0000000b fc 0001 0000000000000065"+"00000019 c4 0000000000000009 0001 00000002 03626f62 0001 0167 6869"+
		"00000006 88050002736f")
	client := &Client{left: make(chan struct{}), changed: make(chan struct{})}
	var slow *DisconnectedError
	if err := readAll(client, whole); !errors.As(err, &slow) || slow.Reason != ReasonSlow || len(client.queue) != 5 {
		t.Fatal(err, len(client.queue))
	}
	placed := client.queue[4].(*Message)
	if placed.Position != 9 || placed.Incarnation != 0x65 || string(client.queue[2].(*Message).Payload) != "hi" {
		t.Fatalf("%+v", placed)
	}
	err := readAll(client, unhex(t, "00000006 88 0b 0002 736f"))
	if !errors.As(err, &slow) || slow.Reason != ReasonSpoolFailed || slow.Reason.String() != "spool_failed" {
		t.Fatal(err)
	}
	chance := rand.New(rand.NewSource(1))
	for round := 0; round < 20_000; round++ {
		damaged := bytes.Clone(whole)
		for range 1 + round%4 {
			damaged[chance.Intn(len(damaged))] = byte(chance.Intn(256))
		}
		client := &Client{left: make(chan struct{}), changed: make(chan struct{})}
		if err := readAll(client, damaged); err == nil {
			t.Fatal("the bytes have an end")
		}
	}
}

// readAll handles frames until something ends the session.
func readAll(client *Client, frames []byte) error {
	from, incarnations := bytes.NewReader(frames), map[uint16]uint64{}
	for {
		kind, body, err := readFrame(from, 1<<16)
		if err == nil {
			err = client.handle(kind, body, incarnations)
		}
		if err != nil {
			return err
		}
	}
}

func TestSendsWaitForCreditAsLongAsTheContextAllows(t *testing.T) {
	address, heard, closes := daemon(t, unhex(t, welcomeOfBob))
	bob, err := Dial(long(t), address, Options{Name: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	heard(36)
	large := make([]byte, 300<<10)
	if number, err := bob.Multicast(long(t), Safe, []string{"g"}, large); number != 1 || err != nil {
		t.Fatal("larger than all credit, and nothing is under way: ", err)
	}
	if _, err := bob.Multicast(within(t, 30*time.Millisecond), Safe, []string{"g"}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := bob.WaitOrdered(within(t, 30*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	go closes()
	err = bob.WaitOrdered(long(t))
	var lost *ConnectionLostError
	if !errors.As(err, &lost) || lost.UnknownFate != (UnknownFate{First: 1, Count: 1}) {
		t.Fatal(err)
	}
	if !strings.Contains(err.Error(), "the fate of send 1 is unknown") {
		t.Fatal(err)
	}
}

func TestStrangersAreTold(t *testing.T) {
	for says, why := range map[string]error{
		hex.EncodeToString([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")): ErrNoDaemon,
		"00000001 87": ErrNoDaemon,
		strings.Replace(welcomeOfBob, "810002", "810003", 1): ErrNoDaemon,
		"": context.DeadlineExceeded,
	} {
		address, _, _ := daemon(t, unhex(t, says))
		ctx := within(t, 200*time.Millisecond)
		if client, err := Dial(ctx, address, Options{}); client != nil || !errors.Is(err, why) {
			t.Errorf("%q: %v", says, err)
		}
	}
	address, _, _ := daemon(t, unhex(t, "00000009 88 07 0005 74616b656e"))
	var refused *NotWelcomeError
	if _, err := Dial(long(t), address, Options{}); !errors.As(err, &refused) || refused.Reason != ReasonNameTaken || refused.Text != "taken" {
		t.Fatal(err)
	}
}

func TestNamesAndAddressesAreChecked(t *testing.T) {
	for _, name := range []string{"", "#g", "a b", "t\u00e9", strings.Repeat("x", 65), "#bob", "#bob#1", "#bob#n01", "#bob#n65536", "##n1", "#b b#n1"} {
		if err := checkTarget(name); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"g", "a#", strings.Repeat("x", 64), "#bob#n1", "#bob#n65535"} {
		if err := checkTarget(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, address := range []string{"", "nowhere", ":4840", "host:http", "host:70000", "unix:"} {
		if _, err := Dial(long(t), address, Options{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", address, err)
		}
	}
	for address, kind := range map[string]string{"/run/x": "unix", "unix:x": "unix", "[::1]:4840": "tcp", "tcp:host:1": "tcp"} {
		if got, _, err := network(address); got != kind || err != nil {
			t.Errorf("%q: %s, %v", address, got, err)
		}
	}
}

// The bytes of docs/session-protocol.md.
func TestTokenIsShownInHello(t *testing.T) {
	want := "0000002001c04ec11e00028003626f620000000000000000000000000000000003616263"
	if got := hex.EncodeToString(hello(Options{Name: "bob", Token: "abc"}, 0)); got != want {
		t.Fatalf("hello is %s, not %s", got, want)
	}
}
