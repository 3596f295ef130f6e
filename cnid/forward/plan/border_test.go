// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

// selectorless removes the selector of a Service, whose slices people write then.
func selectorless(namespace, name string) func(store.Tx) error {
	return func(tx store.Tx) error {
		row := *store.GetService(tx, namespace, name)
		row.Selectorless = true
		return store.PutService(tx, &row)
	}
}

// respecify changes a VPC.
func respecify(name string, change func(*store.VPC)) func(store.Tx) error {
	return func(tx store.Tx) error {
		row := *store.GetVPC(tx, name)
		change(&row)
		return store.PutVPC(tx, &row)
	}
}

// outsideOf returns where the service of a VPC leads outside of it. Nothing of that may
// be closed to the VPC.
func outsideOf(t *testing.T, s state.State, vni uint32) (list []string) {
	t.Helper()
	for _, service := range s.Services {
		for _, b := range service.Backends {
			if service.VNI != vni || !b.Outside {
				continue
			}
			list = append(list, b.IP.String())
			if class := closedTo(s, vni, b.IP); class != 0 && (vni != 1 || class != state.ClosedNode) {
				t.Errorf("%s is a backend and closed to VNI %d, class %d", b.IP, vni, class)
			}
		}
	}
	slices.Sort(list)
	return list
}

// closedTo returns the class of the entry that closes an address to a VPC, or 0. The longest
// prefix decides, among the entries for all VPCs and the VPC's own.
func closedTo(s state.State, vni uint32, ip netip.Addr) state.ClosedClass {
	for _, of := range []uint32{0, vni} {
		var found state.ClosedPrefix
		for _, p := range s.Closed {
			if p.VNI == of && p.Prefix.Contains(ip) && (found.Class == 0 || p.Prefix.Bits() > found.Prefix.Bits()) {
				found = p
			}
		}
		if found.Class != 0 && found.Class < state.OpenListed {
			return found.Class
		}
	}
	return 0
}

func TestServiceExit_ChangesOfInputs_Followed(t *testing.T) {
	w := scaledTenants(t)
	ports := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80}}
	w.put(t,
		service("blue", "db", []string{"10.96.1.1"}, ports...), selectorless("blue", "db"),
		slice("blue", "db", "db", ports, ready("203.0.113.7"), ready("198.51.100.7"), ready("10.10.1.10")),
		service("default", "agent", []string{"10.96.1.2"}, ports...),
		slice("default", "agent", "agent", ports, on("node1", "192.0.2.1"), on("node3", "192.0.2.77")),
	)
	const a, b = "198.51.100.7", "203.0.113.7"
	p := &Planner{}
	for _, c := range []struct {
		what       string
		change     func(store.Tx) error
		blue, home []string
	}{
		{"the VPC has no egress", func(store.Tx) error { return nil }, nil, []string{"192.0.2.1"}},
		{"it has one", respecify("blue", func(v *store.VPC) { v.EgressMasquerade = true }), []string{a, b}, []string{"192.0.2.1"}},
		{"a node comes", node("node3", "192.0.2.77"), []string{a, b}, []string{"192.0.2.1", "192.0.2.77"}},
		{"a node has one of the addresses", node("node4", b), []string{a}, []string{"192.0.2.1", "192.0.2.77"}},
		{"it has another one", node("node4", "192.0.2.78"), []string{a, b}, []string{"192.0.2.1", "192.0.2.77"}},
		{"a range of Services has it", func(tx store.Tx) error {
			return store.PutServiceCIDR(tx, &store.ServiceCIDR{Meta: store.Meta{UID: "more"}, Name: "more", Prefixes: prefixes("198.51.100.0/24")})
		}, []string{b}, []string{"192.0.2.1", "192.0.2.77"}},
		{"the default VPC gets its range", respecify("default", func(v *store.VPC) { v.Prefixes = append(slices.Clone(v.Prefixes), prefixes("203.0.113.0/24")...) }), nil, []string{"192.0.2.1", "192.0.2.77"}},
		{"and loses it", respecify("default", func(v *store.VPC) { v.Prefixes = v.Prefixes[:len(v.Prefixes)-1] }), []string{b}, []string{"192.0.2.1", "192.0.2.77"}},
		{"it leads to nodes", func(tx store.Tx) error {
			return external.PutAddress(tx, &external.Address{Meta: store.Meta{UID: "e"}, IP: netip.MustParseAddr(b)})
		}, nil, []string{"192.0.2.1", "192.0.2.77"}},
		{"it does no longer", func(tx store.Tx) error {
			external.DeleteAddress(tx, netip.MustParseAddr(b), "e")
			return nil
		}, []string{b}, []string{"192.0.2.1", "192.0.2.77"}},
		{"nodes are denied to the default VPC", respecify("default", func(v *store.VPC) { v.EgressDeny = prefixes("192.0.2.77/32") }), []string{b}, []string{"192.0.2.1"}},
		{"somebody is selected", func(tx store.Tx) error {
			row := *store.GetService(tx, "blue", "db")
			row.Selectorless = false
			return store.PutService(tx, &row)
		}, nil, []string{"192.0.2.1"}},
	} {
		w.put(t, c.change)
		kept, anew := together(w.plan(p, onNodes)), w.build(onNodes)
		if !reflect.DeepEqual(kept, anew) {
			t.Fatalf("%s: the plan (-anew +kept):\n%s", c.what, cmp.Diff(anew, kept, byValue))
		}
		if blue, home := outsideOf(t, kept.Datapath, 20), outsideOf(t, kept.Datapath, 1); !slices.Equal(blue, c.blue) || !slices.Equal(home, c.home) {
			t.Errorf("%s: the VPC's Service leads to %v, want %v; the default VPC's to %v, want %v", c.what, blue, c.blue, home, c.home)
		}
	}
}

// Without a selector a Service leads to the pods of its tenant, which the namespaces of
// both decide.
func TestManualService_TenantsChange_ExitFollows(t *testing.T) {
	w := scaledTenants(t)
	ports := []store.ServicePort{{Name: "web", Protocol: "TCP", Port: 80, NodePort: 30080}}
	held := func(by string) func(store.Tx) error {
		return func(tx store.Tx) error {
			row := *store.AddressByIP(tx, "blue", netip.MustParseAddr("10.10.1.10"))
			row.Holder.Namespace = by
			return store.PutAddress(tx, &row)
		}
	}
	w.put(t, allow("blue", "*"), namespace("sister", "blue"), namespace("other", "red"),
		service("blue", "db", []string{"10.96.1.1"}, ports...), selectorless("blue", "db"), slice("blue", "db", "db", ports, on("node1", "10.10.1.10")))
	p := &Planner{}
	for _, c := range []struct {
		what   string
		change func(store.Tx) error
		want   int
	}{
		{"the namespace's own pod", held("blue"), 1},
		{"the tenant's, of another namespace", held("sister"), 1},
		{"another tenant's", held("other"), 0},
		{"whose namespace becomes the tenant's", namespace("other", "blue"), 1},
		{"and is so no longer", namespace("other", "red"), 0},
		{"the Service has a selector now", func(tx store.Tx) error {
			row := *store.GetService(tx, "blue", "db")
			row.Selectorless = false
			return store.PutService(tx, &row)
		}, 0},
		{"which finds the pod", held("blue"), 1},
	} {
		w.put(t, c.change)
		kept, anew := together(w.plan(p, onNodes)), w.build(onNodes)
		if !reflect.DeepEqual(kept, anew) {
			t.Fatalf("%s: the plan (-anew +kept):\n%s", c.what, cmp.Diff(anew, kept, byValue))
		}
		inside, outside := len(kept.Datapath.Services[0].Backends), len(kept.Filter.Frontends[0].Here)
		if inside != c.want || outside != c.want {
			t.Errorf("%s: %d backends inside and %d outside, want %d", c.what, inside, outside, c.want)
		}
	}
}

func onNodes(cfg *Config) { cfg.NodePorts = true }
