// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/store"
)

// actions is a stream of small numbers that a fuzzer makes up; it ends with
// zeroes.
type actions struct{ bytes []byte }

func (a *actions) pick(n int) int {
	if len(a.bytes) == 0 {
		return 0
	}
	b := a.bytes[0]
	a.bytes = a.bytes[1:]
	return int(b) % n
}

func (a *actions) name(prefix string, n int) string { return fmt.Sprintf("%s%d", prefix, a.pick(n)) }

// maps of rows by key, kept by the rules of Put and Delete.
type model struct {
	vpcs       map[string]store.VPC
	addresses  map[string]store.Address
	pods       map[string]store.Pod
	namespaces map[string]store.Namespace
}

func newModel() *model {
	return &model{
		vpcs: map[string]store.VPC{}, addresses: map[string]store.Address{},
		pods: map[string]store.Pod{}, namespaces: map[string]store.Namespace{},
	}
}

func (m *model) clone() *model {
	return &model{maps.Clone(m.vpcs), maps.Clone(m.addresses), maps.Clone(m.pods), maps.Clone(m.namespaces)}
}

// stale applies the rule on versions, here of one digit.
func stale(next, held store.Meta) bool {
	return next.UID == held.UID && next.ResourceVersion < held.ResourceVersion
}

func meta(a *actions) store.Meta {
	return store.Meta{UID: a.name("uid", 2), ResourceVersion: fmt.Sprint(a.pick(4))}
}

// step runs one action on both. It returns whether Put has to report a conflict, and Put's
// report.
func step(tx store.Tx, m *model, a *actions) (wantConflict bool, got error) {
	switch a.pick(8) {
	case 0:
		row := store.VPC{Meta: meta(a), Name: a.name("vpc", 3), VNI: uint32(a.pick(3))}
		return m.putVPC(row), store.PutVPC(tx, &row)
	case 1:
		name, uid := a.name("vpc", 3), a.name("uid", 2)
		store.DeleteVPC(tx, name, uid)
		if m.vpcs[name].UID == uid {
			delete(m.vpcs, name)
		}
	case 2, 3:
		row := anyAddress(a)
		return m.putAddress(row), store.PutAddress(tx, &row)
	case 4:
		row, uid := anyAddress(a), a.name("uid", 2)
		store.DeleteAddress(tx, row.Name, uid)
		if m.addresses[row.Name].UID == uid {
			delete(m.addresses, row.Name)
		}
	case 5:
		row := store.Pod{Meta: meta(a), Namespace: a.name("ns", 2), Name: a.name("pod", 2), Node: a.name("node", 2), Network: a.name("net", 2)}
		m.putPod(row)
		return false, store.PutPod(tx, &row)
	case 6:
		uid := a.name("uid", 2)
		store.DeletePod(tx, uid)
		delete(m.pods, uid)
	case 7:
		row := store.Namespace{Meta: meta(a), Name: a.name("ns", 2), Tenant: a.name("tenant", 2)}
		m.putNamespace(row)
		return false, store.PutNamespace(tx, &row)
	}
	return false, nil
}

func anyAddress(a *actions) store.Address {
	ip := netip.AddrFrom4([4]byte{10, 0, 0, byte(a.pick(4))})
	if a.pick(2) == 1 {
		ip = netip.MustParseAddr(fmt.Sprintf("fd00::%d", a.pick(4)))
	}
	row := store.Address{
		Meta: meta(a), VPC: a.name("vpc", 2), IP: ip, Subnet: a.name("subnet", 2), Node: a.name("node", 2),
		Holder: store.Holder{UID: a.name("holder", 2)},
	}
	// One name in five doesn't belong to the IP, to provoke conflicts.
	row.Name = row.VPC + "." + ip.String()
	if a.pick(5) == 4 {
		row.Name = "wrong"
	}
	return row
}

func (m *model) putVPC(row store.VPC) (conflict bool) {
	if held, ok := m.vpcs[row.Name]; ok && stale(row.Meta, held.Meta) {
		return false
	}
	for name, other := range m.vpcs {
		if name != row.Name && row.VNI != 0 && other.VNI == row.VNI {
			return true
		}
	}
	m.vpcs[row.Name] = row
	return false
}

func (m *model) putAddress(row store.Address) (conflict bool) {
	if held, ok := m.addresses[row.Name]; ok && stale(row.Meta, held.Meta) {
		return false
	}
	for name, other := range m.addresses {
		if name != row.Name && other.VPC == row.VPC && other.IP == row.IP {
			return true
		}
	}
	m.addresses[row.Name] = row
	return false
}

func (m *model) putPod(row store.Pod) {
	if held, ok := m.pods[row.UID]; ok && stale(row.Meta, held.Meta) {
		return
	}
	if ns, ok := m.namespaces[row.Namespace]; ok {
		row.Tenant = ns.Tenant
	}
	m.pods[row.UID] = row
}

func (m *model) putNamespace(row store.Namespace) {
	if held, ok := m.namespaces[row.Name]; ok && stale(row.Meta, held.Meta) {
		return
	}
	m.namespaces[row.Name] = row
	for uid, pod := range m.pods {
		if pod.Namespace == row.Name {
			pod.Tenant = row.Tenant
			m.pods[uid] = pod
		}
	}
}

// selected returns the rows of a map that match, as text, in no order.
func selected[R any](rows map[string]R, match func(R) bool) []string {
	texts := []string{}
	for _, row := range rows {
		if match(row) {
			texts = append(texts, fmt.Sprint(row))
		}
	}
	slices.Sort(texts)
	return texts
}

func texts[R any](rows []*R) []string {
	list := []string{}
	for _, row := range rows {
		list = append(list, fmt.Sprint(*row))
	}
	slices.Sort(list)
	return list
}

func (m *model) equalVPCs(t *testing.T, tx store.ReadTx) {
	t.Helper()
	same(t, "VPCs", texts(store.ListVPCs(tx)), selected(m.vpcs, func(store.VPC) bool { return true }))
	for vni := range uint32(3) {
		want := selected(m.vpcs, func(v store.VPC) bool { return vni != 0 && v.VNI == vni })
		got := []string{}
		if row := store.VPCByVNI(tx, vni); row != nil {
			got = append(got, fmt.Sprint(*row))
		}
		same(t, fmt.Sprintf("VPC of VNI %d", vni), got, want)
	}
}

func (m *model) equalAddresses(t *testing.T, tx store.ReadTx) {
	t.Helper()
	same(t, "addresses", texts(store.ListAddresses(tx)), selected(m.addresses, func(store.Address) bool { return true }))
	for i := range 2 {
		vpc, subnet := fmt.Sprintf("vpc%d", i), fmt.Sprintf("subnet%d", i)
		node, holder := fmt.Sprintf("node%d", i), fmt.Sprintf("holder%d", i)
		same(t, "addresses of a VPC", texts(store.AddressesByDomain(tx, vpc)),
			selected(m.addresses, func(a store.Address) bool { return a.VPC == vpc }))
		same(t, "addresses of a node", texts(store.AddressesByNode(tx, node)),
			selected(m.addresses, func(a store.Address) bool { return a.Node == node }))
		same(t, "addresses of a holder", texts(store.AddressesNaming(tx, holder)),
			selected(m.addresses, func(a store.Address) bool { return a.Holder.UID == holder }))
		ofSubnet := selected(m.addresses, func(a store.Address) bool { return a.Subnet == subnet })
		same(t, "addresses of a subnet", texts(store.AddressesBySubnet(store.Central{}.Of(tx), subnet)), ofSubnet)
		v4, v6 := store.CountAddressesBySubnet(tx, subnet)
		if got, want := v4+v6, int64(len(ofSubnet)); got != want {
			t.Fatalf("count of %s is %d + %d, want %d", subnet, v4, v6, want)
		}
		m.equalRange(t, tx, vpc)
	}
	for _, want := range m.addresses {
		if got := store.AddressByIP(tx, want.VPC, want.IP); got == nil || got.Name != want.Name {
			t.Fatalf("address by IP %s of %s is %v, want %s", want.IP, want.VPC, got, want.Name)
		}
	}
}

// equalRange checks the ascending walk from the middle of the IPv4 addresses.
func (m *model) equalRange(t *testing.T, tx store.ReadTx, vpc string) {
	t.Helper()
	start := netip.MustParseAddr("10.0.0.2")
	var got, want []string
	for row := range store.AddressesFrom(tx, vpc, start) {
		got = append(got, row.IP.String())
	}
	var ordered []netip.Addr
	for _, row := range m.addresses {
		if row.VPC == vpc && !row.IP.Less(start) {
			ordered = append(ordered, row.IP)
		}
	}
	slices.SortFunc(ordered, netip.Addr.Compare)
	for _, ip := range ordered {
		want = append(want, ip.String())
	}
	same(t, "addresses from "+start.String(), got, want)
}

func (m *model) equalPods(t *testing.T, tx store.ReadTx) {
	t.Helper()
	same(t, "pods", texts(slices.Collect(store.AllPods(tx))), selected(m.pods, func(store.Pod) bool { return true }))
	for i := range 2 {
		namespace, tenant := fmt.Sprintf("ns%d", i), fmt.Sprintf("tenant%d", i)
		node := fmt.Sprintf("node%d", i)
		same(t, "pods of a namespace", texts(store.PodsByNamespace(tx, namespace)),
			selected(m.pods, func(p store.Pod) bool { return p.Namespace == namespace }))
		same(t, "pods of a node", texts(store.PodsByNode(tx, node)),
			selected(m.pods, func(p store.Pod) bool { return p.Node == node }))
		for _, label := range []string{"", "net0", "net1"} {
			same(t, "pods of a network", texts(store.PodsByNetwork(tx, tenant, label)),
				selected(m.pods, func(p store.Pod) bool { return p.Tenant == tenant && p.Network == label }))
		}
	}
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// FuzzStore runs an action log against the store and against plain maps.
// Transactions end where the log has their end, with a commit or an abort.
func FuzzStore(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("puts, deletes and conflicts in an order that nobody thought of"))
	f.Add([]byte{0, 0, 1, 0, 1, 0, 0, 0, 1, 1, 1, 3, 2, 0, 0, 1, 1, 0, 0, 0, 0, 0, 4, 3, 0, 0, 1, 1, 0, 0, 0, 0, 4})
	f.Fuzz(func(t *testing.T, log []byte) {
		s, committed, a := newStore(t), newModel(), &actions{log}
		for len(a.bytes) > 0 {
			m, abort := committed.clone(), errors.New("abort")
			err := s.Update(func(tx store.Tx) error {
				for range 1 + a.pick(4) {
					wantConflict, got := step(tx, m, a)
					if errors.Is(got, store.ErrConflict) != wantConflict {
						t.Fatalf("put returned %v, want conflict: %v", got, wantConflict)
					}
				}
				if a.pick(5) == 4 {
					return abort
				}
				return nil
			})
			if err == nil {
				committed = m
			}
			s.View(func(tx store.ReadTx) {
				committed.equalVPCs(t, tx)
				committed.equalAddresses(t, tx)
				committed.equalPods(t, tx)
			})
		}
	})
}
