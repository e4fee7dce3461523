package consort

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const beat = "00000001 80"

// serve has a function play the daemon of each connection, one after the other, at an address of that kind.
func serve(t *testing.T, kind string, play func(net.Conn)) string {
	t.Helper()
	at := "127.0.0.1:0"
	if kind == "unix" {
		at = filepath.Join(t.TempDir(), "socket")
	}
	listener, err := net.Listen(kind, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			play(conn)
		}
	}()
	return listener.Addr().String()
}

// say plays a daemon that lets the client in, says this, and waits until the client has left.
func say(t *testing.T, text string) func(net.Conn) {
	says := unhex(t, welcomeOfBob+text)
	return func(conn net.Conn) {
		_, _ = conn.Write(says)
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}
}

func TestADaemonThatFallsSilentIsGivenUp(t *testing.T) {
	options := Options{HostTimeout: time.Second, DaemonTimeout: time.Second}
	for _, kind := range []string{"unix", "tcp"} {
		bob, err := Dial(long(t), serve(t, kind, say(t, beat)), options)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bob.Join(long(t), "g"); err != nil {
			t.Fatal(err)
		}
		_, received := bob.Receive(long(t))
		var lost *ConnectionLostError
		var silent *SilenceError
		for _, err := range []error{received, bob.WaitOrdered(long(t)), bob.Err()} {
			if !errors.As(err, &lost) || !errors.As(err, &silent) || silent.Silence != time.Second || lost.Count != 1 {
				t.Fatalf("%s: %v", kind, err)
			}
			if !strings.Contains(err.Error(), "(timed out: nothing was heard of the daemon or its machine for 1s); the fate of send 1") {
				t.Fatal(err)
			}
		}
	}
}

// steps is a connection on which a letter comes for each `x`, and nothing in time for each `.`.
type steps struct {
	net.Conn
	script string
	waited []time.Duration
}

func (s *steps) SetReadDeadline(at time.Time) error {
	s.waited = append(s.waited, time.Until(at))
	return nil
}

func (s *steps) Read(into []byte) (int, error) {
	if s.script == "" {
		return 0, io.EOF
	}
	next := s.script[0]
	s.script = s.script[1:]
	if next == '.' {
		return 0, os.ErrDeadlineExceeded
	}
	return copy(into, "x"), nil
}

func TestSilenceIsCountedInSteps(t *testing.T) {
	var silent *SilenceError
	for script, isOver := range map[string]bool{
		"........x":                    true,
		".......x.......x.......x":     false,
		".......x........":             true,
		"xxxx........":                 true,
		strings.Repeat(".......x", 20): false,
	} {
		conn := &steps{script: script}
		_, err := io.ReadAll(&silence{conn: conn, bound: 2 * time.Second, armed: true})
		if errors.As(err, &silent) != isOver || !isOver && err != nil {
			t.Errorf("%q: %v", script, err)
		}
		for _, waited := range conn.waited {
			if waited > 250*time.Millisecond {
				t.Errorf("%q waits for %v at once", script, waited)
			}
		}
	}
	for _, reads := range []*silence{{bound: time.Second}, {armed: true}} {
		conn := &steps{script: "x"}
		reads.conn = conn
		if _, err := io.ReadAll(reads); err != nil || len(conn.waited) != 0 {
			t.Errorf("silence means something where nobody promised to speak, or nobody minds: %v", err)
		}
	}
}

func TestHeartbeatsAreAskedForWhereSilenceHasABound(t *testing.T) {
	for bound, want := range map[time.Duration]string{
		0:               "0000001c01c04ec11e00020003626f6200000000000000000000000000000000",
		2 * time.Second: "0000002001c04ec11e00022003626f6200000000000000000000000000000000000001f4",
		6 * time.Hour:   "0000002001c04ec11e00022003626f6200000000000000000000000000000000005265c0",
	} {
		if got := hex.EncodeToString(hello(Options{Name: "bob"}, bound)); got != want {
			t.Errorf("%v: hello is %s, not %s", bound, got, want)
		}
	}
	want := "0000002401c04ec11e0002a003626f6200000000000000000000000000000000000000fa03616263"
	if got := hex.EncodeToString(hello(Options{Name: "bob", Token: "abc"}, time.Second)); got != want {
		t.Errorf("hello is %s, not %s", got, want)
	}
}

func TestADaemonOfAnEarlierReleaseIsAskedForNone(t *testing.T) {
	hellos := make(chan []byte, 9)
	lets, refuses := say(t, ""), unhex(t, "00000012 88 02 000e 6d616c666f726d65642c20736179")
	address := serve(t, "unix", func(conn net.Conn) {
		hello := make([]byte, 64)
		count, _ := conn.Read(hello)
		hello = hello[:count]
		hellos <- hello
		if hello[11]&32 == 0 {
			lets(conn)
			return
		}
		_, _ = conn.Write(refuses)
		_ = conn.Close()
	})
	bob, err := Dial(long(t), address, Options{})
	if err != nil {
		t.Fatal(err)
	}
	without := hello(Options{}, 0)
	if first, second := <-hellos, <-hellos; first[11] != 32 || !bytes.Equal(second, without) || bob.silence.bound != 0 {
		t.Fatalf("%x, then %x", first, second)
	}
}

func TestTimesOutOfRangeAreRefusedByName(t *testing.T) {
	for options, says := range map[Options]string{
		{HostTimeout: 999 * time.Millisecond}:        "HostTimeout is 999ms; give a time from 1s to 6h",
		{HostTimeout: 6*time.Hour + 1}:               "HostTimeout is 6h0m0.000000001s; give",
		{HostTimeout: Forever}:                       "HostTimeout is -1ns; give",
		{DaemonTimeout: 1}:                           "DaemonTimeout is 1ns; give",
		{DaemonTimeout: -time.Second}:                "DaemonTimeout is -1s; give",
		{HostTimeout: 1, DaemonTimeout: time.Second}: "HostTimeout is 1ns; give",
	} {
		for _, address := range []string{"/nonexistent/socket", "127.0.0.1:1"} {
			if _, err := Dial(long(t), address, options); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), says) {
				t.Errorf("%+v: %v", options, err)
			}
		}
	}
	for _, good := range []struct {
		kind    string
		options Options
		bound   time.Duration
	}{
		{"tcp", Options{}, 2 * time.Second},
		{"unix", Options{}, 10 * time.Second},
		{"tcp", Options{HostTimeout: time.Second, DaemonTimeout: Forever}, time.Second},
		{"unix", Options{HostTimeout: time.Second, DaemonTimeout: Forever}, 0},
		{"unix", Options{DaemonTimeout: 6 * time.Hour}, 6 * time.Hour},
	} {
		if bound, err := good.options.silenceAt(good.kind); bound != good.bound || err != nil {
			t.Errorf("%+v: %v, %v", good, bound, err)
		}
	}
}
