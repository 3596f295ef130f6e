// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/needs"
)

func TestJournal_Unwritable_ADDThenSTATUSFail(t *testing.T) {
	r := newRig(t)
	p, next := r.newPod(t, 1), r.newPod(t, 2)
	r.add(t, p)
	if err := r.journal.Close(); err != nil {
		t.Fatal(err)
	}
	writable := readOnly(t, filepath.Dir(r.path))
	start := func(lasting time.Duration) {
		t.Helper()
		r.limits.Lasting = lasting
		r.start(t, newRegistry())
	}
	start(time.Hour)
	resp := r.server.Do(t.Context(), next.request("ADD"))
	if resp.Error == nil || !strings.Contains(resp.Error.Msg, "read-only") || !strings.Contains(resp.Error.Msg, "make room") {
		t.Errorf("ADD: %+v, want cause and remedy", resp.Error)
	}
	if err := r.server.Ready(); err != nil {
		t.Errorf("STATUS at first: %v", err)
	}
	if err := r.journal.Close(); err != nil {
		t.Fatal(err)
	}
	start(time.Nanosecond)
	if err := r.server.Ready(); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("STATUS in the end: %v", err)
	}
	r.del(t, p) // as the runtime may
	r.expectEmpty(t)
	writable()
	if err := r.manager.Reconcile(t.Context()); err != nil {
		t.Errorf("reconcile: %v", err)
	}
	if err := r.server.Ready(); err != nil {
		t.Errorf("STATUS after it was mended: %v", err)
	}
	r.add(t, next)
	r.expectAttached(t, next)
}

// readOnly makes a directory read-only until the returned function is called,
// and at the latest until the test ends.
func readOnly(t *testing.T, dir string) (end func()) {
	t.Helper()
	needs.Root(t, "to mount")
	err := unix.Mount(dir, dir, "", unix.MS_BIND, "")
	if err == nil {
		err = unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return end
}
