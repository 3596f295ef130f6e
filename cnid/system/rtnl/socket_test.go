// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// loopback is the index of lo in every network namespace (LOOPBACK_IFINDEX).
const loopback = 1

func TestRTNL_ConcurrentCalls_SeparateSockets(t *testing.T) {
	var s *Sockets
	netnstest.New(t).Do(t, func() (err error) {
		s, err = NewSockets()
		return err
	})
	defer s.Close()
	take := func() *Socket {
		t.Helper()
		one, err := s.Take()
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	first, second := take(), take()
	if first == second {
		t.Error("two calls have one socket")
	}
	// It belongs to the namespace of the sockets, not to the caller's.
	if links, err := second.LinkList(); err != nil || len(links) != 1 {
		t.Errorf("the socket sees %d devices (%v), want lo alone", len(links), err)
	}
	s.GiveBack(first)
	if third := take(); third != first {
		t.Error("a socket that was given back is not used again")
	}
	for range idleSockets + 1 {
		another, err := OpenSocket()
		if err != nil {
			t.Fatal(err)
		}
		s.GiveBack(another)
	}
	if len(s.idle) != idleSockets {
		t.Errorf("%d sockets are kept, want %d", len(s.idle), idleSockets)
	}
}

func TestRTNLBatch_RequestsFail_FailedOnesNamed(t *testing.T) {
	netnstest.New(t).Do(t, func() error {
		s, err := OpenSocket()
		if err != nil {
			return err
		}
		defer s.Close()
		const missing = 4711
		var b Batch
		b.SetUp("set the missing one up", missing)
		b.SetUp("set lo up", loopback)
		err = s.Execute(&b)
		if !errors.Is(err, unix.ENODEV) || !strings.HasPrefix(err.Error(), "set the missing one up: ") || strings.Contains(err.Error(), "lo up") {
			t.Errorf("got %v", err)
		}
		lo, err := s.LinkByName("lo")
		if err == nil && lo.Attrs().RawFlags&unix.IFF_UP == 0 {
			t.Error("what follows a request that failed was not done")
		}
		return err
	})
}
