// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// danmNet makes a network with the ranges, which may be "". Its pools are whole.
func danmNet(name, cidr, net6 string) *ipam.NetworkRange {
	n := &ipam.NetworkRange{NetworkRef: store.NetworkRef{
		Group: "danm.k8s.io", Kind: "DanmNet", Namespace: "shop", Name: name, UID: "uid-" + name,
	}}
	if cidr != "" {
		n.V4.Prefix = netip.MustParsePrefix(cidr)
	}
	if net6 != "" {
		n.V6 = ipam.Range{Prefix: netip.MustParsePrefix(net6), EUI64: true}
	}
	return n
}

// pooled narrows the pool of a family.
func pooled(n *ipam.NetworkRange, first, last string) *ipam.NetworkRange {
	r := store.AddrRange{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}
	if r.First.Is4() {
		n.V4.Pool = r
	} else {
		n.V6.Pool, n.V6.EUI64 = r, false
	}
	return n
}

func routed(n *ipam.NetworkRange, gateways ...string) *ipam.NetworkRange {
	n.Reserved = ips(gateways...)
	return n
}

func ofCluster(n *ipam.NetworkRange) *ipam.NetworkRange {
	n.Kind, n.Namespace = "ClusterNetwork", ""
	return n
}

// inNetwork makes an address of a network that a pod of its own holds.
func inNetwork(n *ipam.NetworkRange, ip string) *store.Address {
	row := held("", "", ip, "n1")
	row.Network, row.Name = n.NetworkRef, v1alpha1.AddressName(n.Domain(), row.IP)
	row.UID = row.Name
	return row
}

// ask makes the request of an annotation: "" and "none" request nothing of a family.
func ask(n *ipam.NetworkRange, v4, v6 string) ipam.Request {
	req := ipam.Request{
		Network: n, Attachment: "net1", Node: "n1",
		Holder: store.Holder{Kind: store.HolderPod, Namespace: "shop", Name: "new", UID: "new"},
	}
	for i, text := range []string{v4, v6} {
		switch text {
		case "", "none":
		case "dynamic":
			req.Families.V4, req.Families.V6 = req.Families.V4 || i == 0, req.Families.V6 || i == 1
		default:
			req.IPs = append(req.IPs, netip.MustParseAddr(text))
		}
	}
	return req
}

func chooseIn(s *store.Store, req ipam.Request) (result ipam.Result, err error) {
	s.View(func(tx store.ReadTx) { result, err = ipam.Choose(tx, req) })
	return result, err
}

// eui64Of is the address of the pod "new" at net1 in 2a00:8a00:a000:1193::/64. It is
// written out: 0a and 40 bits of the SHA-256 of "new/net1", with the bit inverted.
const eui64Of = "2a00:8a00:a000:1193:87b:c4ff:fee9:4882"

// TestChooseInNetwork_DANMReservationCases_AsReferenced has the cases of DANM 4.3's own tests of reservation, by
// their numbers in its reference. These are expressed differently:
//
//   - 10 and 22, and the forms with a prefix length in 13 to 16, 19, 23 and 24: the
//     annotation's text is parsed before a request exists, so the request has plain IPs.
//     13, 14: an IP that is in use is refused in each form.
//   - 11, 14: a "full" network is one whose addresses are held, not a bitmap.
//   - 19, 25: net6 without a pool means EUI-64, not the first address.
//   - 27 to 29, 43, 44: one object for each IP has no conflicting update of a network.
//     Package claim has the tests of a creation that finds the name in use.
//   - 31, 32: lastIp is a cursor in the operator's memory, and not in the network.
//   - 34: a gateway is refused as a requested IP too.
//   - 35 to 47: a release deletes one object by name and UID, without a computation.
func TestChooseInNetwork_DANMReservationCases_AsReferenced(t *testing.T) {
	l2, c26 := danmNet("l2", "", ""), danmNet("c26", "192.168.1.64/26", "")
	full, n6 := danmNet("full", "192.168.1.0/30", ""), danmNet("n6", "192.168.1.64/26", "2a00:8a00:a000:1193::/64")
	s6 := danmNet("s6", "", "2a00:8a00:a000:1193::/120")
	narrow := pooled(danmNet("narrow", "192.168.1.64/26", ""), "192.168.1.70", "192.168.1.80")
	gateways := routed(pooled(danmNet("gw", "192.168.1.64/26", "2a00:8a00:a000:1193::/64"), "2a00:8a00:a000:1193::1", "2a00:8a00:a000:1193::ff"),
		"192.168.1.65", "2a00:8a00:a000:1193::1")
	occupied := []any{
		&store.Pod{Meta: store.Meta{UID: "holder"}, Namespace: "shop", Name: "holder"},
		inNetwork(full, "192.168.1.1"),
		inNetwork(full, "192.168.1.2"),
	}
	const none, outside, used, reserved, exhausted = v1alpha1.NoAddressRangeReason, v1alpha1.IPOutsideNetworkReason, v1alpha1.IPInUseReason,
		v1alpha1.IPReservedReason, v1alpha1.NetworkExhaustedReason
	for _, tc := range []struct {
		number  string
		n       *ipam.NetworkRange
		v4, v6  string
		cursor  string
		want    []netip.Addr
		refusal string
	}{
		{number: "1", n: l2},
		{number: "2", n: l2, v4: "none"},
		{number: "3", n: l2, v6: "none"},
		{number: "4", n: l2, v4: "none", v6: "none"},
		{number: "5", n: l2, v4: "dynamic", refusal: none},
		{number: "6", n: l2, v6: "dynamic", refusal: none},
		{number: "7", n: l2, v4: "dynamic", v6: "dynamic", refusal: none},
		{number: "8", n: c26, v4: "dynamic", want: ips("192.168.1.65")},
		{number: "9", n: full, v4: "dynamic", refusal: exhausted},
		{number: "11", n: full, v4: "192.168.1.1", refusal: used},
		{number: "12", n: l2, v4: "192.168.1.1", refusal: none},
		{number: "13", n: full, v4: "192.168.1.1", refusal: used},
		{number: "14", n: full, v4: "192.168.1.2", refusal: used},
		{number: "15", n: c26, v4: "192.168.1.126", want: ips("192.168.1.126")},
		{number: "16", n: c26, v4: "192.168.1.65", want: ips("192.168.1.65")},
		{number: "17", n: c26, v4: "192.168.1.127", refusal: reserved},
		{number: "18", n: c26, v4: "192.168.1.64", refusal: reserved},
		{number: "19", n: n6, v6: "dynamic", want: ips(eui64Of)},
		{number: "20", n: s6, v6: "dynamic", want: ips("2a00:8a00:a000:1193::1")},
		{number: "21", n: full, v6: "2a00:8a00:a000:1193::5", refusal: none},
		{number: "23", n: n6, v6: "2a00:8a00:a000:2193:f816:3eff:fe24:e348", refusal: outside},
		{number: "24", n: n6, v6: "2a00:8a00:a000:1193::3e:1010", want: ips("2a00:8a00:a000:1193::3e:1010")},
		{number: "25", n: n6, v4: "dynamic", v6: "dynamic", want: ips("192.168.1.65", eui64Of)},
		{number: "26", n: n6, v4: "192.168.1.115", v6: "2a00:8a00:a000:1193::3e:2002", want: ips("192.168.1.115", "2a00:8a00:a000:1193::3e:2002")},
		{number: "30", n: narrow, v4: "dynamic", want: ips("192.168.1.70")},
		{number: "31", n: narrow, v4: "dynamic", cursor: "192.168.1.80", want: ips("192.168.1.70")},
		{number: "32", n: narrow, v4: "dynamic", cursor: "192.168.1.79", want: ips("192.168.1.80")},
		{number: "33", n: gateways, v4: "dynamic", v6: "dynamic", want: ips("192.168.1.66", "2a00:8a00:a000:1193::2")},
		{number: "34, IPv4", n: gateways, v4: "192.168.1.65", refusal: reserved},
		{number: "34, IPv6", n: gateways, v6: "2a00:8a00:a000:1193::1", refusal: reserved},
		{number: "47, beside the pool", n: narrow, v4: "192.168.1.69", want: ips("192.168.1.69")},
		{number: "47, beside the range", n: c26, v4: "192.168.1.63", refusal: outside},
	} {
		t.Run(tc.number, func(t *testing.T) {
			s := newStore(t, occupied...)
			if tc.cursor != "" {
				update(t, s, func(tx store.Tx) error {
					return store.SetNetworkCursor(tx, tc.n.Domain(), netip.MustParseAddr(tc.cursor))
				})
			}
			result, err := chooseIn(s, ask(tc.n, tc.v4, tc.v6))
			checkChoice(t, result, err, tc.want, tc.refusal)
		})
	}
}

func checkChoice(t *testing.T, result ipam.Result, err error, want []netip.Addr, reason string) {
	t.Helper()
	var refusal *ipam.Error
	switch {
	case reason == "" && err != nil:
		t.Errorf("refused: %v", err)
	case reason != "" && (!errors.As(err, &refusal) || refusal.Reason != reason):
		t.Errorf("got %v, want a refusal for %s", err, reason)
	case !slices.Equal(result.IPs, want):
		t.Errorf("got %v, want %v", result.IPs, want)
	}
}

func TestChooseInNetwork_Requests_AddressesOrRefusal(t *testing.T) {
	a := pooled(danmNet("a", "10.0.0.0/24", "fd00::/64"), "10.0.0.10", "10.0.0.12")
	shared := danmNet("a", "10.0.0.0/24", "")
	shared.Peers = []string{"uid-b.net", "uid-c.net"}
	peer, stranger := danmNet("b", "10.0.0.0/24", ""), danmNet("d", "10.0.0.0/24", "")
	cluster := ofCluster(pooled(danmNet("x", "10.0.0.0/24", "fd00::/64"), "10.0.0.10", "10.0.0.12"))
	again := danmNet("a", "10.0.0.0/24", "")
	again.UID = "uid-again"
	blue := held("blue", "net1", "10.0.0.10", "n1")
	for name, tc := range map[string]struct {
		rows    []any
		n       *ipam.NetworkRange
		v4, v6  string
		want    []netip.Addr
		refusal string
	}{
		"a VPC's address on the same node is no matter": {rows: []any{blue}, n: a, v4: "dynamic", want: ips("10.0.0.10")},
		"held in the pool":                 {rows: []any{inNetwork(a, "10.0.0.10")}, n: a, v4: "dynamic", want: ips("10.0.0.11")},
		"held beside the pool":             {rows: []any{inNetwork(a, "10.0.0.1")}, n: a, v4: "dynamic", want: ips("10.0.0.10")},
		"held in a network of the segment": {rows: []any{inNetwork(peer, "10.0.0.1")}, n: shared, v4: "dynamic", want: ips("10.0.0.2")},
		"requested, and held in a network of the segment": {
			rows: []any{inNetwork(peer, "10.0.0.1")}, n: shared, v4: "10.0.0.1", refusal: v1alpha1.IPInUseReason,
		},
		"held in a network of another segment": {rows: []any{inNetwork(stranger, "10.0.0.1")}, n: shared, v4: "10.0.0.1", want: ips("10.0.0.1")},
		"a network that is made again inherits nothing": {
			rows: []any{inNetwork(danmNet("a", "", ""), "10.0.0.1")}, n: again, v4: "10.0.0.1", want: ips("10.0.0.1"),
		},
		"requested beside the pool":                     {n: a, v4: "10.0.0.200", want: ips("10.0.0.200")},
		"requested beside the pool of a ClusterNetwork": {n: cluster, v4: "10.0.0.200", refusal: v1alpha1.IPOutsidePoolReason},
		"requested in the pool of a ClusterNetwork":     {n: cluster, v4: "10.0.0.12", want: ips("10.0.0.12")},
		"requested in a ClusterNetwork without a pool":  {n: cluster, v6: "fd00::7", want: ips("fd00::7")},
		"the subnet-router anycast address":             {n: a, v6: "fd00::", refusal: v1alpha1.IPReservedReason},
		"one family of two can't be had": {
			rows: []any{inNetwork(a, "10.0.0.10"), inNetwork(a, "10.0.0.11"), inNetwork(a, "10.0.0.12")},
			n:    a, v4: "dynamic", v6: "dynamic", refusal: v1alpha1.NetworkExhaustedReason,
		},
		"all of the pool is held in the segment": {
			rows: []any{inNetwork(peer, "10.0.0.10"), inNetwork(peer, "10.0.0.11"), inNetwork(peer, "10.0.0.12")},
			n: func() *ipam.NetworkRange {
				n := pooled(danmNet("a", "10.0.0.0/24", ""), "10.0.0.10", "10.0.0.12")
				n.Peers = shared.Peers
				return n
			}(), v4: "dynamic", refusal: v1alpha1.NetworkExhaustedReason,
		},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := chooseIn(newStore(t, tc.rows...), ask(tc.n, tc.v4, tc.v6))
			checkChoice(t, result, err, tc.want, tc.refusal)
			if err != nil && tc.refusal != v1alpha1.IPInUseReason && !strings.Contains(err.Error(), tc.n.String()) {
				t.Errorf("%q does not name %s", err, tc.n)
			}
		})
	}
}

func TestAssumedRows_Network_NameIt(t *testing.T) {
	n := danmNet("a", "10.0.0.0/24", "fd00::/64")
	result, err := chooseIn(newStore(t), ask(n, "10.0.0.9", "fd00::9"))
	if err != nil {
		t.Fatal(err)
	}
	var want []*store.Address
	for i, ip := range ips("10.0.0.9", "fd00::9") {
		want = append(want, &store.Address{
			Name: []string{"uid-a.net.10.0.0.9", "uid-a.net.fd00--9"}[i], Network: n.NetworkRef, IP: ip,
			MAC: ipam.NetworkMAC("new", "net1", 0).String(), Node: "n1", Attachment: "net1", Set: ips("10.0.0.9", "fd00::9"),
			Holder: store.Holder{Kind: store.HolderPod, Namespace: "shop", Name: "new", UID: "new"},
		})
	}
	if diff := cmp.Diff(want, result.Rows, equalIPs); diff != "" || len(result.Cursors) > 0 {
		t.Errorf("cursors %v, rows (-want +got):\n%s", result.Cursors, diff)
	}
}

// An attachment that shares the MAC of a device has no MAC of its own. It has an interface
// identifier of its own all the same: an identifier from the device's MAC would be the same for all
// pods of the device.
func TestInterfaceIdentifier_SharedMAC_Own(t *testing.T) {
	n := danmNet("lan", "10.0.0.0/24", "fd00::/64")
	n.SharedMAC = true
	seen := map[netip.Addr]bool{}
	for _, pod := range []string{"first", "second"} {
		req := ask(n, "dynamic", "dynamic")
		req.Holder.UID = pod
		result, err := chooseIn(newStore(t), req)
		if err != nil {
			t.Fatal(err)
		}
		if result.MAC != "" || len(result.Rows) != 2 || result.Rows[0].MAC != "" || seen[result.IPs[1]] {
			t.Errorf("pod %s gets MAC %q, %v", pod, result.MAC, result.IPs)
		}
		seen[result.IPs[1]] = true
	}
}

// If the address that follows from the MAC is held, the attachment gets another MAC, and an address
// that follows from this MAC.
func TestInterfaceIdentifier_Taken_OtherMAC(t *testing.T) {
	n := danmNet("n6", "", "2a00:8a00:a000:1193::/64")
	peer := danmNet("peer", "", "2a00:8a00:a000:1193::/64")
	for name, tc := range map[string]struct {
		row   *store.Address
		peers []string
	}{
		"in the network":    {row: inNetwork(n, eui64Of)},
		"in the segment":    {row: inNetwork(peer, eui64Of), peers: []string{peer.Domain()}},
		"not in the domain": {row: inNetwork(peer, eui64Of)},
	} {
		t.Run(name, func(t *testing.T) {
			n.Peers = tc.peers
			result, err := chooseIn(newStore(t, tc.row), ask(n, "", "dynamic"))
			if err != nil {
				t.Fatal(err)
			}
			attempt := 1
			if name == "not in the domain" {
				attempt = 0
			}
			mac := ipam.NetworkMAC("new", "net1", attempt)
			ip := result.IPs[0].As16()
			if result.MAC != mac.String() || ip[8] != mac[0]^2 || !slices.Equal(ip[13:], mac[3:]) || mac[0] != 0x0a {
				t.Errorf("got %s with MAC %s, want the MAC %s in it", result.IPs[0], result.MAC, mac)
			}
		})
	}
}

func TestChooseInNetwork_AddressReleased_Rests(t *testing.T) {
	n := pooled(danmNet("a", "10.0.0.0/24", ""), "10.0.0.10", "10.0.0.11")
	req := ask(n, "dynamic", "")
	req.Resting, req.Now = &ipam.Resting{}, epoch
	req.Resting.Add(n.Domain(), ips("10.0.0.10")[0], epoch)
	result, err := chooseIn(newStore(t), req)
	checkChoice(t, result, err, ips("10.0.0.11"), "")
	result, err = chooseIn(newStore(t, inNetwork(n, "10.0.0.11")), req)
	checkChoice(t, result, err, ips("10.0.0.10"), "")
}

func TestCountInNetwork_Addresses_UsedAndFree(t *testing.T) {
	pool := routed(pooled(danmNet("a", "10.0.0.0/24", "fd00::/64"), "10.0.0.0", "10.0.0.12"), "10.0.0.5", "10.0.0.200")
	big := pooled(danmNet("big", "", "fd00::/32"), "fd00::1", "fd00:0:ffff::")
	for name, tc := range map[string]struct {
		n           *ipam.NetworkRange
		family      ipfamily.Family
		free, total int64
	}{
		"a pool":          {n: pool, family: ipfamily.IPv4, free: 9, total: 11},
		"by MAC":          {n: pool, family: ipfamily.IPv6, free: 1 << 53, total: 1 << 53},
		"a large pool":    {n: big, family: ipfamily.IPv6, free: 1 << 53, total: 1 << 53},
		"no range":        {n: big, family: ipfamily.IPv4},
		"a whole range":   {n: danmNet("w", "10.0.0.0/30", ""), family: ipfamily.IPv4, free: 2, total: 2},
		"of 72 bits, all": {n: danmNet("s", "", "fd00::/120"), family: ipfamily.IPv6, free: 255, total: 255},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, inNetwork(pool, "10.0.0.10"), inNetwork(pool, "10.0.0.11"), inNetwork(pool, "10.0.0.5"), inNetwork(pool, "10.0.0.99"))
			s.View(func(tx store.ReadTx) {
				if free, total := ipam.CountNetwork(tx, tc.n, tc.family); free != tc.free || total != tc.total {
					t.Errorf("%d of %d free, want %d of %d", free, total, tc.free, tc.total)
				}
			})
		})
	}
}

// TestChooseInNetwork_NetworkChangedMeanwhile_ReadAgain: between the decision about a pod and the choice, the
// network may be deleted, and its number given to another one.
func TestChooseInNetwork_NetworkChangedMeanwhile_ReadAgain(t *testing.T) {
	base := multinet.Network{
		Meta: store.Meta{UID: "u1", Generation: 3}, Ref: multinet.Ref{Group: "danm.io", Kind: multinet.KindDanmNet, Namespace: "shop", Name: "n"},
		HostDevice: "ens4", Ready: true,
		V4: multinet.Range{Prefix: netip.MustParsePrefix("10.0.0.0/24"), Pool: store.AddrRange{First: ips("10.0.0.10")[0], Last: ips("10.0.0.11")[0]}},
	}
	peer := base
	peer.Name, peer.UID = "peer", "u2"
	for name, tc := range map[string]struct {
		change func(tx store.Tx, n *multinet.Network) error
		want   string
		reason string
	}{
		"unchanged":     {change: multinet.Put, want: "10.0.0.10"},
		"gone":          {change: func(tx store.Tx, n *multinet.Network) error { multinet.Delete(tx, n.Ref, n.UID); return nil }, reason: v1alpha1.NetworkNotReadyReason},
		"made again":    {change: func(tx store.Tx, n *multinet.Network) error { n.UID = "u3"; return multinet.Put(tx, n) }, reason: v1alpha1.NetworkNotReadyReason},
		"being deleted": {change: func(tx store.Tx, n *multinet.Network) error { n.Deleting = true; return multinet.Put(tx, n) }, reason: v1alpha1.NetworkNotReadyReason},
		"not ready":     {change: func(tx store.Tx, n *multinet.Network) error { n.Ready = false; return multinet.Put(tx, n) }, reason: v1alpha1.NetworkNotReadyReason},
		"on another device": {change: func(tx store.Tx, n *multinet.Network) error {
			n.HostDevice, n.Generation = "ens5", 4
			return multinet.Put(tx, n)
		}, reason: v1alpha1.NetworkNotReadyReason},
		"with a new peer": {change: func(tx store.Tx, _ *multinet.Network) error {
			held := inNetwork(&ipam.NetworkRange{NetworkRef: peer.Reference()}, "10.0.0.10")
			return errors.Join(multinet.Put(tx, &peer), store.PutAddress(tx, held))
		}, want: "10.0.0.11"},
	} {
		t.Run(name, func(t *testing.T) {
			s, row := newStore(t), base
			update(t, s, func(tx store.Tx) error { return multinet.Put(tx, &row) })
			var n *ipam.NetworkRange
			s.View(func(tx store.ReadTx) { n = ipam.RangeOf(tx, &row) })
			next := row
			update(t, s, func(tx store.Tx) error { return tc.change(tx, &next) })
			result, err := chooseIn(s, ask(n, "dynamic", ""))
			var want []netip.Addr
			if tc.want != "" {
				want = ips(tc.want)
			}
			checkChoice(t, result, err, want, tc.reason)
		})
	}
}

func TestChooseInNetwork_PeerAddressReleased_Rests(t *testing.T) {
	n := pooled(danmNet("a", "10.0.0.0/24", ""), "10.0.0.10", "10.0.0.11")
	n.Peers = []string{danmNet("b", "", "").Domain()}
	req := ask(n, "dynamic", "")
	req.Resting, req.Now = &ipam.Resting{}, epoch
	req.Resting.Add(n.Peers[0], ips("10.0.0.10")[0], epoch)
	req.Resting.Add("elsewhere.net", ips("10.0.0.11")[0], epoch)
	result, err := chooseIn(newStore(t), req)
	checkChoice(t, result, err, ips("10.0.0.11"), "")
}
