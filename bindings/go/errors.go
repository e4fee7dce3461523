package consort

import (
	"errors"
	"fmt"
	"time"
)

// Errors that a caller may want to tell apart, with errors.Is.
var (
	// ErrClosed: the client or the session was closed.
	ErrClosed = errors.New("this client was closed; connect anew")
	// ErrInvalid: an argument is no name, no address or no service. Nothing was done.
	ErrInvalid = errors.New("invalid argument")
	// ErrTooLarge: the payload is larger than this cluster allows. It was not sent.
	ErrTooLarge = errors.New("too large")
	// ErrTargets: to no group, or to more than a message may name. It was not sent.
	ErrTargets = errors.New("wrong number of targets")
	// ErrNoDaemon: something answers there, but not as a daemon does.
	ErrNoDaemon = errors.New("it does not answer like a Consort daemon")
	// ErrUnread: so many events of a Session wait to be received that it waits for nothing else. Nothing was sent.
	ErrUnread = errors.New("64 MiB of events wait to be received; receive them first")
	// ErrTakenOver: another Session sends as this one's producer. What had no fate may be ordered, and is known to that one.
	ErrTakenOver = errors.New("another session sends as this one's producer; nothing more is sent here")
	// ErrOtherHistory: the daemon was not there when what a Session has read was ordered, so it was left for others.
	ErrOtherHistory = errors.New("the daemon was not there when what was read was ordered; others are asked")
	// ErrLacking: the daemon lacks what follows behind what a Session has read, so it was left for others.
	ErrLacking = errors.New("the daemon lacks what follows behind what was read; others are asked")
)

// UnknownFate tells the sends that may be ordered still, or never: those above First-1, Count of them.
type UnknownFate struct{ First, Count uint64 }

func (u UnknownFate) String() string {
	switch u.Count {
	case 0:
		return "there is no send of unknown fate"
	case 1:
		return fmt.Sprintf("the fate of send %d is unknown", u.First)
	default:
		return fmt.Sprintf("the fate of sends %d to %d is unknown", u.First, u.First+u.Count-1)
	}
}

// NotWelcomeError says that the daemon refused the session.
type NotWelcomeError struct {
	Reason Reason
	Text   string
}

func (e *NotWelcomeError) Error() string { return "the daemon refused the session: " + e.Text }

// UntrustedDaemonError says that Options.Token was not shown, because the daemon at a Unix socket runs as another user, who may
// have put the socket there to be shown it. Nothing was written. A Session goes on at the next daemon.
type UntrustedDaemonError struct {
	Address string
	// User is the number of the user as whom the daemon runs.
	User uint32
}

func (e *UntrustedDaemonError) Error() string {
	return fmt.Sprintf("no token is shown to the daemon at %s: it runs as user %d, which is neither this user nor root, nor the "+
		"only one who may write to the socket's directory", e.Address, e.User)
}

// DisconnectedError says that the daemon ended the session.
type DisconnectedError struct {
	Reason Reason
	Text   string
	UnknownFate
}

func (e *DisconnectedError) Error() string {
	return fmt.Sprintf("the daemon ended the session: %s; %s", e.Text, e.UnknownFate)
}

// ConnectionLostError says that the connection to the daemon broke.
type ConnectionLostError struct {
	Cause error
	UnknownFate
}

func (e *ConnectionLostError) Error() string {
	return fmt.Sprintf("the connection to the daemon was lost (%v); %s", e.Cause, e.UnknownFate)
}

func (e *ConnectionLostError) Unwrap() error { return e.Cause }

// SilenceError says that nothing was heard of the daemon, or of its machine, for as long as Options allow. It is the cause of
// a ConnectionLostError.
type SilenceError struct{ Silence time.Duration }

func (e *SilenceError) Error() string {
	return fmt.Sprintf("timed out: nothing was heard of the daemon or its machine for %v", e.Silence)
}

// UnreachableError says that no daemon of a Session could be reached for as long as its options allow. The fate of its last
// sends is unknown.
type UnreachableError struct {
	Within time.Duration
	// Last is what the last attempt met with.
	Last error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no daemon could be reached within %v: %v", e.Within, e.Last)
}

func (e *UnreachableError) Unwrap() error { return e.Last }

// LeavingError says that a daemon is leaving and takes no more. A Session goes on at the next.
type LeavingError struct {
	// Text is the daemon's own.
	Text string
}

func (e *LeavingError) Error() string {
	return "the daemon is leaving and takes no more: " + e.Text
}

// NotOpenedError says that no daemon keeps account of what a Session sends.
type NotOpenedError struct {
	Cause OpeningCause
	Text  string
}

func (e *NotOpenedError) Error() string {
	return "the daemons cannot keep account of what this session sends: " + e.Text
}

func invalid(format string, words ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, words...))
}
