// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/store"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(uid string, second int) store.Meta {
	return store.Meta{UID: uid, Created: epoch.Add(time.Duration(second) * time.Second)}
}

func version(uid, resourceVersion string) store.Meta {
	return store.Meta{UID: uid, ResourceVersion: resourceVersion}
}

func address(vpc, ip string) *store.Address {
	return &store.Address{
		Name: vpc + "." + ip, VPC: vpc, Subnet: "net1", IP: netip.MustParseAddr(ip), Node: "node-1",
		Holder: store.Holder{Kind: store.HolderPod, Namespace: "shop", Name: "web", UID: "web"},
	}
}

func TestPut_OlderVersion_Ignored(t *testing.T) {
	tests := map[string]struct {
		held, next store.Meta
		wantNext   bool
	}{
		"older":                         {held: version("a", "10"), next: version("a", "9")},
		"older with more digits":        {held: version("a", "10"), next: version("a", "0000009")},
		"newer":                         {held: version("a", "9"), next: version("a", "10"), wantNext: true},
		"same version, other content":   {held: version("a", "9"), next: version("a", "9"), wantNext: true},
		"another object, older version": {held: version("a", "10"), next: version("b", "9"), wantNext: true},
		"no version held":               {held: version("a", ""), next: version("a", "9"), wantNext: true},
		"no version put":                {held: version("a", "9"), next: version("a", ""), wantNext: true},
		"version that is no number":     {held: version("a", "9"), next: version("a", "1x"), wantNext: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			for i, meta := range []store.Meta{test.held, test.next} {
				row := &store.Node{Meta: meta, Name: "node-1", OutOfService: i == 1}
				update(t, s, func(tx store.Tx) error { return store.PutNode(tx, row) })
			}
			s.View(func(tx store.ReadTx) {
				if got := store.GetNode(tx, "node-1").OutOfService; got != test.wantNext {
					t.Errorf("the second row counts: %v, want %v", got, test.wantNext)
				}
			})
		})
	}
}

func TestDelete_OtherUID_Ignored(t *testing.T) {
	s := newStore(t)
	row := address("blue", "10.0.0.1")
	row.UID = "new"
	update(t, s, func(tx store.Tx) error { return store.PutAddress(tx, row) })
	update(t, s, func(tx store.Tx) error {
		for _, uid := range []string{"old", ""} {
			if store.DeleteAddress(tx, row.Name, uid) {
				t.Errorf("the row was deleted by UID %q", uid)
			}
		}
		if !store.DeleteAddress(tx, row.Name, "new") {
			t.Error("the row wasn't deleted by its UID")
		}
		return nil
	})
}

func TestPut_OnlyNewVersion_KeptWithoutNewRevision(t *testing.T) {
	s := newStore(t)
	for _, resourceVersion := range []string{"1", "2"} {
		row := &store.Node{Meta: version("a", resourceVersion), Name: "node-1"}
		update(t, s, func(tx store.Tx) error { return store.PutNode(tx, row) })
	}
	s.View(func(tx store.ReadTx) {
		if got := store.GetNode(tx, "node-1").ResourceVersion; got != "2" {
			t.Errorf("version %s is held, want 2", got)
		}
		if got := tx.Revision(); got != 1 {
			t.Errorf("revision %d, want 1", got)
		}
	})
}

func TestPut_UniqueValueTaken_RefusedBeforeWrite(t *testing.T) {
	twin := address("blue", "10.0.0.1")
	twin.Name = "twin"
	tests := map[string]struct {
		put  func(tx store.Tx) error
		want error
	}{
		"VNI of another VPC":          {func(tx store.Tx) error { return store.PutVPC(tx, &store.VPC{Name: "red", VNI: 7}) }, store.ErrConflict},
		"VNI 0 belongs to no VPC":     {func(tx store.Tx) error { return store.PutVPC(tx, &store.VPC{Name: "red"}) }, nil},
		"IP of the VPC, another name": {func(tx store.Tx) error { return store.PutAddress(tx, twin) }, store.ErrConflict},
		"same IP of another VPC":      {func(tx store.Tx) error { return store.PutAddress(tx, address("red", "10.0.0.1")) }, nil},
		"the row's own values":        {func(tx store.Tx) error { return store.PutVPC(tx, &store.VPC{Name: "blue", VNI: 7, Ready: true}) }, nil},
		"assuming what is held":       {func(tx store.Tx) error { return store.AssumeAddress(tx, address("blue", "10.0.0.1")) }, store.ErrConflict},
		"assuming it by another name": {func(tx store.Tx) error { return store.AssumeAddress(tx, twin) }, store.ErrConflict},
		"assuming what is free":       {func(tx store.Tx) error { return store.AssumeAddress(tx, address("blue", "10.0.0.2")) }, nil},
		"two Networks of a tenant, one name": {func(tx store.Tx) error {
			return store.PutNetwork(tx, &store.Network{Namespace: "b", Name: "default", Tenant: "t"})
		}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			update(t, s, func(tx store.Tx) error {
				return errors.Join(
					store.PutVPC(tx, &store.VPC{Name: "blue", VNI: 7}), store.PutVPC(tx, &store.VPC{Name: "none"}),
					store.PutAddress(tx, address("blue", "10.0.0.1")),
					store.PutNetwork(tx, &store.Network{Namespace: "a", Name: "default", Tenant: "t"}),
				)
			})
			if err := s.Update(test.put); !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
}

func TestAssumedAddress_RealOneComes_GivesWay(t *testing.T) {
	created := func() *store.Address {
		row := address("blue", "10.0.0.1")
		row.Meta = version("real", "5")
		return row
	}
	var assumed *store.Address
	assume := func(tx store.Tx) error { return store.AssumeAddress(tx, created()) }
	steps := map[string]func(tx store.Tx) error{
		"confirm": func(tx store.Tx) error { return store.ConfirmAddress(tx, assumed, created()) },
		"again":   assume,
		"event":   func(tx store.Tx) error { return store.PutAddress(tx, created()) },
		"deleted": func(tx store.Tx) error { store.DeleteAddress(tx, created().Name, "real"); return nil },
		"undo":    func(tx store.Tx) error { store.DeleteAddress(tx, created().Name, ""); return nil },
	}
	tests := []struct {
		order   []string
		wantUID string
		want    bool
	}{
		{order: nil, want: true},
		{order: []string{"undo"}},
		{order: []string{"confirm", "event"}, wantUID: "real", want: true},
		{order: []string{"event", "confirm"}, wantUID: "real", want: true},
		{order: []string{"event", "undo"}, wantUID: "real", want: true},
		{order: []string{"event", "deleted", "confirm"}},
		{order: []string{"confirm", "deleted"}},
		{order: []string{"event", "deleted", "again", "confirm"}, want: true},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.order), func(t *testing.T) {
			s := newStore(t)
			update(t, s, assume)
			s.View(func(tx store.ReadTx) { assumed = store.GetAddress(tx, created().Name) })
			for _, step := range test.order {
				update(t, s, steps[step])
			}
			s.View(func(tx store.ReadTx) {
				row := store.GetAddress(tx, "blue.10.0.0.1")
				if (row != nil) != test.want || row != nil && row.UID != test.wantUID {
					t.Errorf("row is %+v, want one: %v, with UID %q", row, test.want, test.wantUID)
				}
				v4, _ := store.CountAddressesBySubnet(tx, "net1")
				if (v4 == 1) != test.want {
					t.Errorf("count is %d, want a row: %v", v4, test.want)
				}
			})
		})
	}
}

// TestCursors_ChoiceAndAPI_ChoiceFirst: the cursors of choices count before all. The
// cursors of the subnet's own Usage count before the cursors of an earlier release in its status.
func TestCursors_ChoiceAndAPI_ChoiceFirst(t *testing.T) {
	s := newStore(t)
	row := &store.Subnet{Meta: store.Meta{UID: "u"}, Name: "net1", Cursors: []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd00::5")}}
	cursors := func() string {
		var v4, v6 netip.Addr
		s.View(func(tx store.ReadTx) {
			v4, v6 = store.Cursor(tx, row, ipfamily.IPv4), store.Cursor(tx, row, ipfamily.IPv6)
		})
		return fmt.Sprint(v4, " ", v6)
	}
	update(t, s, func(tx store.Tx) error { return store.PutSubnet(tx, row) })
	if got, want := cursors(), "10.0.0.5 fd00::5"; got != want {
		t.Errorf("cursors are %s before a choice, want %s", got, want)
	}
	usage := func(uid, v4, v6 string) func(tx store.Tx) error {
		return func(tx store.Tx) error {
			return store.PutUsage(tx, &store.Usage{Name: "subnet.net1", OwnerUID: uid, Cursors: []netip.Addr{netip.MustParseAddr(v4), netip.MustParseAddr(v6)}})
		}
	}
	update(t, s, usage("predecessor", "10.0.0.6", "fd00::6"))
	if got, want := cursors(), "10.0.0.5 fd00::5"; got != want {
		t.Errorf("cursors are %s beside the usage of a predecessor, want %s", got, want)
	}
	update(t, s, usage("u", "10.0.0.7", "fd00::5"))
	if got, want := cursors(), "10.0.0.7 fd00::5"; got != want {
		t.Errorf("cursors are %s beside the usage, want %s", got, want)
	}
	update(t, s, func(tx store.Tx) error { return store.SetCursor(tx, "net1", netip.MustParseAddr("10.0.0.9")) })
	if got, want := cursors(), "10.0.0.9 fd00::5"; got != want {
		t.Errorf("cursors are %s after a choice, want %s", got, want)
	}
	update(t, s, func(tx store.Tx) error { store.DeleteSubnet(tx, "net1", "u"); return nil })
	if got, want := cursors(), "10.0.0.7 fd00::5"; got != want {
		t.Errorf("cursors are %s after the subnet was deleted, want %s", got, want)
	}
}

func TestLists_EachIndex_InItsOrder(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx store.Tx) error {
		return errors.Join(
			store.PutSubnet(tx, &store.Subnet{Meta: at("y", 2), Name: "a", VPC: "blue"}),
			store.PutSubnet(tx, &store.Subnet{Meta: at("x", 2), Name: "b", VPC: "blue"}),
			store.PutSubnet(tx, &store.Subnet{Meta: at("z", 1), Name: "c", VPC: "blue"}),
			store.PutSubnet(tx, &store.Subnet{Meta: at("w", 0), Name: "d", VPC: "blueish"}),
			store.PutNetwork(tx, &store.Network{Meta: at("2", 2), Namespace: "a", Name: "default", Tenant: "t", VPC: "blue"}),
			store.PutNetwork(tx, &store.Network{Meta: at("1", 1), Namespace: "b", Name: "default", Tenant: "t", VPC: "blue"}),
			store.PutNetwork(tx, &store.Network{Meta: at("3", 0), Namespace: "b", Name: "other", Tenant: "t", VPC: "red"}),
			store.PutPod(tx, &store.Pod{Meta: at("new", 9), Namespace: "shop", Name: "web"}),
			store.PutPod(tx, &store.Pod{Meta: at("old", 1), Namespace: "shop", Name: "web"}),
		)
	})
	s.View(func(tx store.ReadTx) {
		check := func(what, want string, got []string) {
			t.Helper()
			if diff := cmp.Diff(want, fmt.Sprint(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		check(
			"subnets of a VPC, oldest first, of one age by name",
			"[c a b]",
			mapRows(store.SubnetsByVPC(tx, "blue"), func(r *store.Subnet) string { return r.Name }),
		)
		check(
			"Networks of one name, oldest first",
			"[b a]",
			mapRows(store.NetworkByTenantName(tx, "t", "default"), func(r *store.Network) string { return r.Namespace }),
		)
		check("Networks of a tenant", "[a b b]", mapRows(store.NetworksByTenant(tx, "t"), func(r *store.Network) string { return r.Namespace }))
		check("Networks of a VPC", "[a b]", mapRows(store.NetworksByVPC(tx, "blue"), func(r *store.Network) string { return r.Namespace }))
		if got := store.PodByName(tx, "shop", "web").UID; got != "new" {
			t.Errorf("pod by name is %s, want the newest", got)
		}
		if store.PodByName(tx, "shop", "we") != nil {
			t.Error("a name's beginning finds a pod")
		}
	})
}

// TestServices_ExternalIPsAndNodePorts_Found: an index finds a Service by each of its external IPs
// and node ports, until the Service loses them.
func TestServices_ExternalIPsAndNodePorts_Found(t *testing.T) {
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	web := func(namespace string, age int, ports []store.ServicePort, ips ...netip.Addr) *store.Service {
		return &store.Service{Meta: at(namespace, age), Namespace: namespace, Name: "web", ExternalIPs: ips, Ports: ports, HealthCheckNodePort: 30009}
	}
	ports := []store.ServicePort{{Protocol: "UDP", Port: 53, NodePort: 30053}, {Protocol: "TCP", Port: 53, NodePort: 30053}, {Protocol: "TCP", Port: 80}}
	s := newStore(t)
	update(t, s, func(tx store.Tx) error {
		return errors.Join(
			store.PutService(tx, web("c", 1, ports, one, two)), store.PutService(tx, web("b", 2, nil, one)), store.PutService(tx, web("a", 2, nil, two, one, one)),
			store.PutService(tx, web("d", 3, nil, two)), store.PutService(tx, web("d", 3, nil)),
		)
	})
	of := func(r *store.Service) string { return r.Namespace }
	s.View(func(tx store.ReadTx) {
		got := [][]string{
			mapRows(slices.Compact(slices.Collect(store.ServicesNaming(tx, one))), of), mapRows(slices.Collect(store.ServicesNaming(tx, two)), of),
			mapRows(slices.Collect(store.ServicesNaming(tx, netip.MustParseAddr("192.0.2.0"))), of), mapRows(store.ServicesWithExternalIPs(tx), of),
			mapRows(slices.Collect(store.ServicesByNodePort(tx, "UDP", 30053)), of), mapRows(slices.Collect(store.ServicesByNodePort(tx, "SCTP", 30053)), of),
			mapRows(slices.Collect(store.ServicesByNodePort(tx, "TCP", 30009)), of),
		}
		want := [][]string{{"c", "a", "b"}, {"c", "a"}, nil, {"a", "b", "c"}, {"c"}, nil, {"a", "b", "c", "d"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Services (-want +got):\n%s", diff)
		}
	})
}

func TestTenants_NamingVPC_EachFoundOnce(t *testing.T) {
	s := newStore(t)
	names := func(namespace, name, tenant, vpc string) func(store.Tx) error {
		return func(tx store.Tx) error {
			return store.PutNetwork(tx, &store.Network{Namespace: namespace, Name: name, Tenant: tenant, VPC: vpc})
		}
	}
	for _, put := range []func(store.Tx) error{
		names("a", "x", "t", "blue"), names("b", "y", "t", "blue"), names("c", "x", "tt", "blue"), names("d", "x", "", "blue"), names("e", "x", "u", "blueish"), names("f", "x", "s", "red"),
	} {
		update(t, s, put)
	}
	s.View(func(tx store.ReadTx) {
		for vpc, want := range map[string]string{"blue": "[ t tt]", "blueish": "[u]", "blu": "[]"} {
			if got := fmt.Sprint(store.TenantsNamingVPC(tx, vpc)); got != want {
				t.Errorf("VPC %s is named by the tenants %s, want %s", vpc, got, want)
			}
		}
		if got := len(store.NetworksByVPCAndTenant(tx, "blue", "t")); got != 2 {
			t.Errorf("%d Networks of tenant t name the VPC, want 2", got)
		}
	})
}

func mapRows[R any](rows []*R, text func(*R) string) []string {
	var list []string
	for _, row := range rows {
		list = append(list, text(row))
	}
	return list
}

func TestTenants_NamespaceBeforeOrAfter_Follow(t *testing.T) {
	s := newStore(t)
	namespace := func(tenant string) func(tx store.Tx) error {
		return func(tx store.Tx) error { return store.PutNamespace(tx, &store.Namespace{Name: "shop", Tenant: tenant}) }
	}
	tenants := func() (list []string) {
		s.View(func(tx store.ReadTx) {
			list = append(mapRows(store.ListNetworks(tx), func(r *store.Network) string { return r.Tenant }),
				mapRows(slices.Collect(store.AllPods(tx)), func(r *store.Pod) string { return r.Tenant })...)
		})
		return list
	}
	rows := func(tx store.Tx) error {
		return errors.Join(
			store.PutNetwork(tx, &store.Network{Namespace: "shop", Name: "default"}),
			store.PutPod(tx, &store.Pod{Meta: at("p", 1), Namespace: "shop", Name: "web"}),
			store.PutPod(tx, &store.Pod{Meta: at("q", 1), Namespace: "shopping", Name: "web"}),
		)
	}
	for i, step := range []struct {
		put  func(tx store.Tx) error
		want []string
	}{
		{rows, []string{"", "", ""}},
		{namespace("a"), []string{"a", "a", ""}},
		{rows, []string{"a", "a", ""}},
		{namespace("b"), []string{"b", "b", ""}},
	} {
		update(t, s, step.put)
		if diff := cmp.Diff(step.want, tenants()); diff != "" {
			t.Errorf("tenants after step %d (-want +got):\n%s", i, diff)
		}
	}
	s.View(func(tx store.ReadTx) {
		if len(store.PodsByNetwork(tx, "a", "")) != 0 || len(store.NetworksByTenant(tx, "b")) != 1 {
			t.Error("the indexes by tenant didn't follow")
		}
		if len(store.NamespacesByTenant(tx, "b")) != 1 {
			t.Error("the namespace isn't found by its tenant")
		}
	})
}

func TestServicesAndSlices_ByNetworkAndService_Found(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx store.Tx) error {
		return errors.Join(
			store.PutService(tx, &store.Service{Namespace: "shop", Name: "web", Network: "vpc-1"}),
			store.PutService(tx, &store.Service{Namespace: "shop", Name: "db"}),
			store.PutService(tx, &store.Service{Namespace: "shops", Name: "web", Network: "vpc-1"}),
			store.PutEndpointSlice(tx, &store.EndpointSlice{Namespace: "shop", Name: "web-2", Service: "web"}),
			store.PutEndpointSlice(tx, &store.EndpointSlice{Namespace: "shop", Name: "web-1", Service: "web"}),
			store.PutVNIClaim(tx, &store.VNIClaim{VNI: 300, VPCUID: "u"}), store.PutVNIClaim(tx, &store.VNIClaim{VNI: 5, VPCUID: "u"}),
		)
	})
	s.View(func(tx store.ReadTx) {
		name := func(r *store.Service) string { return r.Name }
		if got := fmt.Sprint(mapRows(store.ServicesByNetwork(tx, "shop", "vpc-1"), name), mapRows(store.ServicesByNetwork(tx, "shop", ""), name)); got != "[web] [db]" {
			t.Errorf("services by network are %s", got)
		}
		slices := mapRows(store.EndpointSlicesByService(tx, "shop", "web"), func(r *store.EndpointSlice) string { return r.Name })
		if got := fmt.Sprint(slices); got != "[web-1 web-2]" {
			t.Errorf("slices by service are %s", got)
		}
		claims := mapRows(store.VNIClaimsByVPCUID(tx, "u"), func(r *store.VNIClaim) string { return fmt.Sprint(r.VNI) })
		if got := fmt.Sprint(claims); got != "[5 300]" {
			t.Errorf("claims of a VPC are %s", got)
		}
	})
}

func TestSnapshot_LaterCommit_Unchanged(t *testing.T) {
	s := newStore(t)
	row := address("blue", "10.0.0.1")
	update(t, s, func(tx store.Tx) error { return store.PutAddress(tx, row) })
	var snapshot store.ReadTx
	s.View(func(tx store.ReadTx) { snapshot = tx })
	update(t, s, func(tx store.Tx) error {
		store.DeleteAddress(tx, row.Name, "")
		return store.PutAddress(tx, address("blue", "10.0.0.2"))
	})
	if got := store.ListAddresses(snapshot); len(got) != 1 || got[0] != row {
		t.Errorf("the snapshot holds %v after later writes, want the first row alone", got)
	}
	if got := snapshot.Revision(); got != 1 {
		t.Errorf("the snapshot's revision is %d after later writes, want 1", got)
	}
}

func TestPodAddress_HolderDiffers_NotCounted(t *testing.T) {
	pod := &store.Pod{Meta: store.Meta{UID: "u"}, Namespace: "ns", Name: "p", Node: "n1"}
	for name, c := range map[string]struct {
		change func(*store.Address)
		want   bool
	}{
		"as it is":          {func(*store.Address) {}, true},
		"another kind":      {func(a *store.Address) { a.Holder.Kind = store.HolderNode }, false},
		"another UID":       {func(a *store.Address) { a.Holder.UID = "v" }, false},
		"another namespace": {func(a *store.Address) { a.Holder.Namespace = "other" }, false},
		"another name":      {func(a *store.Address) { a.Holder.Name = "q" }, false},
		"another node":      {func(a *store.Address) { a.Node = "n2" }, false},
		"no node":           {func(a *store.Address) { a.Node = "" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			row := store.Address{
				Meta: store.Meta{UID: "a"}, Name: "blue.10.0.0.1", VPC: "blue", IP: netip.MustParseAddr("10.0.0.1"), Node: "n1",
				Holder: store.Holder{Kind: store.HolderPod, Namespace: "ns", Name: "p", UID: "u"},
			}
			c.change(&row)
			s, err := store.New()
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Update(func(tx store.Tx) error { return store.PutAddress(tx, &row) }); err != nil {
				t.Fatal(err)
			}
			s.View(func(tx store.ReadTx) {
				if got := len(store.AddressesByPod(tx, pod)) == 1; got != c.want || pod.Holds(&row) != c.want {
					t.Errorf("it counts: %v, want %v", got, c.want)
				}
			})
		})
	}
}
