// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/engine"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/bench/figures"
)

// idleRounds is how often an idle minute is measured, on a node with so many interfaces.
const idleRounds, idleInterfaces = 5, 100

// TestFigures_IdleHandler_ResourcesMeasured measures, for `make bench` alone, the processor time of a handler
// with its watch during a minute without changes.
func TestFigures_IdleHandler_ResourcesMeasured(t *testing.T) {
	figures.Wanted(t)
	space := netnstest.New(t)
	w := newWorld()
	cfg := w.config()
	space.Do(t, func() error {
		for n := range idleInterfaces / 2 {
			veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("v%d", n), MTU: 1500}, PeerName: fmt.Sprintf("w%d", n)}
			if err := netlink.LinkAdd(veth); err != nil {
				return err
			}
		}
		e, err := engine.Open(engine.Config{Dir: t.TempDir(), Log: t.Output()})
		if err == nil {
			t.Cleanup(e.Close)
		}
		cfg.Engine = e
		return err
	})
	defer w.runIn(t.Context(), t, space, cfg)()
	w.await(t.Context(), t, "the object is made", func() bool { return w.object != nil && w.object.Status.CurrentState != nil })
	for range idleRounds {
		before := processorTime(t)
		<-time.After(time.Minute)
		took := processorTime(t) - before
		line := figures.Line{What: "an idle minute of the handler", Path: figures.Alioth, Values: figures.Series{took.Seconds() * 1000}}
		if err := line.Print(os.Stdout); err != nil {
			t.Fatal(err)
		}
	}
}

// processorTime returns the CPU time that this process has used so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
