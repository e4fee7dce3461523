package consort

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const (
	// stranger is of no user of the machine.
	stranger = 12_345
	// strangersSocket is the variable that has the test program play the daemon of the stranger, at that path.
	strangersSocket = "CONSORT_TEST_STRANGERS_SOCKET"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(strangersSocket); path != "" {
		fmt.Println(playStranger(path))
		return
	}
	os.Exit(m.Run())
}

// playStranger is a process of another user, which prints for each client how many bytes it sent, and hangs up.
func playStranger(path string) error {
	if err := syscall.Setuid(stranger); err != nil {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o777); err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		count, _ := conn.Read(make([]byte, 1024))
		_ = conn.Close()
		fmt.Println(count)
	}
}

// strangers is a daemon of another user in that directory: its address, and what it prints next.
func strangers(t *testing.T, directory string) (address string, prints func() string) {
	t.Helper()
	address = filepath.Join(directory, "socket")
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), strangersSocket+"="+address)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	lines := bufio.NewReader(out)
	prints = func() string {
		line, _ := lines.ReadString('\n')
		return strings.TrimSpace(line)
	}
	if said := prints(); said != "ready" {
		t.Fatalf("the other user's daemon did not start: %s", said)
	}
	return address, prints
}

// baseOf is a directory below which a test makes others; root owns it, and other users can go through it.
func baseOf(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to another user, and run as one")
	}
	// The path of a socket may not be as long as that of a test's own folder.
	base, err := os.MkdirTemp("", "consort-go-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	return base
}

// made makes a directory of that mode and owner.
func made(t *testing.T, mode fs.FileMode, owner int, path ...string) string {
	t.Helper()
	directory := filepath.Join(path...)
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	give(t, directory, mode, owner)
	return directory
}

func give(t *testing.T, directory string, mode fs.FileMode, owner int) {
	t.Helper()
	if err := errors.Join(os.Chmod(directory, mode), os.Chown(directory, owner, owner)); err != nil {
		t.Fatal(err)
	}
}

func linked(t *testing.T, to string, owner int, path ...string) string {
	t.Helper()
	link := filepath.Join(path...)
	if err := errors.Join(os.Symlink(to, link), os.Lchown(link, owner, owner)); err != nil {
		t.Fatal(err)
	}
	return link
}

func TestAnOwnerWhoAloneDecidesWhatIsInADirectory(t *testing.T) {
	base := baseOf(t)
	theirs := made(t, 0o755, stranger, base, "theirs")
	shared := made(t, 0o777|fs.ModeSticky, 0, base, "shared")
	group := made(t, 0o775, stranger, base, "group")
	below := made(t, 0o755, stranger, theirs, "below")
	link := linked(t, below, 0, base, "link")
	made(t, 0o755, stranger, shared, "squatted")
	for _, one := range []struct {
		directory string
		alone     bool
		owner     uint32
	}{
		{"/", true, 0},
		{base, true, 0},
		{theirs, true, stranger},
		{base + "/./theirs//", true, stranger},
		{below, true, stranger},
		{shared, false, 0},
		{group, false, 0},
		{made(t, 0o755, stranger, group, "below"), false, 0},
		{made(t, 0o755, 0, group, "roots"), false, 0},
		{made(t, 0o755, 0, shared, "roots"), true, 0},
		{shared + "/squatted", false, 0},
		{shared + "/squatted/..", false, 0},
		{made(t, 0o755, stranger+1, theirs, "of a third"), false, 0},
		{made(t, 0o755, 0, theirs, "roots"), false, 0},
		{link, true, stranger},
		// It is the parent of what the link leads to.
		{link + "/..", true, stranger},
		{linked(t, theirs, stranger, base, "their link"), false, 0},
		{linked(t, theirs, stranger, shared, "their link"), false, 0},
		{linked(t, "../theirs", 0, shared, "link"), true, stranger},
		// The way behind the link counts, too.
		{linked(t, shared+"/squatted", 0, base, "to squatted"), false, 0},
	} {
		owner, alone, err := ownerOf(one.directory, 0)
		if err != nil || alone != one.alone || alone && owner != one.owner {
			t.Errorf("%s: %d, %v, %v", one.directory, owner, alone, err)
		}
	}
	if owner, alone, err := ownerOf(shared+"/squatted", stranger); owner != stranger || !alone || err != nil {
		t.Error("it is this user's own: ", owner, alone, err)
	}
	if _, _, err := ownerOf(base+"/none", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestDirectoriesOfSockets(t *testing.T) {
	for socket, want := range map[string]string{"/run/a/../b/s": "/run/a/../b/", "/s": "/", "s": "", "./s": "./"} {
		if got, is := directoryOf(socket); got != want || !is {
			t.Errorf("%s is in %s", socket, got)
		}
	}
	for _, socket := range []string{"@s", "@run/s", "\x00s"} {
		if _, is := directoryOf(socket); is {
			t.Errorf("%q is abstract", socket)
		}
	}
	work, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	own := uint32(os.Geteuid())
	user, alone, err := ownerOf("", own)
	if wantUser, wantAlone, wantErr := ownerOf(work, own); user != wantUser || alone != wantAlone || err != nil || wantErr != nil {
		t.Error(user, alone, err, wantErr)
	}
}

func TestATokenIsShownToADaemonOfThisUser(t *testing.T) {
	address, reads, _ := daemon(t, unhex(t, welcomeOfBob))
	if err := os.Chmod(filepath.Dir(address), 0o777); err != nil {
		t.Fatal(err)
	}
	options := Options{Name: "bob", Token: "abc", DaemonTimeout: Forever}
	if _, err := Dial(long(t), address, options); err != nil {
		t.Fatal(err)
	}
	if got := reads(36); string(got) != string(hello(options, 0)) {
		t.Fatalf("hello: %x", got)
	}
}

func TestNoTokenIsShownToADaemonOfAnotherUser(t *testing.T) {
	directory := made(t, 0o777, 0, baseOf(t), "shared")
	address, prints := strangers(t, directory)
	want := "no token is shown to the daemon at " + address + ": it runs as user 12345, which is neither this user nor root, " +
		"nor the only one who may write to the socket's directory"
	for _, one := range []struct {
		mode  fs.FileMode
		owner int
	}{{0o777, 0}, {0o777, stranger}, {0o755, 0}, {0o755, stranger + 1}} {
		give(t, directory, one.mode, one.owner)
		_, err := Dial(long(t), address, Options{Token: "abc"})
		var untrusted *UntrustedDaemonError
		if !errors.As(err, &untrusted) || *untrusted != (UntrustedDaemonError{address, stranger}) || err.Error() != want {
			t.Fatalf("%v: %v", one, err)
		}
		if count := prints(); count != "0" {
			t.Fatalf("%v: %s bytes were sent", one, count)
		}
	}
	if _, err := Dial(long(t), address, Options{}); !errors.Is(err, ErrNoDaemon) {
		t.Fatal("without a token nothing is checked: ", err)
	}
	if count := prints(); count == "0" {
		t.Fatal("no hello was sent")
	}
}

func TestATokenIsShownToTheOwnerOfTheDirectory(t *testing.T) {
	address, prints := strangers(t, made(t, 0o755, stranger, baseOf(t), "theirs"))
	options := Options{Token: "abc"}
	if _, err := Dial(long(t), address, options); !errors.Is(err, ErrNoDaemon) {
		t.Fatal(err)
	}
	if count, want := prints(), fmt.Sprint(len(hello(options, daemonSilence))); count != want {
		t.Fatalf("%s bytes were sent, not %s", count, want)
	}
}
