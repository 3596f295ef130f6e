// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// inRed returns an interface on the VXLAN link of onVXLAN, with this last number in its address.
func inRed(name string, number byte) netif.Interface {
	return netif.Interface{
		Name: name, Kind: "macvlan", Outside: "DanmNet/ns/red", OutsideUID: "uid-red", MAC: fmt.Sprintf("0a:00:00:00:00:%02x", number),
		Addresses: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 99, 0, number}), 24)},
		Link:      &netif.Config{Parent: "eth0", VXLAN: 700, IPv6: netif.IPv6Off},
	}
}

// onVXLAN makes both nodes of a lab create a VXLAN link, and a pod on each, with an interface on
// it.
func (l *lab) onVXLAN(t *testing.T) (near, far *labPod) {
	t.Helper()
	name := v1alpha1.HostLinkName(multinet.VXLAN, 700, "eth0")
	row := multinet.HostLink{Meta: meta(name), Name: name, LinkID: multinet.LinkID{Device: "eth0", Type: multinet.VXLAN, VNI: 700}, NetworkID: "red"}
	var pods [2]*labPod
	for i, m := range l.nodes {
		reported := inRed("eth0", byte(i+1))
		prefix := reported.Addresses[0]
		text, err := annotations.FormatAttachments([]netif.Interface{reported})
		if err != nil {
			t.Fatal(err)
		}
		pod := &labPod{NetNS: testnet.New(t), name: fmt.Sprint("red", i), uid: fmt.Sprint("red", i), node: m, addrs: []netip.Prefix{prefix}}
		m.script.HostLinks = append(m.script.HostLinks, row)
		m.script.Pods = append(slices.Clone(m.script.Pods), store.Pod{
			Meta: meta(pod.uid), Namespace: "ns", Name: pod.name, Node: m.cfg.NodeName, Attachments: text, NetworkReady: true, Reason: v1alpha1.AttachedReason,
		})
		pods[i], l.pods[pod.name] = pod, pod
	}
	return pods[0], pods[1]
}

// redLink returns the index of the link of onVXLAN on a node.
func redLink(t *testing.T, m *machine) (index int, err error) {
	t.Helper()
	testnet.In(t, m.NetNS, func() error {
		var link netlink.Link
		if link, err = netlink.LinkByName("vx_red"); err == nil {
			index = link.Attrs().Index
		}
		return nil
	})
	return index, err
}

// TestHostLink_PodsOnTwoNodes_Connected leads a link through a daemon's life: it is made
// before the first pod, outlives a killed daemon, is made anew when somebody deletes it, with
// the interfaces on it, and goes when nobody wants it.
func TestHostLink_PodsOnTwoNodes_Connected(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	near, far := l.onVXLAN(t)
	node := l.nodes[0]
	node.cfg.RecheckEvery = time.Hour // no recheck comes in time
	l.start(t)
	eventually(t, "the link is made", func() error { _, err := redLink(t, node); return err })
	for _, pod := range []*labPod{near, far} {
		if err := l.cni(t, "ADD", pod); err != nil {
			t.Fatal(err)
		}
	}
	far.serve(t)
	eventually(t, "the pods reach each other", func() error { return l.reaches(t, near, far) })

	before, err := redLink(t, node)
	if err != nil {
		t.Fatal(err)
	}
	node.stop(unix.SIGKILL)
	node.start(t)
	if err := errors.Join(l.cni(t, "ADD", near), l.reaches(t, near, far)); err != nil { // the interface is found intact
		t.Errorf("after a kill: %v", err)
	}
	if after, err := redLink(t, node); err != nil || after != before {
		t.Errorf("device %d has become %d, %v", before, after, err)
	}
	testnet.In(t, node.NetNS, netnstest.OnLink("vx_red", netlink.LinkSetDown))
	eventually(t, "the link is up again", func() error { return l.reaches(t, near, far) })
	testnet.In(t, node.NetNS, netnstest.OnLink("vx_red", netlink.LinkDel))
	eventually(t, "the link and the interface on it are there again", func() error { return l.reaches(t, near, far) })

	for _, pod := range []*labPod{near, far} {
		if err := l.cni(t, "DEL", pod); err != nil {
			t.Error(err)
		}
	}
	node.say(t, script{NoHostLinks: true})
	eventually(t, "the link is gone", func() error {
		if _, err := redLink(t, node); err == nil {
			return errors.New("it is there")
		}
		return nil
	})
}
