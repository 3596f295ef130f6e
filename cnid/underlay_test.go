// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/waits"
)

// hasMTU returns nil when both ends of the pod's interface have the MTU, in bytes.
func (p *labPod) hasMTU(want int) error {
	has := func(link netlink.Link) error {
		if got := link.Attrs().MTU; got != want {
			return fmt.Errorf("%s of %s has an MTU of %d, want %d", link.Attrs().Name, p.name, got, want)
		}
		return nil
	}
	inside := func(space ns.NetNS, device string) error {
		return space.Do(func(ns.NetNS) error { return netnstest.OnLink(device, has)() })
	}
	return errors.Join(inside(p.NetNS, "eth0"), inside(p.node.NetNS, p.hostEnd()))
}

// sendAndReturn sends bytes to a pod and reads them back.
func sendAndReturn(conn net.Conn, size int) error {
	data, sent := bytes.Repeat([]byte("0123456789abcdef"), size/16), make(chan error, 1)
	go func() {
		_, err := conn.Write(data)
		sent <- err
	}()
	got := make([]byte, len(data))
	_, err := io.ReadFull(conn, got)
	if err := errors.Join(err, <-sent); err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		return errors.New("other bytes came back")
	}
	return nil
}

func TestUnderlay_Changes_RunningPodsFollow(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t)
	b1, b2, b3 := l.pods["b1"], l.pods["b2"], l.pods["b3"]
	var conns []net.Conn
	for _, family := range ipfamily.Both {
		conn, _, err := dialFrom(t, b1.NetNS, b3.ip(family))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	for _, mtu := range []int{1350, 1280, 9000, 1500} {
		for _, m := range l.nodes {
			testnet.In(t, m.NetNS, netnstest.OnLink("eth0", func(link netlink.Link) error { return netlink.LinkSetMTU(link, mtu) }))
		}
		for pod, want := range map[*labPod]int{b1: max(mtu-50, 1280), b2: mtu - 50, b3: max(mtu-50, 1280)} {
			eventually(t, fmt.Sprintf("%s follows to %d", pod.name, mtu), func() error { return pod.hasMTU(want) })
		}
		for _, conn := range conns {
			_ = conn.SetDeadline(time.Now().Add(waits.Limit(20 * time.Second)))
			if err := sendAndReturn(conn, 1<<18); err != nil {
				t.Errorf("underlay of %d, the connection from before to %s: %v", mtu, conn.RemoteAddr(), err)
			}
		}
		eventually(t, "the warning is as it should be", func() error {
			status, err := nodestatus.Fetch(t.Context(), l.nodes[0].cfg.socket())
			warned := slices.ContainsFunc(status.Warnings, func(w string) bool { return strings.Contains(w, "IPv6 needs 1280") })
			if err == nil && warned != (mtu-50 < 1280) {
				err = fmt.Errorf("with an underlay of %d: %q", mtu, status.Warnings)
			}
			return err
		})
	}
	if found := l.differences(t); len(found) > 0 {
		t.Errorf("afterwards: %v", found)
	}
}

func TestUnderlayMTU_PodAddedLater_CurrentMTUUsed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t)
	for _, m := range l.nodes {
		testnet.In(t, m.NetNS, netnstest.OnLink("eth0", func(link netlink.Link) error { return netlink.LinkSetMTU(link, 1400) }))
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
	testnet.In(t, pod.NetNS, netnstest.OnLink("eth0", func(link netlink.Link) error {
		if link.Attrs().MTU != 1350 {
			t.Errorf("the pod's MTU is %d, want 1350", link.Attrs().MTU)
		}
		return nil
	}))
	if err := l.reaches(t, l.pods["b3"], pod); err != nil {
		t.Error(err)
	}
}

func TestNodeAddress_Changes_Followed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t)
	conn, _, err := dialFrom(t, l.pods["b1"].NetNS, l.pods["b3"].ip(ipfamily.IPv4))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	testnet.In(t, l.nodes[0].NetNS, netnstest.OnLink("eth0", func(link netlink.Link) error {
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
