// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/pair"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

func TestList_AttachedAndOtherInterfaces_OnlyAttachedFound(t *testing.T) {
	everyKind(t, testListFindsWhatWasAttachedAndNothingElse)
}

func testListFindsWhatWasAttachedAndNothingElse(t *testing.T, kind pair.Devices) {
	n, pod, other := newNode(t, kind), netnstest.New(t), netnstest.New(t)
	s := spec(pod)
	// As long as the runtimes' are.
	s.ContainerID, s.PodUID, s.Network = strings.Repeat("c0ffee00", 8), "0b8f2f3e-9a8c-4d3e-8a50-6d6c1f6f2a11", "alioth"
	s.Description = strings.Repeat("n", 63) + "/" + strings.Repeat("p", 253)
	made, err := n.attacher.Attach(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	moved := spec(other)
	moved.ContainerID, moved.PodUID, moved.Network = "another", "uid", "alioth"
	movedLink, err := n.attacher.Attach(t.Context(), moved)
	if err != nil {
		t.Fatal(err)
	}
	unmarked := spec(netnstest.New(t)) // no pod's UID
	unmarked.ContainerID = "unmarked"
	if _, err := n.attacher.Attach(t.Context(), unmarked); err != nil {
		t.Fatal(err)
	}
	n.Do(t, func() error {
		link, err := netlink.LinkByName(made.HostIfName)
		return errors.Join(err, netlink.LinkSetGroup(link, 0), forge(made.HostIfName)) // as an earlier release made it
	})
	want := []ifdriver.Found{
		{ContainerID: s.ContainerID, IfName: "eth0", PodUID: s.PodUID, Network: "alioth", NetnsPath: pod.Path, MTU: 1450, Link: made},
		{ContainerID: "another", IfName: "eth0", PodUID: "uid", Network: "alioth", NetnsPath: other.Path, MTU: 1450, Link: movedLink},
	}
	got, err := n.attacher.List(t.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for name, group := range map[string]uint32{made.HostIfName: hostdev.PodGroup, "alvforged": 0} {
		if has := n.Link(t, name).Attrs().Group; has != group {
			t.Errorf("the group of %s is %d, want %d", name, has, group)
		}
	}
}

// forge gives the mark of one of our devices to another one.
func forge(of string) error {
	original, err := netlink.LinkByName(of)
	if err != nil {
		return err
	}
	forged := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "alvforged", TxQLen: -1}, PeerName: "peer"}
	if err := netlink.LinkAdd(forged); err != nil {
		return err
	}
	return netlink.LinkSetAlias(forged, original.Attrs().Alias)
}

func TestList_PathLeadsElsewhere_NotBelieved(t *testing.T) {
	everyKind(t, testListDoesNotBelieveAPathThatLeadsElsewhere)
}

func testListDoesNotBelieveAPathThatLeadsElsewhere(t *testing.T, kind pair.Devices) {
	n, pod := newNode(t, kind), netnstest.New(t)
	s := spec(pod)
	s.PodUID, s.Network = "uid", "alioth"
	made, err := n.attacher.Attach(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := netnstest.New(t)
	n.Do(t, func() error {
		link, err := netlink.LinkByName(made.HostIfName)
		if err != nil {
			return err
		}
		return netlink.LinkSetAlias(link, strings.Replace(link.Attrs().Alias, pod.Path, elsewhere.Path, 1))
	})
	got, err := n.attacher.List(t.Context())
	if err != nil || len(got) != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got[0].Link.NetnsCookie != 0 || got[0].Link.NetnsInode != 0 || got[0].Link.HostIfindex != made.HostIfindex {
		t.Errorf("the link is %+v, want one without namespace", got[0].Link)
	}
}
