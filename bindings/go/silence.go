package consort

import (
	"errors"
	"net"
	"os"
	"time"
)

const (
	// silenceLeast and silenceMost bound how long a daemon may be silent.
	silenceLeast, silenceMost = time.Second, 6 * time.Hour
	// hostSilence and daemonSilence are what holds where nothing is said.
	hostSilence, daemonSilence = 2 * time.Second, 10 * time.Second
	// silenceSteps is how many parts of the bound are waited for one by one.
	silenceSteps = 8
	// silenceBeats is how often in that time the daemon is to say that it is at work.
	silenceBeats = 4
)

// silenceAt is how long a daemon at such an address may be silent; 0 for ever.
func (o Options) silenceAt(kind string) (time.Duration, error) {
	host, err := silenceOf("HostTimeout", o.HostTimeout, hostSilence)
	if err != nil {
		return 0, err
	}
	if o.DaemonTimeout == Forever {
		o.DaemonTimeout = 0
	} else if o.DaemonTimeout, err = silenceOf("DaemonTimeout", o.DaemonTimeout, daemonSilence); err != nil {
		return 0, err
	}
	if kind == "unix" {
		return o.DaemonTimeout, nil
	}
	return host, nil
}

func silenceOf(option string, given, unsaid time.Duration) (time.Duration, error) {
	switch {
	case given == 0:
		return unsaid, nil
	case given < silenceLeast || given > silenceMost:
		return 0, invalid("%s is %v; give a time from 1s to 6h", option, given)
	}
	return given, nil
}

// silence reads from a daemon, and finds out that nothing is heard any more of one that promised to say something now and
// then.
//
// Only the time in which it is read counts. Bytes wait in the socket for a program that does something else for long, so
// the next read finds them; and a pause of this program, however long, counts as one step, for what was sent meanwhile may
// be still on its way.
type silence struct {
	conn net.Conn
	// bound is how long the daemon may be silent; 0 for ever.
	bound time.Duration
	// armed: the daemon has shown that it tells heartbeats.
	armed bool
}

func (s *silence) Read(into []byte) (int, error) {
	if s.bound == 0 || !s.armed {
		return s.conn.Read(into)
	}
	for range silenceSteps {
		if err := s.conn.SetReadDeadline(time.Now().Add(s.bound / silenceSteps)); err != nil {
			return 0, err
		}
		count, err := s.conn.Read(into)
		if count > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return count, err
		}
	}
	return 0, &SilenceError{Silence: s.bound}
}
