// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wayin has processes in a cgroup connect to a TCP port, in every way that the kernel has
// for a process without rights over the node, and in the way that NET_RAW gives.
package wayin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Way is a process's way to connect.
type Way string

// Kinds of sockets. Each kind connects in the kernel by a path of its own.
const (
	Connect Way = "connect"
	// FastOpen sends without having connected; LateOpen connects with its first data.
	FastOpen Way = "MSG_FASTOPEN"
	LateOpen Way = "TCP_FASTOPEN_CONNECT"
	// Multipath and MultipathFastOpen have a socket of TCP below that the process never sees.
	Multipath         Way = "MPTCP"
	MultipathFastOpen Way = "MPTCP with MSG_FASTOPEN"
	SMC               Way = "SMC"
	Ring              Way = "io_uring"
	// Nonblocking goes on while the call has returned.
	Nonblocking Way = "non-blocking connect"
)

// Sockets returns the ways of sockets.
func Sockets() []Way {
	return []Way{Connect, FastOpen, LateOpen, Multipath, MultipathFastOpen, SMC, Ring, Nonblocking}
}

// Raw is the way without a TCP socket: the process makes the packets itself, and needs NET_RAW
// for it. It is for IPv4.
const Raw Way = "packets of a raw socket"

// Errors of Try. Try also returns errors of system calls.
var (
	// ErrUnanswered reports a connection that ended without an answer.
	ErrUnanswered = errors.New("the connection ended without an answer")
	// ErrAbsent reports that the kernel does not have the way.
	ErrAbsent = errors.New("this kernel has no such way")
)

// playWay names the variable that makes a test's binary such a process.
const playWay = "ALIOTH_TEST_WAY_IN"

// Try makes a process of its own in a cgroup connect from the caller's network namespace, send
// a request and read an answer. It returns nil if there was one.
func (w Way) Try(t testing.TB, cgroup string, to netip.AddrPort) error {
	t.Helper()
	return w.Prepare(t, cgroup, to)()
}

// Prepare starts the process, which makes its socket, and connects when proceed is called.
func (w Way) Prepare(t testing.TB, cgroup string, to netip.AddrPort) (proceed func() error) {
	t.Helper()
	group, err := os.Open(cgroup)
	must(t, err)
	defer group.Close()
	command := exec.CommandContext(t.Context(), "/proc/self/exe")
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s", playWay, to, w))
	command.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	input, err := command.StdinPipe()
	must(t, err)
	output, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	reported := bufio.NewReader(output)
	if _, err := reported.ReadString('\n'); err != nil {
		t.Errorf("the process did not make its socket: %v", err)
	}
	return func() error {
		t.Helper()
		must(t, input.Close())
		result, err := io.ReadAll(reported)
		must(t, errors.Join(err, command.Wait()))
		return parse(t, string(result))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Words of a process's report. For an error, the process reports its number instead.
const (
	answered   = "answered"
	unanswered = "unanswered"
	absent     = "absent"
)

func parse(t testing.TB, reported string) error {
	t.Helper()
	var number int
	switch reported {
	case answered:
		return nil
	case unanswered:
		return ErrUnanswered
	case absent:
		return ErrAbsent
	}
	if _, err := fmt.Sscan(reported, &number); err != nil {
		t.Fatalf("the process said %q", reported)
	}
	return syscall.Errno(number)
}

// Play is for TestMain: in a process that Prepare has started, it connects and ends the
// process.
func Play() {
	text, way, ok := strings.Cut(os.Getenv(playWay), " ")
	if !ok {
		return
	}
	if _, err := fmt.Fprint(os.Stdout, report(play(Way(way), netip.MustParseAddrPort(text)))); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// play makes the socket, waits for the word, and connects.
func play(w Way, to netip.AddrPort) error {
	fd, failed := open(w, to)
	if failed == nil {
		defer unix.Close(fd)
	}
	if _, err := fmt.Fprintln(os.Stdout); err != nil {
		return err
	}
	if _, err := io.ReadAll(os.Stdin); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	if w == Raw {
		return connectRaw(fd, to)
	}
	return connect(w, fd, to)
}

func report(err error) string {
	var number syscall.Errno
	switch {
	case err == nil:
		return answered
	case errors.Is(err, ErrUnanswered), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return unanswered
	case errors.Is(err, ErrAbsent):
		return absent
	case errors.As(err, &number):
		return fmt.Sprint(int(number))
	}
	return err.Error()
}
