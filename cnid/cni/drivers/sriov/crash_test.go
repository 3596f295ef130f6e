// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"fmt"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
	"github.com/alioth-net/alioth/test/killed"
)

// stages are the steps of an attachment, in their order.
var stages = []string{"the note", "down", "half of the settings", "all settings", "the address", "the move", "the name"}

// until makes an attachment as far as a stage, as a process that ends there does.
func (n *node) until(t *testing.T, stage string, s ifdriver.Spec) {
	t.Helper()
	err := n.with(t.Context(), func(d *session) error { return d.until(stage, s) })
	if err != nil {
		t.Fatal(err)
	}
}

func (d *session) until(stage string, s ifdriver.Spec) error {
	pod, err := netns.Open(s.NetnsPath)
	if err != nil {
		return err
	}
	defer func() { _ = pod.Close() }()
	f, err := d.sys.function(s.PCI)
	if err != nil {
		return err
	}
	p, now, err := d.pf(f)
	if err != nil {
		return err
	}
	n, link, err := d.note(pod, f, now, s)
	if err != nil {
		return err
	}
	want := wanted(now, s)
	steps := firm(now, want)
	for _, one := range []struct {
		name string
		do   func() error
	}{
		{"the note", func() error { return d.notes.Put(n) }},
		{"down", func() error { return d.host.LinkSetDown(link) }},
		{"half of the settings", func() error { return apply(p, want, steps[:1]) }},
		{"all settings", func() error { return apply(p, want, steps) }},
		{"the address", func() error { return d.address(link, s.MAC) }},
		{"the move", func() error { return d.send(link, pod, n) }},
		{"the name", func() error { return podside.Within(pod, func(h *rtnl.Socket) error { return configure(h, n, s) }) }},
	} {
		if err := one.do(); err != nil || one.name == stage {
			return err
		}
	}
	return fmt.Errorf("no stage %q", stage)
}

func TestAttach_CrashAtEachStep_Undone(t *testing.T) {
	n := newNode(t, 1)
	vf := n.vfs[0]
	if err := netnstest.OnLink(vf.Device(t), netlink.LinkSetUp)(); err != nil { // as an administrator may have it
		t.Fatal(err)
	}
	before := n.stateOf(t, vf)
	for _, stage := range stages {
		for name, goOn := range map[string]func(*netnstest.Namespace, ifdriver.Spec){
			"DEL":                           func(*netnstest.Namespace, ifdriver.Spec) {},
			"the next attempt":              func(_ *netnstest.Namespace, s ifdriver.Spec) { n.mustAttach(t, s) },
			"DEL after the namespace ended": func(pod *netnstest.Namespace, _ ifdriver.Spec) { pod.Close(t) },
		} {
			t.Run(stage+", then "+name, func(t *testing.T) {
				pod := netnstest.New(t)
				s := spec(pod, vf)
				n.until(t, stage, s)
				n.start(Config{})
				goOn(pod, s)
				n.mustDetach(t, s)
				n.asBefore(t, vf, before)
			})
		}
	}
}

// attaching is the job of a process that attaches and detaches until it is killed.
type attaching struct {
	Dir  string
	Spec ifdriver.Spec
}

// TestAttach_HelperProcess_RunsUntilKilled is the work of the process that the next test kills.
func TestAttach_HelperProcess_RunsUntilKilled(t *testing.T) {
	var job attaching
	if !killed.Working(t, &job) {
		return
	}
	n := &node{t: t, dir: job.Dir}
	n.start(Config{})
	killed.Began()
	for {
		n.mustAttach(t, job.Spec)
		n.mustDetach(t, job.Spec)
	}
}

// TestSRIOV_ProcessKilledAtEachMoment_DeviceRestored kills a daemon's process in the
// middle of an attachment or its removal. Another one removes what is left.
func TestSRIOV_ProcessKilledAtEachMoment_DeviceRestored(t *testing.T) {
	n := newNode(t, 1)
	vf := n.vfs[0]
	before := n.stateOf(t, vf)
	pod := netnstest.New(t)
	s := spec(pod, vf)
	start := time.Now()
	n.mustAttach(t, s)
	n.mustDetach(t, s)
	killed.AtAnyMoment(t, "TestAttach_HelperProcess_RunsUntilKilled", attaching{n.dir, s}, 2*time.Since(start), func() {
		n.start(Config{})
		n.mustDetach(t, s)
		n.asBefore(t, vf, before)
		if left := pod.Links(t); len(left) != 0 {
			t.Fatalf("%v are left in the pod", left)
		}
	})
}
