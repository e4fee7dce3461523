/* Consort: ordered, reliable multicast. A client of a Consort daemon, for C and C++.
 *
 * Calls return a consort_code. Where one is neither CONSORT_OK nor CONSORT_NOTHING, consort_last_error() tells in
 * words what is wrong and what to do. No call ends the program.
 *
 * Threads. A consort_client or consort_session serves one thread at a time. It may pass from thread to thread. A call
 * while another one runs on the same one returns CONSORT_BUSY and does nothing. consort_split() makes two clients of
 * one: one thread sends, another receives. Options and events likewise serve one thread at a time; different ones need
 * no care. Errors are kept by thread. No call may run while the same object is being freed.
 *
 * Processes. A client or session belongs to the process that made it. In a child of fork() each call on it returns
 * CONSORT_FORKED and does nothing, and freeing it closes the child's own descriptors alone; the parent goes on as if there
 * were no child. A child makes clients of its own. It should free those of its parent, or call exec: while it holds a connection,
 * the daemon does not notice that a parent ended without closing it.
 *
 * Pointers. What is not null must point to what its type says: texts end with a zero byte, arrays have as many
 * elements as are said, objects were made by this library and are not freed yet. Null is refused with
 * CONSORT_INVALID, except where it is said to mean something; freeing null does nothing. Texts and payloads that an
 * object returns live as long as the object.
 *
 * Times are milliseconds; a negative one means as long as it takes.
 */


#ifndef CONSORT_H
#define CONSORT_H

/* Made by cbindgen from bindings/c/src: CONSORT_HEADER=write cargo test -p consort-c */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// So many bytes hold any bookmark, with the zero byte at its end.
#define CONSORT_BOOKMARK_MAX 2048

// What a call came to.
enum consort_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // It is done.
  CONSORT_OK = 0,
  // Nothing came in time. That is no failure.
  CONSORT_NOTHING = 1,
  // An argument is null, no name, no text, or out of range. Nothing was done.
  CONSORT_INVALID = 2,
  // Another thread uses this client or session. Nothing was done.
  CONSORT_BUSY = 3,
  // This half of a client that was split does not do that, or the client or session was closed. Nothing was done.
  CONSORT_WRONG_HALF = 4,
  // It cannot be had here, as the text says.
  CONSORT_UNSUPPORTED = 5,
  // No connection came about.
  CONSORT_CANNOT_CONNECT = 6,
  // Something answers there, but not as a daemon does.
  CONSORT_NO_DAEMON = 7,
  // The daemon refused the session: consort_last_reason().
  CONSORT_NOT_WELCOME = 8,
  // The time allowed was not enough. A send that was waited with was not sent.
  CONSORT_TIMED_OUT = 9,
  // Too many bytes are under way for this send to follow now. It was not sent.
  CONSORT_WOULD_BLOCK = 10,
  // The payload is larger than this cluster allows. It was not sent.
  CONSORT_TOO_LARGE = 11,
  // To no group, or to more than a message may name. It was not sent.
  CONSORT_TARGETS = 12,
  // Too many events wait to be received. Receive them before sending more.
  CONSORT_UNREAD = 13,
  // The half that receives was freed, so nobody hears of free credit.
  CONSORT_NOBODY_RECEIVES = 14,
  // The connection to the daemon broke: consort_last_unknown_fate().
  CONSORT_CONNECTION_LOST = 15,
  // The daemon ended the session: consort_last_reason(), consort_last_unknown_fate().
  CONSORT_DISCONNECTED = 16,
  // A fault of this library. Free the client; it does nothing any more.
  CONSORT_INTERNAL = 17,
  // No daemon of a session could be reached for as long as was allowed. Its sends are of unknown fate.
  CONSORT_UNREACHABLE = 18,
  // Another session sends as this one's producer. Nothing more is sent here.
  CONSORT_TAKEN_OVER = 19,
  // The daemons cannot keep account of what a session sends, as the text says.
  CONSORT_NOT_OPENED = 20,
  // The client or session is the parent's of this process: make one here after fork(). Nothing was done.
  CONSORT_FORKED = 21,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum consort_code consort_code;
#else
typedef int32_t consort_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What kind of event.
enum consort_event_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // None: the event is null.
  CONSORT_EVENT_NONE = 0,
  // The next message of the order for a group this client is in.
  CONSORT_EVENT_MESSAGE = 1,
  // A group this client is in changed, here in the order.
  CONSORT_EVENT_GROUP_VIEW = 2,
  // Some members of a group do not move along into the next view: what follows until the next group view is promised
  // only among those that do.
  CONSORT_EVENT_GROUP_SIGNAL = 3,
  // The network changed, here in the order.
  CONSORT_EVENT_VIEW = 4,
  // One send was not taken, or changed nothing.
  CONSORT_EVENT_REFUSED = 5,
  // One that this version of the library does not tell. Ignore it.
  CONSORT_EVENT_OTHER = 6,
  // The next message of a reading: consort_read(). Told as CONSORT_EVENT_MESSAGE otherwise.
  CONSORT_EVENT_READ = 7,
  // A reading begins: the messages follow.
  CONSORT_EVENT_READING_BEGAN = 8,
  // All that there was is read; messages that follow are new.
  CONSORT_EVENT_CAUGHT_UP = 9,
  // What stands from one place to another cannot be read any more; that one is not included. The reading goes on there.
  CONSORT_EVENT_GAP = 10,
  // A reading was refused, or is over.
  CONSORT_EVENT_READING_ENDED = 11,
  // What became of a session's send: one for each.
  CONSORT_EVENT_SENT = 12,
  // A session's join was refused.
  CONSORT_EVENT_JOIN_REFUSED = 13,
  // A session is connected, at first or again. Groups were joined again: messages between the loss and the group's next
  // view are not received. What is read goes on where it was.
  CONSORT_EVENT_CONNECTED = 14,
  // A session's connection was lost, or left for a daemon that may know what was read; others are tried.
  CONSORT_EVENT_LOST = 15,
  // The daemons' history is another than the one that a session read: behind a place that both have, or, where there is
  // none, at all. What was read behind it is not in theirs. The reading goes on there, or with the oldest that is
  // retained.
  CONSORT_EVENT_PARTED = 16,
  // A session's sends wait.
  CONSORT_EVENT_WAITS = 17,
  // A session goes on with the producer that it was given.
  CONSORT_EVENT_RESUMED = 18,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum consort_event_kind consort_event_kind;
#else
typedef int32_t consort_event_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a sender asks for one message.
enum consort_service
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Delivered to all members that stay.
  CONSORT_RELIABLE = 1,
  // After the sender's earlier messages.
  CONSORT_FIFO = 2,
  // After all messages that the sender had received or sent before.
  CONSORT_CAUSAL = 3,
  // In one total order at all members.
  CONSORT_AGREED = 4,
  // Agreed, and only once every member of the view is known to hold it.
  CONSORT_SAFE = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum consort_service consort_service;
#else
typedef int32_t consort_service;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Why a group changed.
enum consort_cause
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // A client joined.
  CONSORT_CAUSE_JOIN = 1,
  // A client left.
  CONSORT_CAUSE_LEAVE = 2,
  // A client's connection to its daemon ended.
  CONSORT_CAUSE_DISCONNECT = 3,
  // Daemons went or came, and their clients with them.
  CONSORT_CAUSE_NETWORK = 4,
  // Nobody came or went: the members have become the primary part, or are it no more.
  CONSORT_CAUSE_PRIMARY = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum consort_cause consort_cause;
#else
typedef int32_t consort_cause;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Whether members may act as the primary part of the network.
enum consort_primary
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // They may.
  CONSORT_PRIMARY_YES = 1,
  // They may once all are known to be there.
  CONSORT_PRIMARY_PENDING = 2,
  // They may not.
  CONSORT_PRIMARY_NO = 3,
  // No policy is configured: it is not asked.
  CONSORT_PRIMARY_NO_POLICY = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum consort_primary consort_primary;
#else
typedef int32_t consort_primary;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Why a send was refused.
enum consort_refusal
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // More bytes under way than the credit allows.
  CONSORT_REFUSED_BUDGET = 1,
  // Larger than this cluster allows.
  CONSORT_REFUSED_TOO_LARGE = 2,
  // More groups than one message may name.
  CONSORT_REFUSED_TOO_MANY_TARGETS = 3,
  // The daemon is leaving and takes no more.
  CONSORT_REFUSED_LEAVING = 4,
  // The daemon's ordering protocol has no place for it.
  CONSORT_REFUSED_UNSUPPORTED = 5,
  // A join of a group the client is in.
  CONSORT_REFUSED_ALREADY_MEMBER = 6,
  // A leave of a group the client is not in.
  CONSORT_REFUSED_NOT_MEMBER = 7,
  // The client is in as many groups as it may be.
  CONSORT_REFUSED_TOO_MANY_GROUPS = 8,
  // The message names a closed group that the client is not in.
  CONSORT_REFUSED_CLOSED = 9,
  // All groups together take as much memory as they may.
  CONSORT_REFUSED_GROUPS_FULL = 10,
  // A Spread client among the receivers could not be told the message.
  CONSORT_REFUSED_NOT_REPRESENTABLE = 11,
  // A producer's message in a part of the network that does not count for producers.
  CONSORT_REFUSED_NOT_PRIMARY = 12,
  // A producer's message that does not follow its last one.
  CONSORT_REFUSED_MISSING = 13,
  // A producer's message after it was opened elsewhere.
  CONSORT_REFUSED_FENCED = 14,
  // A message of a producer that is not known any more.
  CONSORT_REFUSED_FORGOTTEN = 15,
  // The rules do not let the client do it.
  CONSORT_REFUSED_DENIED = 16,
  // The client does not read, and was made to leave the group.
  CONSORT_REFUSED_DEMOTED = 17,
  // A message to groups of rings that no ring covers together.
  CONSORT_REFUSED_ACROSS_RINGS = 18,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum consort_refusal consort_refusal;
#else
typedef int32_t consort_refusal;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Why a daemon ends a session, or opens none.
enum consort_reason
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // The client said good-bye.
  CONSORT_REASON_GOODBYE = 1,
  // The client sent what is no frame of the protocol.
  CONSORT_REASON_MALFORMED = 2,
  // The client speaks another version.
  CONSORT_REASON_VERSION = 3,
  // The connection did not complete what it had begun in time.
  CONSORT_REASON_SILENT = 4,
  // The client did not read what was waiting for it.
  CONSORT_REASON_SLOW = 5,
  // The daemon stops.
  CONSORT_REASON_STOPPING = 6,
  // Another client of this daemon is called so.
  CONSORT_REASON_NAME_TAKEN = 7,
  // The client's user may not use this daemon.
  CONSORT_REASON_NOT_ALLOWED = 8,
  // The daemon has as many clients as it may have.
  CONSORT_REASON_TOO_MANY_CLIENTS = 9,
  // The daemon starts anew at once; connect again.
  CONSORT_REASON_RESTARTING = 10,
  // What the client had yet to read could not be kept on disk.
  CONSORT_REASON_SPOOL_FAILED = 11,
  // The rules do not let the client be called so, or have one more connection.
  CONSORT_REASON_DENIED = 12,
  // The client has to prove who it is, by a token or a certificate, and has not.
  CONSORT_REASON_UNPROVEN = 13,
  // What the client showed is no token.
  CONSORT_REASON_TOKEN_MALFORMED = 14,
  // The client's token was not given out here, or not any more.
  CONSORT_REASON_TOKEN_UNKNOWN = 15,
  // The client's token is too old.
  CONSORT_REASON_TOKEN_EXPIRED = 16,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum consort_reason consort_reason;
#else
typedef int32_t consort_reason;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What became of a session's send.
enum consort_fate
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // It is ordered, once, and stays so.
  CONSORT_FATE_ORDERED = 1,
  // It is not ordered, and never will be.
  CONSORT_FATE_REFUSED = 2,
  // Nobody knows: it may be ordered or not. The daemons have forgotten the producer.
  CONSORT_FATE_FORGOTTEN = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum consort_fate consort_fate;
#else
typedef int32_t consort_fate;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Why there is no reading by position, or none any more.
enum consort_reading_end
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // What was asked for is not retained any more.
  CONSORT_READING_TRIMMED = 1,
  // The order does not reach that far.
  CONSORT_READING_BEYOND_END = 2,
  // The daemon's ordering protocol retains nothing.
  CONSORT_READING_UNSUPPORTED = 3,
  // A closed group that the client is not in.
  CONSORT_READING_CLOSED = 4,
  // What no group can be called.
  CONSORT_READING_BAD_GROUP = 5,
  // The position belongs to another order than the daemon's.
  CONSORT_READING_OTHER_ORDER = 6,
  // The client ended it, or began another.
  CONSORT_READING_ENDED = 7,
  // The daemon's history is another than the one that was read.
  CONSORT_READING_PARTED = 8,
  // The rules do not let the client receive what is sent to a group.
  CONSORT_READING_DENIED = 9,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum consort_reading_end consort_reading_end;
#else
typedef int32_t consort_reading_end;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a daemon does about a client that does not read.
enum consort_slow
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Keeps some bytes for it, then sends it away.
  CONSORT_SLOW_DISCONNECT = 1,
  // Keeps what it has yet to read on disk.
  CONSORT_SLOW_SPOOL = 2,
  // Has those wait who send to its groups.
  CONSORT_SLOW_BLOCK = 3,
  // Takes it out of its groups; it may read them by position.
  CONSORT_SLOW_DEMOTE = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum consort_slow consort_slow;
#else
typedef int32_t consort_slow;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A session with a daemon, or one half of it.
typedef struct consort_client consort_client;

// What happened. Functions that do not fit its kind return 0, false or null.
typedef struct consort_event consort_event;

// How a client or a session connects and sends.
typedef struct consort_options consort_options;

// A session over several daemons: when its daemon is lost it goes on at the next. Each send has exactly one fate, told as
// CONSORT_EVENT_SENT: one whose fate is not known when a connection is lost is asked about, not repeated. Groups are joined
// again. A reading goes on where it was: each message once, in order; what cannot be told is told as CONSORT_EVENT_GAP or
// CONSORT_EVENT_PARTED.
//
// It needs a policy that says which part of a parted network goes on: primary = "majority", or protocol = "paxos". In
// another part sends wait.
typedef struct consort_session consort_session;

// A client in a group, or a daemon in a view. Texts live as long as the event.
typedef struct {
  // What it is called; null for a daemon.
  const char *name;
  // The name by which it is sent to alone; null for a daemon.
  const char *private_name;
  // Which incarnation of its daemon.
  uint64_t incarnation;
  // Its number at its daemon; 0 for a daemon.
  uint32_t client;
  // The node of its daemon.
  uint16_t node;
  // Members of a group view with the same number moved together: they received the same messages of this group since
  // the group view before. 0 where nothing is said of that.
  uint16_t set;
} consort_member;

// Names a view of the network, or a membership of a group. Compare for equality only: it is no fencing number.
typedef struct {
  // The view's number.
  uint64_t number;
  // Which incarnation of its representative.
  uint64_t incarnation;
  // Which change in that view; 0 of a view of the network.
  uint64_t change;
  // The node of its representative.
  uint16_t node;
} consort_view_id;

// A place in the order.
typedef struct {
  // The position.
  uint64_t position;
  // The number of the view that it belongs to; 0 where positions last.
  uint64_t view;
  // Which incarnation of that view's representative; 0 where that is not said.
  uint64_t incarnation;
  // The node of that view's representative; 0 where that is not said.
  uint16_t node;
  // Which of those that stand there, counted from 0.
  uint16_t index;
} consort_place;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// What went wrong in the last call on this thread that failed: what, where, and what to do. Empty where none has. It
// lives until the next call on this thread that fails.
const char *consort_last_error(void);

// The daemon's reason in that call, a consort_reason; 0 where it gave none.
int32_t consort_last_reason(void);

// The sends that may be ordered still, or never, as that call found: how many. The number of the first goes to `first`,
// which may be null; the others follow it.
uint64_t consort_last_unknown_fate(uint64_t *first);

// Options that ask for nothing special. To be freed with consort_options_free().
consort_options *consort_options_new(void);

// Frees options.
void consort_options_free(consort_options *options);

// Gives the client a name, which no other client of the daemon may have: 1 to 23 characters of printable ASCII, no
// space, no `#`. Without one the daemon finds one.
consort_code consort_options_set_name(consort_options *options,
                                      const char *name);

// What proves who the client is, where the daemon asks for it; `consort token` makes it. 1 to 160 bytes.
consort_code consort_options_set_token(consort_options *options,
                                       const char *token);

// Speaks TLS 1.3 with daemons at TCP addresses, of `listen_tls`. Three files, in PEM: certificates of the authority that
// daemons' certificates must be of; this client's certificate, followed by those of its issuers, and its key. Null for
// both of these shows none. The files are read once, here: CONSORT_INVALID tells file, line and remedy. A Unix socket has
// no TLS, and this says nothing there: a session may have addresses of both kinds.
consort_code consort_options_set_tls(consort_options *options,
                                     const char *authority,
                                     const char *certificate,
                                     const char *key);

// What the daemons' certificates must name, a DNS name or an IP address. Where nothing is said each must name the host of
// its daemon's address. Call consort_options_set_tls() first; each call of that forgets this.
consort_code consort_options_set_tls_server_name(consort_options *options,
                                                 const char *name);

// Whether the client receives views of the network: CONSORT_EVENT_VIEW.
consort_code consort_options_set_views(consort_options *options, bool wanted);

// Whether each message tells its position in the order, and its sender's incarnation.
consort_code consort_options_set_positions(consort_options *options, bool wanted);

// Whether a daemon on this machine is offered to exchange bytes through shared memory, as it is where nothing is said.
// A client that is to be waited at with consort_fd() must not.
consort_code consort_options_set_shared_memory(consort_options *options,
                                               bool offered);

// Whether each send is written at once instead of being collected with others.
consort_code consort_options_set_unbatched(consort_options *options, bool at_once);

// How long connecting may take, 5000 where nothing is said.
consort_code consort_options_set_connect_within(consort_options *options, int64_t milliseconds);

// How long a send may wait for credit; negative, as where nothing is said, for as long as it takes.
consort_code consort_options_set_send_within(consort_options *options, int64_t milliseconds);

// How long a daemon at a TCP address may be silent before the connection is given up (CONSORT_CONNECTION_LOST): 1000
// to 21600000, 2000 where nothing is said. Its machine has vanished then, or the daemon is stopped for that long. A
// daemon of this machine, at a Unix socket, is given up after 10 s. consort_connect() refuses times out of range.
consort_code consort_options_set_host_timeout(consort_options *options,
                                              int64_t milliseconds);

// What the daemon does if the client does not read, a consort_slow; with which budgets: 0 bytes, and no time where it is
// negative, are the daemon's own, which bound any other. A daemon that does not allow the policy refuses the session
// (CONSORT_REASON_NOT_ALLOWED).
consort_code consort_options_set_slow(consort_options *options,
                                      int32_t policy,
                                      uint64_t bytes,
                                      int64_t milliseconds);

// How many bytes of a session's sends are kept whose fate is not known, 4 MiB where nothing is said; who sends more waits.
consort_code consort_options_set_unsettled_max(consort_options *options,
                                               size_t bytes);

// How long no daemon may be reached before a session gives up (CONSORT_UNREACHABLE), 60000 where nothing is said.
consort_code consort_options_set_reconnect_within(consort_options *options,
                                                  int64_t milliseconds);

// Whose sends a session's are: what consort_session_producer() said of an earlier one. It goes on behind that one's last
// send and stops it; CONSORT_EVENT_RESUMED says how many of its sends are ordered.
consort_code consort_options_set_producer(consort_options *options,
                                          const char *producer);

// Connects to a daemon and opens a session. The address is a path of a Unix socket, with a slash in it, or host:port.
// Null options ask for nothing special. The client is to be freed with consort_free().
consort_code consort_connect(const char *address,
                             const consort_options *options,
                             consort_client **client);

// Makes two clients of one, for two threads: the given one sends from here on, the new one receives. The receiving one
// must be read, or the sending one never hears of free credit. Both are to be freed.
consort_code consort_split(const consort_client *client,
                           consort_client **receiver);

// Says good-bye: the daemon takes all that was sent before, and then ends the session. A whole client waits for that,
// at most so long; events that come meanwhile are lost. The half that sends does not wait: the other one receives what
// comes still, and then CONSORT_DISCONNECTED with CONSORT_REASON_GOODBYE. Whatever fails on the way, the client does
// nothing any more. It is still to be freed.
consort_code consort_close(const consort_client *client,
                           int64_t within);

// Frees a client. Where it was not closed the connection ends; what was collected is written before, as far as the daemon
// takes it within a second. In a child of fork() the parent's connection goes on, and nothing is written.
void consort_free(consort_client *client);

// What the client is called; null of null.
const char *consort_name(const consort_client *client);

// The name by which others send to this client alone, as to a group: `#name#nNODE`; null of null.
const char *consort_private_name(const consort_client *client);

// The node of the client's daemon; 0 of null.
uint16_t consort_node(const consort_client *client);

// The client's number at its daemon; 0 of null.
uint32_t consort_number(const consort_client *client);

// The largest payload of one message, in bytes; 0 of null.
uint32_t consort_message_max(const consort_client *client);

// Asks to join a group. The group view that follows says that it happened; CONSORT_EVENT_REFUSED, that it did not. The
// number of the send goes to `send`, which may be null.
consort_code consort_join(const consort_client *client,
                          const char *group,
                          uint64_t *send);

// The same; if the group has no members yet, only members may send to it from here on.
consort_code consort_join_closed(const consort_client *client, const char *group, uint64_t *send);

// Asks to leave a group. The last group view that the client gets of it follows, without the client.
consort_code consort_leave(const consort_client *client,
                           const char *group,
                           uint64_t *send);

// Sends a message to all members of the groups, and to the clients whose private names are among the targets. Waits for
// credit, as long as the options allow. The number of the send goes to `send`, which may be null. Sends are collected
// for a while: consort_flush().
consort_code consort_multicast(const consort_client *client,
                               int32_t service,
                               const char *const *targets,
                               size_t targets_count,
                               const void *payload,
                               size_t payload_len,
                               uint64_t *send);

// The same, but waits for no credit: CONSORT_WOULD_BLOCK where there is too little. Credit comes back while events are
// received.
consort_code consort_try_multicast(const consort_client *client,
                                   int32_t service,
                                   const char *const *targets,
                                   size_t targets_count,
                                   const void *payload,
                                   size_t payload_len,
                                   uint64_t *send);

// Writes all that was collected. So do the next join or leave, and every wait.
consort_code consort_flush(const consort_client *client);

// Writes all that was collected and waits until every send is ordered or refused, at most so long.
consort_code consort_wait_ordered(const consort_client *client, int64_t within);

// How far the sends are: the number of the last one that was made goes to `sent`, of the last one that is ordered or
// refused with all before it to `ordered`. Either may be null.
consort_code consort_progress(const consort_client *client,
                              uint64_t *sent,
                              uint64_t *ordered);

// The next event, in the order in which things happened; CONSORT_NOTHING and null if none came within so many
// milliseconds. CONSORT_CONNECTION_LOST or CONSORT_DISCONNECTED come once everything that came before was received. The
// event is to be freed with consort_event_free(). What was collected to be sent is written first.
consort_code consort_receive(const consort_client *client,
                             int64_t within,
                             consort_event **event);

// The next event if one is here; waits for nothing. As consort_receive() otherwise.
consort_code consort_try_receive(const consort_client *client, consort_event **event);

// The descriptor of the connection, for a program that waits with poll() of its own: readable once something came. Take
// events with consort_try_receive() until it gives nothing, and only then wait: for a quarter of a second at most, so that
// a silent machine is noticed within two. Read, write and close nothing there.
// CONSORT_UNSUPPORTED where the daemon shares memory: consort_options_set_shared_memory().
consort_code consort_fd(const consort_client *client,
                        int32_t *fd);

// Reads by position what groups were sent, and then what comes. No group is joined, and nobody learns of it. `from` is
// "start" for the oldest message that there is, "new" for what comes, a position such as "1234", or a bookmark.
// CONSORT_EVENT_READING_BEGAN says that it begins, CONSORT_EVENT_READING_ENDED why not; each message is a
// CONSORT_EVENT_READ. A client has one reading; another one ends it.
consort_code consort_read(const consort_client *client,
                          const char *const *groups,
                          size_t groups_count,
                          const char *from);

// Ends the reading. What was told before is received still, then CONSORT_EVENT_READING_ENDED.
consort_code consort_stop_reading(const consort_client *client);

// How far the reading has come, behind the last message that was received: with this text it goes on later, at any daemon.
// It goes to `bookmark`, which has room for `size` bytes: CONSORT_BOOKMARK_MAX hold any. CONSORT_NOTHING and an empty text
// before any reading began. Of the half that receives, where the client was split.
consort_code consort_bookmark(const consort_client *client,
                              char *bookmark,
                              size_t size);

// Connects to the first of so many daemons that can be reached; addresses as of consort_connect(). Null options ask for
// nothing special. The session is to be freed with consort_session_free().
consort_code consort_session_connect(const char *const *daemons,
                                     size_t daemons_count,
                                     const consort_options *options,
                                     consort_session **session);

// Waits until every send has its fate, at most so long, and ends the session; the daemons forget its producer. What came is
// received still, then CONSORT_WRONG_HALF. Whatever fails on the way, the session does nothing any more; with
// CONSORT_TIMED_OUT another one can go on with its producer. It is still to be freed.
consort_code consort_session_close(const consort_session *session,
                                   int64_t within);

// Frees a session. Where it was not closed, what has no fate may be ordered still, or never. In a child of fork() the
// parent's session goes on.
void consort_session_free(consort_session *session);

// Whose sends these are, for consort_options_set_producer(); null of null. Store it, with the payloads of sends without a
// fate, for a session that goes on later. Who knows it may send under it.
const char *consort_session_producer(const consort_session *session);

// Joins a group, and joins it again after each loss. A group view follows, or CONSORT_EVENT_JOIN_REFUSED.
consort_code consort_session_join(const consort_session *session,
                                  const char *group);

// The same; if the group has no members yet, only members may send to it from here on.
consort_code consort_session_join_closed(const consort_session *session, const char *group);

// Leaves a group.
consort_code consort_session_leave(const consort_session *session, const char *group);

// Sends a message to groups, and to clients by their private names, once. Its number goes to `send`, which may be null; its
// fate comes as CONSORT_EVENT_SENT. Waits while too many bytes have no fate, for as long as
// consort_options_set_send_within() says. A session does nothing between calls: sends are collected, and written by the next
// call that finds no event and looks for more, such as consort_session_try_receive() until it gives nothing.
consort_code consort_session_send(const consort_session *session,
                                  int32_t service,
                                  const char *const *targets,
                                  size_t targets_count,
                                  const void *payload,
                                  size_t payload_len,
                                  uint64_t *send);

// Waits for the fate of a send, at most so long: a CONSORT_EVENT_SENT, which is not received any more then. Other events are
// kept. CONSORT_INVALID where the fate was told before, or there is no such send.
consort_code consort_session_outcome(const consort_session *session,
                                     uint64_t send,
                                     int64_t within,
                                     consort_event **event);

// Waits until every send has its fate, at most so long. Events are kept.
consort_code consort_session_settle(const consort_session *session, int64_t within);

// How many sends have no fate yet goes to `count`.
consort_code consort_session_unsettled(const consort_session *session, size_t *count);

// Reads groups by position, and goes on with it at the next daemon; as consort_read() otherwise.
consort_code consort_session_read(const consort_session *session,
                                  const char *const *groups,
                                  size_t groups_count,
                                  const char *from);

// How far the reading has come; as consort_bookmark().
consort_code consort_session_bookmark(const consort_session *session, char *bookmark, size_t size);

// The next event; CONSORT_NOTHING and null if none came within so many milliseconds. CONSORT_UNREACHABLE,
// CONSORT_TAKEN_OVER and CONSORT_NOT_OPENED end the session. The event is to be freed with consort_event_free().
consort_code consort_session_receive(const consort_session *session,
                                     int64_t within,
                                     consort_event **event);

// The next event if one is here; waits for nothing but a connection that is due. As consort_session_receive() otherwise.
consort_code consort_session_try_receive(const consort_session *session,
                                         consort_event **event);

// The descriptor of the connection that there is, for a program that waits with poll() of its own; -1 while there is none.
// Take events with consort_session_try_receive() until it gives nothing, and only then wait: for a tenth of a second at
// most, so that a silent daemon is noticed. Each connection has another. CONSORT_UNSUPPORTED where the daemon shares
// memory: consort_options_set_shared_memory().
consort_code consort_session_fd(const consort_session *session,
                                int32_t *fd);

// Frees an event.
void consort_event_free(consort_event *event);

// Of what kind it is, a consort_event_kind.
consort_event_kind consort_event_get_kind(const consort_event *event);

// What a message's sender asked for, a consort_service.
int32_t consort_event_service(const consort_event *event);

// The private name of a message's sender: a target for an answer.
const char *consort_event_sender(const consort_event *event);

// The node of a message's sender.
uint16_t consort_event_sender_node(const consort_event *event);

// The number of a message's sender at its daemon.
uint32_t consort_event_sender_number(const consort_event *event);

// A message's payload; its length goes to `len`, which may be null. Null where it is empty.
const uint8_t *consort_event_payload(const consort_event *event, size_t *len);

// Where a message stands in the order; false where that was not asked for with consort_options_set_positions(), and it was
// not read.
bool consort_event_position(const consort_event *event,
                            uint64_t *position);

// Which incarnation of its node a message's sender is connected to; false likewise.
bool consort_event_sender_incarnation(const consort_event *event, uint64_t *incarnation);

// How many targets a message names, groups and private names; 1 of a group view or signal.
size_t consort_event_group_count(const consort_event *event);

// One of them, counted from 0; null beyond the last.
const char *consort_event_group(const consort_event *event, size_t index);

// How many members a group view has, or how many daemons a view.
size_t consort_event_member_count(const consort_event *event);

// One of them, counted from 0, goes to `member`; false beyond the last.
bool consort_event_member(const consort_event *event, size_t index, consort_member *member);

// How many came or went with a group view: who of them is a member came. Of a view, how many daemons came here together
// from this daemon's view before.
size_t consort_event_changed_count(const consort_event *event);

// One of them, counted from 0, goes to `member`; false beyond the last.
bool consort_event_changed(const consort_event *event, size_t index, consort_member *member);

// Names the view, or the membership of a group view or signal; goes to `id`. False of other kinds.
bool consort_event_view_id(const consort_event *event, consort_view_id *id);

// Why a group changed, a consort_cause.
int32_t consort_event_cause(const consort_event *event);

// Whether the members of a group view may act as the primary part of the network, from here until the group's next
// view; or whether a view of daemons is primary. A consort_primary.
int32_t consort_event_primary(const consort_event *event);

// Whether only members may send to the group of a group view.
bool consort_event_is_closed(const consort_event *event);

// Whether a view is transitional: it closes the view before it for those that move on together.
bool consort_event_is_transitional(const consort_event *event);

// The number of the send that was refused, or whose fate is told; 0 of other kinds.
uint64_t consort_event_send(const consort_event *event);

// Why it, or a join of a session, was refused, a consort_refusal.
int32_t consort_event_refusal(const consort_event *event);

// What became of a session's send, a consort_fate; 0 of other kinds.
int32_t consort_event_fate(const consort_event *event);

// Where a message that was read stands; where a send is ordered; where a reading begins; the first place of a gap; the last
// position of the order when all is read; the first place that parted histories have not in common. Goes to `place`;
// false where there is none to tell.
bool consort_event_place(const consort_event *event,
                         consort_place *place);

// Behind a gap: the first place that is told again. Goes to `place`; false of other kinds.
bool consort_event_gap_end(const consort_event *event, consort_place *place);

// Why there is no reading, or none any more, a consort_reading_end; 0 of other kinds.
int32_t consort_event_reading_end(const consort_event *event);

// The oldest position that the daemon can tell goes to `oldest`, the newest to `newest`, either of which may be null: when a
// reading begins, and when it ends. False of other kinds.
bool consort_event_retained(const consort_event *event,
                            uint64_t *oldest,
                            uint64_t *newest);

// How many sends of the producer that a session goes on with are ordered, over all its sessions; false where nobody knows
// of it, and of other kinds.
bool consort_event_resumed(const consort_event *event,
                           uint64_t *ordered);

// Why a send or a join was refused, a view came, a reading ended, a connection was lost, or sends wait, in words; where a
// session is connected.
const char *consort_event_text(const consort_event *event);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CONSORT_H */
