package consort

import (
	"strconv"
	"strings"
)

const (
	groupMax  = 64
	clientMax = 23
)

// checkGroup refuses what no group can be called.
func checkGroup(name string) error {
	if len(name) == 0 || len(name) > groupMax {
		return invalid("a group name has %d bytes; give it 1 to %d", len(name), groupMax)
	}
	for at := 0; at < len(name); at++ {
		if c := name[at]; c < 0x21 || c > 0x7e || c == '#' && at == 0 {
			return invalid("a group name has byte 0x%02x at %d; use printable ASCII without space, and no # at the start", c, at)
		}
	}
	return nil
}

func isClient(name string) bool {
	if len(name) == 0 || len(name) > clientMax {
		return false
	}
	return strings.IndexFunc(name, func(c rune) bool { return c < 0x21 || c > 0x7e || c == '#' }) < 0
}

// checkTarget refuses what is neither a group nor a private name.
func checkTarget(name string) error {
	if !strings.HasPrefix(name, "#") {
		return checkGroup(name)
	}
	client, node, found := strings.Cut(name[1:], "#")
	digits := strings.TrimPrefix(node, "n")
	number, err := strconv.ParseUint(digits, 10, 16)
	if !found || digits == node || err != nil || strconv.FormatUint(number, 10) != digits || !isClient(client) {
		return invalid("%q names no client; write #name#nNODE", name)
	}
	return nil
}

// network tells how to reach an address: a path with a slash in it, or host:port.
func network(address string) (kind, at string, err error) {
	if path, is := strings.CutPrefix(address, "unix:"); is && path != "" {
		return "unix", path, nil
	}
	if strings.Contains(address, "/") {
		return "unix", address, nil
	}
	at = strings.TrimPrefix(address, "tcp:")
	colon := strings.LastIndexByte(at, ':')
	if colon < 0 {
		return "", "", invalid("`%s` is no address: there is no port; write a path with a slash in it, or host:port", address)
	}
	if _, err := strconv.ParseUint(at[colon+1:], 10, 16); err != nil || colon == 0 {
		return "", "", invalid("`%s` is no address; write a path with a slash in it, or host:port", address)
	}
	return "tcp", at, nil
}
