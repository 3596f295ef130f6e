// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package macvlan_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/child/childtest"
	"github.com/alioth-net/alioth/cnid/cni/drivers/macvlan"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/waits"
)

// TestMacvlan_PathMissing_InterfaceFound is about a daemon that does not see the mounts of
// the runtime.
func TestMacvlan_PathMissing_InterfaceFound(t *testing.T) {
	n, _ := childtest.NewNode(t, macvlan.Devices)
	pod := netnstest.New(t)
	s := childtest.Spec(pod)
	childtest.MustAttach(t, n, s)
	handle, err := ns.GetNS(pod.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { handle.Close() })
	pod.Close(t) // the handle keeps the namespace
	if _, err := n.Driver.Check(t.Context(), s); !errors.Is(err, ifdriver.ErrMismatch) || errors.Is(err, ifdriver.ErrGone) {
		t.Errorf("check gives %v, want an ErrMismatch for an interface that exists", err)
	}
	want := []ifdriver.Found{{ContainerID: s.ContainerID, IfName: "eth0", PodUID: "uid", Network: "alioth", NetnsPath: s.NetnsPath, MTU: 1500}}
	if got, err := n.Driver.List(t.Context()); err != nil || !cmp.Equal(got, want) {
		t.Errorf("listed are %+v, %v", got, err)
	}
	if err := n.Driver.Detach(t.Context(), s.ContainerID, s.IfName); err != nil {
		t.Error(err)
	}
	if err := handle.Do(func(ns.NetNS) error {
		if _, err := netlink.LinkByName("eth0"); err == nil {
			t.Error("the interface is left")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if _, err := n.Driver.Check(t.Context(), s); !errors.Is(err, ifdriver.ErrGone) {
		t.Errorf("afterwards check gives %v", err)
	}
}

func TestList_AttachedAndOtherInterfaces_OnlyAttachedFound(t *testing.T) {
	n, _ := childtest.NewNode(t, macvlan.Devices)
	pod, other, ended, forger := netnstest.New(t), netnstest.New(t), netnstest.New(t), netnstest.New(t)
	var want []ifdriver.Found
	for i, space := range []*netnstest.Namespace{pod, other, ended, forger} {
		s := childtest.Spec(space, fmt.Sprintf("192.0.2.%d/24", i+10))
		s.ContainerID, s.PodUID, s.IfName, s.Request = fmt.Sprint("container", i), fmt.Sprint("uid", i), "net1", "eth0"
		link := childtest.MustAttach(t, n, s)
		if space != ended {
			want = append(want, ifdriver.Found{
				ContainerID: s.ContainerID, IfName: "net1", Request: "eth0", PodUID: s.PodUID, Network: "alioth", NetnsPath: space.Path, MTU: 1500, Link: link,
			})
		}
	}
	ended.Close(t)
	mark := pod.Link(t, "net1").Attrs().Alias
	forger.Do(t, netnstest.OnLink("net1", func(l netlink.Link) error { // as a pod with CAP_NET_ADMIN can
		another := &netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "net2", TxQLen: -1, ParentIndex: l.Attrs().Index}, Mode: netlink.MACVLAN_MODE_BRIDGE}
		return errors.Join(netlink.LinkAdd(another), netlink.LinkSetAlias(another, strings.Replace(mark, "container0", "container9", 1)))
	}))
	if err := os.WriteFile(n.Dir+"/macvlan/damaged.json", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.Start(t)
	// The kernel removes an ended namespace a moment after its last path.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	diff := "not listed"
	for end := time.Now().Add(waits.Limit(20 * time.Second)); diff != "" && time.Now().Before(end); <-tick.C {
		got, err := n.Driver.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		diff = cmp.Diff(want, got)
	}
	if diff != "" {
		t.Errorf("listed are (-want +got):\n%s", diff)
	}
	if got := n.Notes(t); len(got) != 4 { // the note of the ended namespace is gone
		t.Errorf("notes are %v", got)
	}
	other.Do(t, netnstest.OnLink("net1", netlink.LinkDel))
	want = append(want[:1], want[2:]...)
	if got, err := n.Driver.List(t.Context()); err != nil || !cmp.Equal(got, want) {
		t.Errorf("without a deleted one: %+v, %v", got, err)
	}
}
