package consort

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// checkUser refuses to show a token to a daemon that runs as another user: it could show the token, too. The user who alone
// decides what is in the socket's directory is trusted as much as the address is.
func (e endpoint) checkUser(conn net.Conn) error {
	if e.kind != "unix" || e.options.Token == "" {
		return nil
	}
	failed := func(err error) error { return fmt.Errorf("cannot connect to %s: %w", e.address, err) }
	user, err := userAt(conn)
	if err != nil {
		return failed(err)
	}
	own := uint32(os.Geteuid())
	if isKnown(user, own) {
		return nil
	}
	if directory, is := directoryOf(e.at); is {
		owner, alone, err := ownerOf(directory, own)
		if err != nil {
			return failed(err)
		}
		if alone && owner == user {
			return nil
		}
	}
	return &UntrustedDaemonError{Address: e.address, User: user}
}

// userAt is the user as whom the other end of a Unix socket runs, or ran when it began to listen.
func userAt(conn net.Conn) (uint32, error) {
	socket, is := conn.(syscall.Conn)
	if !is {
		return 0, fmt.Errorf("a %T does not say who is at its other end", conn)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *syscall.Ucred
	var unknown error
	err = raw.Control(func(descriptor uintptr) {
		peer, unknown = syscall.GetsockoptUcred(int(descriptor), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err == nil {
		err = os.NewSyscallError("getsockopt", unknown)
	}
	if err != nil {
		return 0, err
	}
	return peer.Uid, nil
}

// directoryOf is the directory of a socket. An abstract socket has none: any user may bind it.
func directoryOf(socket string) (directory string, is bool) {
	if socket[0] == '@' || socket[0] == 0 {
		return "", false
	}
	// The path is not cleaned, because `..` behind a link is not the directory that holds the link.
	return socket[:strings.LastIndexByte(socket, '/')+1], true
}

func isKnown(user, own uint32) bool { return user == 0 || user == own }

// ownerOf is the owner of a directory, and whether that user, beside root and this one, alone decides what is in it: no
// other user may put something there, or exchange anything on the way to it.
func ownerOf(directory string, own uint32) (user uint32, alone bool, err error) {
	if !strings.HasPrefix(directory, "/") {
		work, err := os.Getwd()
		if err != nil {
			return 0, false, err
		}
		directory = work + "/" + directory
	}
	here, owners, trusted, err := walk(directory, own)
	if err != nil || !trusted {
		return 0, false, err
	}
	isOther := func(user uint32) bool { return !isKnown(user, own) && user != here.owner }
	return here.owner, !here.isOpen && !slices.ContainsFunc(owners, isOther), nil
}

// walk goes from the root to a directory: the owners of all directories on the way, behind links too, and whether what leads
// there was made by a known user wherever any user may have made it. A user who may write to a directory can make a link or
// a directory there even if it is sticky.
func walk(directory string, own uint32) (here entry, owners []uint32, trusted bool, err error) {
	if here, err = lookAt("/"); err != nil {
		return here, nil, false, err
	}
	owners = []uint32{here.owner}
	for _, name := range strings.Split(directory, "/") {
		if name == "" || name == "." {
			continue
		}
		next, err := lookAt(filepath.Join(here.path, name))
		if err != nil || (next.isLink || here.isOpen) && !isKnown(next.owner, own) {
			return here, nil, false, err
		}
		way := []uint32{next.owner}
		if next.isLink {
			// The real path has no links.
			path, err := filepath.EvalSymlinks(next.path)
			if err != nil {
				return here, nil, false, err
			}
			if next, way, trusted, err = walk(path, own); err != nil || !trusted {
				return here, nil, false, err
			}
		}
		here, owners = next, append(owners, way...)
	}
	return here, owners, true, nil
}

// entry is what is at a path: a directory on the way to a socket, or a link to one.
type entry struct {
	path  string
	owner uint32
	// isOpen: its group or all others may write to it.
	isOpen, isLink bool
}

// lookAt follows no link.
func lookAt(path string) (entry, error) {
	about, err := os.Lstat(path)
	if err != nil {
		return entry{}, err
	}
	owner := about.Sys().(*syscall.Stat_t).Uid
	return entry{path, owner, about.Mode()&0o022 != 0, about.Mode()&os.ModeSymlink != 0}, nil
}
