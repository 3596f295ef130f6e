// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/test/testtool/agent"
	"github.com/alioth-net/alioth/test/waits"
)

// serve starts an agent in a folder whose path is longer than an address of unix(7).
func serve(t *testing.T) (path string) {
	t.Helper()
	short := filepath.Join(t.TempDir(), "s")
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	if err := os.Symlink(filepath.Dir(short), long); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(long, filepath.Base(short))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Serve(ctx, short) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(waits.Limit(10 * time.Second)); ; {
		_, err := agent.Run(t.Context(), path, "true")
		if err == nil {
			return path
		}
		if !errors.Is(err, agent.ErrNone) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestAgent_Commands_Run(t *testing.T) {
	path := serve(t)
	for _, tt := range []struct {
		name    string
		command []string
		want    agent.Result
	}{
		{"that print", []string{"sh", "-c", "echo out; echo err >&2"}, agent.Result{Stdout: "out\n", Stderr: "err\n"}},
		{"that fail", []string{"sh", "-c", "echo out; exit 7"}, agent.Result{Stdout: "out\n", Code: 7}},
		{"that a signal ends", []string{"sh", "-c", "kill -9 $$"}, agent.Result{Code: -1}},
		{"that are not there", []string{"/nowhere"}, agent.Result{Failure: "fork/exec /nowhere: no such file or directory"}},
	} {
		got, err := agent.Run(t.Context(), path, tt.command...)
		if diff := cmp.Diff(&tt.want, got); err != nil || diff != "" {
			t.Errorf("commands %s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
}

// TestAgent_ClientGone_CommandEnds: the output of a command ends when the command does.
func TestAgent_ClientGone_CommandEnds(t *testing.T) {
	path := serve(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if result, err := agent.Run(t.Context(), path, "mkfifo", fifo); err != nil || result.Code != 0 {
		t.Fatal(result, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := agent.Run(ctx, path, "sh", "-c", "exec sleep 1000 >"+fifo)
		ended <- err
	}()
	reader, err := os.Open(fifo) // when the command has opened it too
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the client's error is %v", err)
	}
	if n, err := reader.Read(make([]byte, 1)); n != 0 {
		t.Error("the command has written", err)
	}
}

func TestAgent_NotListening_Named(t *testing.T) {
	if _, err := agent.Run(t.Context(), filepath.Join(t.TempDir(), "nobody"), "true"); !errors.Is(err, agent.ErrNone) {
		t.Error(err)
	}
}
