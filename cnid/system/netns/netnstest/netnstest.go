// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netnstest gives tests network namespaces that go away with the test,
// and with the process should it be killed: nothing is mounted.
package netnstest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

// Namespace is a network namespace held by a thread of its own.
type Namespace struct {
	// Path refers to the namespace, in other processes too, until Close.
	Path string
	end  chan struct{}
}

// New returns an empty network namespace with lo down. It needs CAP_SYS_ADMIN and skips the test
// without.
func New(t testing.TB) *Namespace {
	t.Helper()
	needs.Root(t, "to make network namespaces")
	n := &Namespace{end: make(chan struct{})}
	ready := make(chan error)
	go n.hold(ready)
	err := <-ready
	if errors.Is(err, unix.EPERM) {
		t.Skip("needs CAP_SYS_ADMIN, to make network namespaces")
	}
	if err != nil {
		t.Fatalf("make network namespace: %v", err)
	}
	t.Cleanup(func() { n.Close(t) })
	return n
}

// Current returns the network namespace of the calling thread, such as the namespace of the
// machine.
func Current(t testing.TB) *Namespace {
	t.Helper()
	space, err := ns.GetCurrentNS()
	if err != nil {
		t.Fatalf("open the network namespace: %v", err)
	}
	t.Cleanup(func() { _ = space.Close() })
	n := &Namespace{Path: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), space.Fd()), end: make(chan struct{})}
	close(n.end) // it is not this one's to end
	return n
}

// hold keeps the namespace on a thread that ends with the goroutine, because
// it stays locked.
func (n *Namespace) hold(ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The process's first thread never ends; take another while this
		// one is busy.
		done := make(chan struct{})
		go func() { defer close(done); n.hold(ready) }()
		<-done
		runtime.UnlockOSThread()
		return
	}
	n.Path = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
	ready <- unix.Unshare(unix.CLONE_NEWNET)
	<-n.end
}

// Close lets go of the namespace and returns when Path is gone. It may be
// called again.
func (n *Namespace) Close(t testing.TB) {
	t.Helper()
	select {
	case <-n.end:
		return
	default:
		close(n.end)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(waits.Limit(10 * time.Second))
	for {
		if _, err := os.Stat(n.Path); errors.Is(err, os.ErrNotExist) {
			return
		}
		select {
		case <-deadline:
			t.Errorf("network namespace %s is still there", n.Path)
			return
		case <-tick.C:
		}
	}
}

// Do runs f on a thread inside the namespace and fails the test with its error.
func (n *Namespace) Do(t testing.TB, f func() error) {
	t.Helper()
	if err := ns.WithNetNSPath(n.Path, func(ns.NetNS) error { return f() }); err != nil {
		t.Fatalf("in network namespace %s: %v", n.Path, err)
	}
}
