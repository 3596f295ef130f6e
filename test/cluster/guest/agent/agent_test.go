// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/test/cluster/host"
	"github.com/alioth-net/alioth/test/cluster/process"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

// newPair returns a client of an agent on this machine.
func newPair(t *testing.T) *Client {
	t.Helper()
	server := httptest.NewServer(NewServer().Handler())
	t.Cleanup(server.Close)
	return newClient(strings.TrimPrefix(server.URL, "http://"))
}

func shell(script string) Command {
	return Command{Args: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin", "WORD=hello"}}
}

func TestRun_Command_StreamsEnvironmentAndStatus(t *testing.T) {
	client := newPair(t)
	var stdout, stderr bytes.Buffer
	err := client.Run(t.Context(), shell("echo $WORD$HOME; echo no >&2; exit 3"), &stdout, &stderr)
	if err == nil || err.Error() != "exit status 3" || stdout.String() != "hello\n" || stderr.String() != "no\n" {
		t.Errorf("got %v, printed %q and %q", err, &stdout, &stderr)
	}
	stdout.Reset()
	if err := client.Run(t.Context(), shell("head -c 300000 /dev/zero"), &stdout, io.Discard); err != nil || stdout.Len() != 300000 {
		t.Errorf("got %v and %d bytes", err, stdout.Len())
	}
	if err := client.Run(t.Context(), Command{Args: []string{"/no/such/program"}}, io.Discard, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("of a program that is not there: %v", err)
	}
}

// awaitText returns the first text that a writer gets.
type awaitText struct{ lines chan string }

func (a awaitText) Write(p []byte) (int, error) {
	if len(p) > 0 {
		a.lines <- string(p)
	}
	return len(p), nil
}

func TestRun_ClientGone_CommandEnds(t *testing.T) {
	client := newPair(t)
	ctx, cancel := context.WithCancel(t.Context())
	out := awaitText{make(chan string, 1)}
	done := make(chan error, 1)
	go func() { done <- client.Run(ctx, shell("sleep 1000 & echo $!; wait"), out, io.Discard) }()
	var pid int
	if _, err := fmt.Sscan(<-out.lines, &pid); err != nil {
		t.Fatal(err)
	}
	id, err := process.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a command that was given up ended well")
	}
	limit, stop := context.WithTimeout(t.Context(), waits.Limit(10*time.Second))
	defer stop()
	if err := id.Wait(limit); err != nil {
		t.Errorf("what the command had started: %v", err)
	}
}

func TestDaemon_StartTwiceAndStop_OneRuns(t *testing.T) {
	needs.Root(t, "to make cgroups")
	mounts, err := host.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	cgroup := host.FindCgroups(mounts).Unified
	if cgroup == "" {
		t.Skip("missing feature: a cgroup2 mount")
	}
	client := newPair(t)
	log := filepath.Join(t.TempDir(), "log")
	spec := process.Spec{
		Name: "n/daemon", Args: []string{"/bin/sh", "-c", "echo started; exec sleep 1000"},
		Env: []string{"PATH=/usr/bin:/bin"}, Log: log, Cgroups: []string{cgroup},
	}
	started := func() int {
		raw, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(raw), "started")
	}
	for range 2 {
		if err := client.Start(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	await(t, func() bool { return started() > 0 })
	if err := client.Stop(t.Context(), spec.Name); err != nil {
		t.Fatal(err)
	}
	if n := started(); n != 1 {
		t.Errorf("it was started %d times, want once", n)
	}
	if err := client.StartAgain(t.Context(), spec.Name); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return started() == 2 })
	if err := client.Stop(t.Context(), spec.Name); err != nil {
		t.Fatal(err)
	}
	if err := client.StartAgain(t.Context(), "n/other"); err == nil {
		t.Error("a daemon was started of which nothing is known")
	}
	if err := client.Stop(t.Context(), "n/other"); err == nil || !strings.Contains(err.Error(), "n/other") {
		t.Errorf("stopping what never ran gives %v", err)
	}
	spec.Args = []string{"/no/such/program"}
	if err := client.Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("starting what is not there gives %v", err)
	}
}

// await waits until something has happened.
func await(t *testing.T, done func() bool) {
	t.Helper()
	waits.True(t, 10*time.Second, "it happens", done)
}

func TestDial_NodeSocket_Reached(t *testing.T) {
	client := newPair(t)
	file := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", file)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "you ask for %s", r.URL.Path)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	asker := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return client.Dial(ctx, file)
	}}}
	answer, err := asker.Get("http://node/state")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "you ask for /state" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := client.Dial(t.Context(), file+".none"); err == nil || !strings.Contains(err.Error(), "socket.none") {
		t.Errorf("of a socket that is not there: %v", err)
	}
}
