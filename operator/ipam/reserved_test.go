// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

// instance has reserved addresses of VPC blue for the PodNetwork net.
func instance(name string, reserved ...string) *nodeipam.Instance {
	return &nodeipam.Instance{
		Meta: store.Meta{UID: name}, Ref: nodeipam.Ref{Group: "g", Namespace: "shop", Name: name}, Ready: true,
		Reserved: []nodeipam.Reserved{{PodNetwork: "net", VPC: "blue", IPs: ips(reserved...)}},
	}
}

// newReserved returns a store with a subnet whose first free address, .2, is reserved with .4.
func newReserved(t *testing.T, rows ...any) *store.Store {
	t.Helper()
	s := newStore(t, append([]any{subnet(1, "net1", "10.0.1.0/24")}, rows...)...)
	update(t, s, func(tx store.Tx) error { return nodeipam.PutInstance(tx, instance("pni", "10.0.1.2", "10.0.1.4")) })
	return s
}

func TestReservedAddress_PodOfOtherInstance_NotGiven(t *testing.T) {
	own := ipam.Request{Instance: "shop/pni", PodNetwork: "net"}
	with := func(req ipam.Request, texts ...string) ipam.Request {
		req.IPs = ips(texts...)
		return req
	}
	for name, c := range map[string]struct {
		held []any
		req  ipam.Request
		want string // an address, or a part of the refusal
	}{
		"another pod":                              {nil, ipam.Request{}, "10.0.1.3"},
		"another pod that asks for one":            {nil, with(ipam.Request{}, "10.0.1.2"), "reserved by PodNetworkInstance shop/pni"},
		"a pod of the instance":                    {nil, own, "10.0.1.2"},
		"a pod of the instance that asks for one":  {nil, with(own, "10.0.1.4"), "10.0.1.4"},
		"when one is taken":                        {[]any{held("blue", "net1", "10.0.1.2", "n1")}, own, "10.0.1.4"},
		"when all are taken":                       {[]any{held("blue", "net1", "10.0.1.2", "n1"), held("blue", "net1", "10.0.1.4", "n1")}, own, "has no free address"},
		"of the instance, in another PodNetwork":   {nil, ipam.Request{Instance: "shop/pni", PodNetwork: "other"}, "10.0.1.2"},
		"of an instance of that name, not of here": {nil, ipam.Request{Instance: "bank/pni", PodNetwork: "net"}, "PodNetworkInstance bank/pni is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := choose(newReserved(t, c.held...), c.req)
			if ip, parse := netip.ParseAddr(c.want); parse == nil {
				if err != nil || len(result.IPs) != 1 || result.IPs[0] != ip {
					t.Errorf("got %v, %v, want %s", result.IPs, err, ip)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v, want %q", result.IPs, err, c.want)
			}
		})
	}
}

func TestReserve_AddressesHeld_OnlyFreeOnes(t *testing.T) {
	s := newReserved(t, held("blue", "net1", "10.0.1.3", "n1"))
	s.View(func(tx store.ReadTx) {
		of := store.GetSubnet(tx, "net1")
		if diff := cmp.Diff(ips("10.0.1.5", "10.0.1.6"), ipam.Reserve(tx, of, ipfamily.IPv4, 2), equalIPs); diff != "" {
			t.Errorf("reserved (-want +got):\n%s", diff)
		}
		if got := ipam.Reserve(tx, of, ipfamily.IPv4, 500); len(got) != 250 { // 254 hosts without the gateway, the pod and the instance's two
			t.Errorf("of a whole subnet %d are reserved, want 250", len(got))
		}
		if got := ipam.Reserve(tx, of, ipfamily.IPv6, 1); len(got) != 0 {
			t.Errorf("of a family that the subnet lacks %v are reserved", got)
		}
		for ip, want := range map[string]string{
			"10.0.1.9": "", "10.0.1.2": "reserved by PodNetworkInstance shop/pni", "10.0.1.3": "10.0.1.3 is", "10.0.1.1": "gateway", "10.0.2.1": "not in subnet net1",
		} {
			err := ipam.Reservable(tx, of, "shop/other", netip.MustParseAddr(ip))
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", ip, err, want)
			}
		}
		if err := ipam.Reservable(tx, of, "shop/pni", netip.MustParseAddr("10.0.1.2")); err != nil {
			t.Errorf("its own: %v", err)
		}
	})
}

func TestDevice_TwoAttachmentsOnNode_Distinct(t *testing.T) {
	const a, b = "00:0d:3a:00:00:01", "00:0d:3a:00:00:02"
	with := func(ip, node, mac string, external bool) *store.Address {
		row := held("blue", "net1", ip, node)
		row.MAC, row.External = mac, external
		return row
	}
	taken := with("10.0.1.20", "n1", a, true)
	for name, c := range map[string]struct {
		rows    []any
		devices []string
		want    string
	}{
		"the first":                          {nil, []string{a, b}, a},
		"the next where one is in use":       {[]any{taken}, []string{a, b}, b},
		"one of another node's":              {[]any{with("10.0.1.20", "n2", a, true)}, []string{a, b}, a},
		"an address that is no device's":     {[]any{with("10.0.1.20", "n1", a, false)}, []string{a, b}, a},
		"none where all are in use":          {[]any{taken, with("10.0.1.21", "n1", b, true)}, []string{a, b}, "offers 2, and all are in use"},
		"none where the node offers nothing": {nil, []string{}, "offers none"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, append([]any{subnet(1, "net1", "10.0.1.0/24")}, c.rows...)...)
			result, err := choose(s, ipam.Request{Node: "n1", External: true, Devices: c.devices, Attachment: "eth1"})
			var refusal *ipam.Error
			switch {
			case strings.Contains(c.want, ":") && (err != nil || result.MAC != c.want || result.Rows[0].MAC != c.want):
				t.Errorf("got %q, %v, want %q", result.MAC, err, c.want)
			case !strings.Contains(c.want, ":") && (!errors.As(err, &refusal) || refusal.Reason != v1alpha1.NodeCapacityReason || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestDevice_ChosenAgain_Kept(t *testing.T) {
	const mac = "00:0d:3a:00:00:01"
	s := newStore(t, subnet(1, "net1", "10.0.1.0/24"))
	holder := store.Holder{Kind: store.HolderPod, Namespace: "shop", Name: "web", UID: "u"}
	req := ipam.Request{Node: "n1", Holder: holder, External: true, Devices: []string{mac}, Attachment: "eth1"}
	result, err := choose(s, req)
	if err != nil {
		t.Fatal(err)
	}
	update(t, s, func(tx store.Tx) error { return ipam.Assume(tx, result) })
	if again, err := choose(s, req); err != nil || again.MAC != mac {
		t.Errorf("asked again: %q, %v", again.MAC, err)
	}
	req.Attachment = "eth2"
	if other, err := choose(s, req); err == nil {
		t.Errorf("the pod's other interface has %q too", other.MAC)
	}
}

// TestReservedAddress_InstanceNotReady_NotGiven: it may have changed since the pod's attachments were
// decided.
func TestReservedAddress_InstanceNotReady_NotGiven(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*nodeipam.Instance)
		ready  bool
	}{
		"as it is":       {func(*nodeipam.Instance) {}, true},
		"not Ready":      {func(i *nodeipam.Instance) { i.Ready = false }, false},
		"being deleted":  {func(i *nodeipam.Instance) { i.Deleting = true }, false},
		"of other names": {func(i *nodeipam.Instance) { i.Name = "other" }, false},
	} {
		s := newStore(t, subnet(1, "net1", "10.0.1.0/24"))
		row := instance("pni")
		c.change(row)
		update(t, s, func(tx store.Tx) error { return nodeipam.PutInstance(tx, row) })
		_, err := choose(s, ipam.Request{Instance: "shop/pni", PodNetwork: "net"})
		var refusal *ipam.Error
		if errors.As(err, &refusal) == c.ready || !c.ready && refusal.Reason != v1alpha1.PodNetworkInstanceNotReadyReason {
			t.Errorf("%s: got %v, want an address: %v", name, err, c.ready)
		}
	}
}
