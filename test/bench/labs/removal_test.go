// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package labs

import (
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// TestNamespaceRemoval_ManyEnded_DevicesGone ends many namespaces, each with a peer of a device,
// and finds none of these devices after the wait.
func TestNamespaceRemoval_ManyEnded_DevicesGone(t *testing.T) {
	const many = 40
	node := netnstest.New(t)
	for i := range many {
		endPod(t, node, fmt.Sprintf("peer%d", i))
	}
	if err := namespacesRemoved(t.Context()); err != nil {
		t.Fatal(err)
	}
	node.Do(t, func() error {
		links, err := rtnl.Complete(netlink.LinkList)
		for _, link := range links {
			if link.Type() == "veth" {
				t.Errorf("%s is still there", link.Attrs().Name)
			}
		}
		return err
	})
}

// endPod makes a namespace with a peer of a device of the node, and ends it.
func endPod(t *testing.T, node *netnstest.Namespace, device string) {
	t.Helper()
	pod := netnstest.New(t)
	space, err := netns.Open(pod.Path)
	if err != nil {
		t.Fatal(err)
	}
	node.Do(t, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = device
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(space.Fd())})
	})
	_ = space.Close()
	pod.Close(t)
}
