package consort

import "fmt"

// Fate is what became of a send.
type Fate uint8

const (
	// FateOrdered: it is ordered, once, and stays so.
	FateOrdered Fate = 1
	// FateRefused: it is not ordered, and never will be.
	FateRefused Fate = 2
	// FateForgotten: nobody knows, it may be ordered or not. The daemons have forgotten the producer, because too many of
	// them started anew at a time, or because it sent nothing for longer than they remember: producers_for, an hour.
	FateForgotten Fate = 3
)

var fates = []string{"", "ordered", "refused", "forgotten"}

func (f Fate) String() string { return named(fates, uint8(f)) }

// Sent tells what became of one of a Session's sends: each has exactly one.
type Sent struct {
	Send uint64
	Fate Fate
	// Place is where it is ordered; nil where only a later send's place was learned, from another daemon: it stands before
	// that.
	Place *HistoryPlace
	// Cause and Text say why it was refused.
	Cause RefusalCause
	Text  string
}

// String is what became of it, in words.
func (s *Sent) String() string {
	switch {
	case s.Fate == FateRefused:
		return fmt.Sprintf("send %d was refused: %s", s.Send, s.Text)
	case s.Place != nil:
		return fmt.Sprintf("send %d is ordered at %d of view %d", s.Send, s.Place.Position, s.Place.View)
	}
	return fmt.Sprintf("send %d is %s", s.Send, s.Fate)
}

// JoinRefused says that a Session could not join a group.
type JoinRefused struct {
	Group string
	Cause RefusalCause
	Text  string
}

// Connected says that a Session has a daemon, at first or again. Groups were joined again: messages between the loss and the
// group's next view are not received. What is read goes on where it was.
type Connected struct{ Address string }

// Lost says that a Session has its daemon no more, or left it for one that may know what was read, or have what follows;
// others are tried.
type Lost struct {
	// Err is why: a *ConnectionLostError, a *DisconnectedError, a *NotOpenedError, a *LeavingError, ErrOtherHistory or ErrLacking.
	Err error
}

// Parted says that the daemons' history is another than the one that a Session has read: behind a place that both have, or,
// where there is none, at all. No other daemon that was asked goes on either. What was read behind that place is not in it.
// The reading goes on there, or with the oldest that is retained: restore what follows from what was read.
type Parted struct {
	// Common is the first place that they have not in common. All that was read of its view before that, both have.
	Common *Place
}

// Waits says that a Session's sends wait.
type Waits struct{ For OpeningWait }

// Resumed says that a Session goes on with the producer that it was given.
type Resumed struct {
	// Known: the daemons know of the producer. Otherwise it sent nothing before, or was forgotten.
	Known bool
	// Ordered is how many of its sends are ordered, over all its sessions; nothing of earlier sessions is ordered any more.
	Ordered uint64
}

func (s *Sent) weight() int        { return 64 + len(s.Text) }
func (j *JoinRefused) weight() int { return len(j.Text) }
func (c *Connected) weight() int   { return 64 }
func (l *Lost) weight() int        { return 64 }
func (p *Parted) weight() int      { return 64 }
func (w *Waits) weight() int       { return 64 }
func (r *Resumed) weight() int     { return 64 }
