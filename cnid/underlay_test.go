// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nodestatus"
	"github.com/alioth-net/alioth/store"
)

func TestPodsThatAreAddedGetTheMTUThatTheUnderlayHasNow(t *testing.T) {
	l := newLab(t)
	l.start(t)
	for _, m := range l.nodes {
		testnet.In(t, m.NetNS, onLink("eth0", func(link netlink.Link) error { return netlink.LinkSetMTU(link, 1400) }))
		eventually(t, "the node follows", func() error {
			status, err := nodestatus.Fetch(t.Context(), m.cfg.socket())
			if err == nil && status.PodMTU != 1350 {
				err = fmt.Errorf("MTU of pods is %d", status.PodMTU)
			}
			return err
		})
	}
	pod := l.pods["b2"]
	for _, command := range []string{"DEL", "ADD"} {
		if err := l.cni(t, command, pod); err != nil {
			t.Fatal(err)
		}
	}
	testnet.In(t, pod.NetNS, onLink("eth0", func(link netlink.Link) error {
		if link.Attrs().MTU != 1350 {
			t.Errorf("the pod's MTU is %d, want 1350", link.Attrs().MTU)
		}
		return nil
	}))
	if err := l.reaches(t, l.pods["b3"], pod); err != nil {
		t.Error(err)
	}
}

func TestANodeThatGetsAnotherAddressIsFollowed(t *testing.T) {
	l := newLab(t)
	l.start(t)
	conn, _, err := dialFrom(t, l.pods["b1"].NetNS, l.pods["b3"].ip(true))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	testnet.In(t, l.nodes[0].NetNS, onLink("eth0", func(link netlink.Link) error {
		before, err := netlink.ParseAddr("192.0.2.1/24")
		if err != nil {
			return err
		}
		after, err := netlink.ParseAddr("192.0.2.101/24")
		return errors.Join(err, netlink.AddrDel(link, before), netlink.AddrAdd(link, after))
	}))
	for _, m := range l.nodes {
		m.say(t, script{Nodes: []store.Node{nodeRow("node1", "192.0.2.101", "2001:db8::1")}})
	}
	eventually(t, "everything works again", func() error { return l.works(t) })
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("hello"))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		t.Errorf("the connection from before: %q, %v", got, err)
	}
}
