package consort

import "fmt"

// Service is what a sender asks for one message.
type Service uint8

const (
	// Reliable messages are delivered to all members that stay.
	Reliable Service = 1
	// FIFO messages come after the sender's earlier ones.
	FIFO Service = 2
	// Causal messages come after all that the sender had received or sent before.
	Causal Service = 3
	// Agreed messages stand in one total order at all members.
	Agreed Service = 4
	// Safe messages are agreed, and delivered only once every member of the view is known to hold them.
	Safe Service = 5
)

// Cause is why a group changed.
type Cause uint8

const (
	CauseJoin       Cause = 1
	CauseLeave      Cause = 2
	CauseDisconnect Cause = 3 // A client's connection to its daemon ended.
	CauseNetwork    Cause = 4 // Daemons went or came, and their clients with them.
	CausePrimary    Cause = 5 // Nobody came or went: the members have become the primary part, or are it no more.
)

// Primary is whether members may act as the primary part of the network.
type Primary uint8

const (
	PrimaryYes      Primary = 1
	PrimaryPending  Primary = 2
	PrimaryNo       Primary = 3
	PrimaryNoPolicy Primary = 4 // No policy is configured: it is not asked.
)

// RefusalCause is why a send was refused; Reason, why a session ended.
type (
	RefusalCause uint8
	Reason       uint8
)

const (
	RefusedBudget           RefusalCause = 1
	RefusedTooLarge         RefusalCause = 2
	RefusedTooManyTargets   RefusalCause = 3
	RefusedLeaving          RefusalCause = 4
	RefusedUnsupported      RefusalCause = 5
	RefusedAlreadyMember    RefusalCause = 6
	RefusedNotMember        RefusalCause = 7
	RefusedTooManyGroups    RefusalCause = 8
	RefusedClosed           RefusalCause = 9
	RefusedGroupsFull       RefusalCause = 10
	RefusedNotRepresentable RefusalCause = 11
	RefusedNotPrimary       RefusalCause = 12
	RefusedMissing          RefusalCause = 13
	RefusedFenced           RefusalCause = 14
	RefusedForgotten        RefusalCause = 15
	RefusedDenied           RefusalCause = 16
	RefusedDemoted          RefusalCause = 17
	RefusedAcrossRings      RefusalCause = 18
)

const (
	ReasonGoodbye        Reason = 1
	ReasonMalformed      Reason = 2
	ReasonVersion        Reason = 3
	ReasonSilent         Reason = 4
	ReasonSlow           Reason = 5
	ReasonStopping       Reason = 6
	ReasonNameTaken      Reason = 7
	ReasonNotAllowed     Reason = 8
	ReasonTooManyClients Reason = 9
	ReasonRestarting     Reason = 10
	ReasonSpoolFailed    Reason = 11
	ReasonDenied         Reason = 12
	ReasonUnproven       Reason = 13
	ReasonTokenMalformed Reason = 14
	ReasonTokenUnknown   Reason = 15
	ReasonTokenExpired   Reason = 16
)

var (
	services = []string{"", "reliable", "fifo", "causal", "agreed", "safe"}
	causes   = []string{"", "join", "leave", "disconnect", "network", "primary"}
	primary  = []string{"", "yes", "pending", "no", "no_policy"}
	refusals = []string{"", "budget", "too_large", "too_many_targets", "leaving", "unsupported", "already_member",
		"not_member", "too_many_groups", "closed", "groups_full", "not_representable", "not_primary", "missing", "fenced",
		"forgotten", "denied", "demoted", "across_rings"}
	reasons = []string{"", "goodbye", "malformed", "version", "silent", "slow", "stopping", "name_taken", "not_allowed",
		"too_many_clients", "restarting", "spool_failed", "denied", "unproven", "token_malformed", "token_unknown",
		"token_expired"}
)

func named(names []string, number uint8) string {
	if number > 0 && int(number) < len(names) {
		return names[number]
	}
	return fmt.Sprintf("number %d", number)
}

func (s Service) String() string      { return named(services, uint8(s)) }
func (c Cause) String() string        { return named(causes, uint8(c)) }
func (p Primary) String() string      { return named(primary, uint8(p)) }
func (c RefusalCause) String() string { return named(refusals, uint8(c)) }
func (r Reason) String() string       { return named(reasons, uint8(r)) }

// Event is what happened, in the order in which it happened: a *Message, *GroupView, *GroupSignal, *View or *Refused. A
// Session also tells *Connected, *Lost, *Sent, *JoinRefused, *Waits and *Resumed; of what it reads *ReadingBegan, *CaughtUp,
// *Gap, *Parted and *ReadingEnded.
type Event interface{ weight() int }

// Message is the next message of the order for a group this client is in.
type Message struct {
	Service Service
	// Sender is the sender's private name: a target for an answer.
	Sender       string
	SenderNode   uint16
	SenderNumber uint32
	// To has the groups and private names it was sent to.
	To      []string
	Payload []byte
	// Position is where it stands in the order; 0 where that was not asked for, nor was it read.
	Position uint64
	// Index counts the messages that were ordered as one and have that position, from 0.
	Index uint16
	// Incarnation is which incarnation of its node the sender is connected to; 0 likewise.
	Incarnation uint64
	// WasRead: a Session reads it, and does not receive it as a member.
	WasRead bool
	// next is the place that follows it.
	next Place
}

// DaemonID names one incarnation of one node.
type DaemonID struct {
	Node        uint16
	Incarnation uint64
}

// ViewID names a view. Compare for equality only.
type ViewID struct {
	Number         uint64
	Representative DaemonID
}

// GroupViewID names a membership of a group. Compare for equality only.
type GroupViewID struct {
	View   ViewID
	Change uint64
}

// Member is a client in a group.
type Member struct {
	Daemon DaemonID
	Number uint32
	Name   string
	// Set is the same for members that moved together: they received the same messages since the group view before.
	Set uint16
}

// PrivateName is the name by which the member is sent to alone.
func (m Member) PrivateName() string { return privateName(m.Name, m.Daemon.Node) }

func privateName(name string, node uint16) string { return fmt.Sprintf("#%s#n%d", name, node) }

// GroupView says that a group this client is in changed, here in the order.
type GroupView struct {
	Group   string
	ID      GroupViewID
	Closed  bool
	Primary Primary
	Cause   Cause
	// Changed has those that came or went: who of them is a member came.
	Changed []Member
	Members []Member
}

// GroupSignal says that some members of a group do not move along into the next view.
type GroupSignal struct {
	Group string
	ID    GroupViewID
}

// View says that the network changed, here in the order.
type View struct {
	ID            ViewID
	Transitional  bool
	Primary       Primary
	Members       []DaemonID
	MovedTogether []DaemonID
	Text          string
}

// Refused says that one send was not taken, or changed nothing. With Send 0 and RefusedDenied the rules have changed: this
// client is made to leave a group, as the group's next view shows. With RefusedDemoted it is made to because it does not read.
type Refused struct {
	Send  uint64
	Cause RefusalCause
	Text  string
}

func (m *Message) weight() int     { return len(m.Payload) }
func (v *GroupView) weight() int   { return 64 * len(v.Members) }
func (s *GroupSignal) weight() int { return 64 }
func (v *View) weight() int        { return 32 * len(v.Members) }
func (r *Refused) weight() int     { return len(r.Text) }
