// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

// claim returns the UID of the Address of a pod. The UID changes when the Address is deleted and
// made anew.
func (n *apiNode) claim(t *testing.T, p *labPod) types.UID {
	t.Helper()
	address, err := n.address(p)
	if err != nil || address == nil {
		t.Fatalf("the Address of %s is %v, %v", p.name, address, err)
	}
	return address.UID
}

// another returns the pod in another sandbox.
func another(t *testing.T, p *labPod, sandbox string) *labPod {
	t.Helper()
	next := *p
	next.NetNS, next.sandbox = testnet.New(t), sandbox
	return &next
}

func reached(t *testing.T, from, to *labPod) error {
	t.Helper()
	conn, got, err := dialFrom(t, from.NetNS, to.ip(ipfamily.IPv4))
	if err != nil {
		return err
	}
	conn.Close()
	if got != to.name {
		return fmt.Errorf("answered by %q", got)
	}
	return nil
}

func TestSandbox_Replaced_PodAddressKept(t *testing.T) {
	n := newAPINode(t, "api-sandboxes")
	n.vpc(t, "sandboxes", 56)
	n.start(t)
	client := n.pod(t, "sandboxes-client", "sandboxes", "10.10.1.20", nil)
	p := n.pod(t, "sandboxes-a", "sandboxes", "10.10.1.10", nil)
	for _, pod := range []*labPod{client, p} {
		n.decide(t, pod)
	}
	if err := n.lab.cni(t, "ADD", client); err != nil {
		t.Fatal(err)
	}
	held := n.claim(t, p)

	// Each ADD fails, and the runtime takes its sandbox down.
	for i := range 3 {
		failing := another(t, p, fmt.Sprintf("failing%d", i))
		testnet.In(t, failing, func() error {
			return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0", TxQLen: -1}, PeerName: "other"})
		})
		if err := n.lab.cni(t, "ADD", failing); err == nil {
			t.Fatal("ADD succeeds where it can't")
		}
		if err := n.lab.cni(t, "DEL", failing); err != nil {
			t.Fatal(err)
		}
	}
	first := another(t, p, "first")
	if err := n.lab.cni(t, "ADD", first); err != nil {
		t.Fatalf("ADD after three that failed: %v", err)
	}

	// Its pause container is killed.
	if err := n.lab.cni(t, "DEL", first); err != nil {
		t.Fatal(err)
	}
	second := another(t, p, "second")
	if err := n.lab.cni(t, "ADD", second); err != nil {
		t.Fatalf("ADD after the pause container was killed: %v", err)
	}

	// The DEL of the old sandbox comes after the ADD of the new one.
	third := another(t, p, "third")
	if err := errors.Join(n.lab.cni(t, "ADD", third), n.lab.cni(t, "DEL", second)); err != nil {
		t.Fatal(err)
	}
	third.serve(t)
	if err := reached(t, client, third); err != nil {
		t.Errorf("the pod in its last sandbox: %v", err)
	}
	if now := n.claim(t, p); now != held {
		t.Errorf("its Address is another one")
	}
	n.deletePod(t, p)
	if err := n.lab.cni(t, "DEL", third); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Address is deleted", func() error { return n.addressGone(p) })
}

func TestRelease_DelayedByAPIServer_NextHolderKept(t *testing.T) {
	n := newAPINode(t, "api-next")
	n.vpc(t, "next", 57)
	n.start(t)
	p, last := n.pod(t, "next-a", "next", "10.10.1.10", nil), n.pod(t, "next-b", "next", "10.10.1.11", nil)
	for _, pod := range []*labPod{p, last} {
		n.decide(t, pod)
		if err := n.lab.cni(t, "ADD", pod); err != nil {
			t.Fatal(err)
		}
	}
	before, err := n.address(p)
	if err != nil {
		t.Fatal(err)
	}
	n.link.cut()
	for _, pod := range []*labPod{p, last} {
		if err := n.lab.cni(t, "DEL", pod); err != nil {
			t.Fatal(err)
		}
		n.deletePod(t, pod)
	}
	// Somebody else released the address, and a pod of the same name holds it.
	n.deleteAddress(t, p)
	next := n.pod(t, "next-a", "next", "10.10.1.10", nil)
	address := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: before.Name}, Spec: before.Spec}
	address.Spec.Holder.UID = string(n.get(t, next).UID)
	n.create(t, address)
	n.link.restore()
	// The queue is worked off in one pass, so the other one was looked at too.
	eventually(t, "the other Address is deleted", func() error { return n.addressGone(last) })
	if now := n.claim(t, next); now != address.UID {
		t.Error("the next holder's Address was deleted")
	}
}
