package consort

import (
	"bufio"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cluster is one of three daemons of this machine, each of which may be killed and started again.
type cluster struct {
	t                  *testing.T
	program, name, dir string
	daemons            [3]*exec.Cmd
	addresses          [3]string
	// sealed is where TLS is spoken: TLS_PORT in what is configured.
	sealed [3]string
}

// folderOf is a cluster of which no daemon runs yet, where the program is known: CONSORT_PROGRAM.
func folderOf(t *testing.T) *cluster {
	t.Helper()
	program := os.Getenv("CONSORT_PROGRAM")
	if program == "" {
		t.Skip("CONSORT_PROGRAM does not say where the program `consort` is")
	}
	// The path of a socket may not be as long as that of a test's own folder.
	dir, err := os.MkdirTemp("", "consort-go-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &cluster{t: t, program: program, name: fmt.Sprintf("go-%d-%d", os.Getpid(), rand.Intn(1_000_000)), dir: dir}
}

// newCluster starts the daemons.
func newCluster(t *testing.T, protocol, more string) *cluster {
	t.Helper()
	c := folderOf(t)
	port := freePorts(t, 4*3+1+3)
	lines := []string{
		fmt.Sprintf("cluster = %q\nprotocol = %q\nstate = %q", c.name, protocol, filepath.Join(c.dir, "state")),
		fmt.Sprintf("multicast = \"239.192.1.8:%d\"", port+12),
	}
	for at := range c.daemons {
		lines = append(lines, fmt.Sprintf("[[node]]\nid = %d\naddress = \"127.0.0.1:%d\"", at+1, port+4*at))
	}
	lines = append(lines, more)
	for at := range c.daemons {
		c.configure(at, strings.Join(lines, "\n"), port+13+at)
		t.Cleanup(func() { c.kill(at) })
		c.start(at)
	}
	c.awaitAll()
	return c
}

// configure writes what a daemon is started with, whose port of TLS is that one.
func (c *cluster) configure(at int, text string, port int) {
	c.t.Helper()
	sealed := strconv.Itoa(port)
	c.sealed[at] = "127.0.0.1:" + sealed
	if err := os.WriteFile(c.config(at), []byte(strings.ReplaceAll(text, "TLS_PORT", sealed)), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// freePorts is the first of so many ports that nobody has, and that the kernel hands out to nobody.
func freePorts(t *testing.T, count int) int {
	for range 1000 {
		first := 10_000 + rand.Intn(20_000)
		var taken []io.Closer
		for port := first; port < first+count; port++ {
			at := "127.0.0.1:" + strconv.Itoa(port)
			if conn, err := net.ListenPacket("udp", at); err == nil {
				taken = append(taken, conn)
			}
			if listener, err := net.Listen("tcp", at); err == nil {
				taken = append(taken, listener)
			}
		}
		for _, one := range taken {
			_ = one.Close()
		}
		if len(taken) == 2*count {
			return first
		}
	}
	t.Fatal("no ports are free")
	return 0
}

func (c *cluster) config(at int) string {
	return filepath.Join(c.dir, fmt.Sprintf("consort-%d.toml", at+1))
}

func (c *cluster) command(words ...string) *exec.Cmd {
	command := exec.Command(c.program, words...)
	command.Env = append(os.Environ(), "CONSORT_RUNTIME_DIR="+filepath.Join(c.dir, "run"))
	return command
}

func (c *cluster) start(at int) {
	c.t.Helper()
	command := c.command("daemon", "--while-stdin-open", "--log", "warn", "--config", c.config(at),
		"--node", strconv.Itoa(at+1))
	log, err := os.OpenFile(filepath.Join(c.dir, fmt.Sprintf("log-%d", at+1)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	command.Stderr = log
	// It ends with this process, whatever becomes of that.
	if _, err := command.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.daemons[at] = command
	line, _ := bufio.NewReader(out).ReadString('\n')
	_, address, is := strings.Cut(strings.TrimSpace(line), "serves clients at ")
	if !is {
		said, _ := os.ReadFile(log.Name())
		c.t.Fatalf("the daemon did not start; it said %q %s", line, said)
	}
	c.addresses[at] = address
}

// kill ends a daemon as a crash does.
func (c *cluster) kill(at int) {
	if daemon := c.daemons[at]; daemon != nil {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
		c.daemons[at] = nil
	}
}

// signal has a daemon stand still, or go on.
func (c *cluster) signal(at int, signal string) {
	c.t.Helper()
	if err := exec.Command("kill", "-"+signal, strconv.Itoa(c.daemons[at].Process.Pid)).Run(); err != nil {
		c.t.Fatal(err)
	}
}

// awaitAll waits until all daemons are in one view, and what sessions send counts there.
func (c *cluster) awaitAll() {
	c.t.Helper()
	for at := range c.daemons {
		c.await(at, 3)
	}
}

// await waits until a daemon is in a view of so many, and what sessions send counts there.
func (c *cluster) await(at, count int) {
	c.t.Helper()
	for late := time.Now().Add(3 * time.Minute); ; {
		said, _ := c.command("status", "--cluster", c.name, "--node", strconv.Itoa(at+1), "--json").CombinedOutput()
		_, members, _ := strings.Cut(string(said), `"members":"`)
		members, _, _ = strings.Cut(members, `"`)
		if len(strings.Fields(members)) == count && strings.Contains(string(said), `"counts_for_producers":1`) {
			return
		}
		if time.Now().After(late) {
			c.t.Fatalf("no view of %d: %s", count, said)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// from has all daemons, this one first.
func (c *cluster) from(at int) []string {
	return append(append([]string{}, c.addresses[at%3:]...), c.addresses[:at%3]...)
}
