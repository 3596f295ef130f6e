// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subscriptions

import (
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/reflector"
	"github.com/alioth-net/alioth/store/rows/roles"
)

// tablesWorld is a node "n" whose sources have read whatever the test says.
type tablesWorld struct {
	*Sources
	rows *store.Store
}

func newTables(t *testing.T, rows ...func(store.Tx) error) *tablesWorld {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	w := &tablesWorld{rows: s}
	w.Sources = New(Config{Node: "n", DefaultVPC: "default"}, nil, nil, s, fixed(nil), slog.New(slog.DiscardHandler))
	w.put(t, func(tx store.Tx) error {
		return store.PutNode(tx, &store.Node{Meta: store.Meta{UID: "n-uid"}, Name: "n"})
	})
	w.put(t, rows...)
	return w
}

func (w *tablesWorld) put(t *testing.T, rows ...func(store.Tx) error) {
	t.Helper()
	for _, row := range rows {
		if err := w.rows.Update(row); err != nil {
			t.Fatal(err)
		}
	}
}

// settle reads whatever is needed, until nothing else is, and returns the parts of a VPC.
func (w *tablesWorld) settle(t *testing.T, vpc string) []string {
	t.Helper()
	for range 10 {
		var needed map[part]bool
		w.rows.View(func(tx store.ReadTx) { needed = maps.Clone(w.needed(tx)) })
		w.mu.Lock()
		same := len(w.parts) == len(needed)
		for p := range needed {
			same = same && w.parts[p] != nil
		}
		w.parts = map[part]*subscription{}
		for p := range needed {
			w.parts[p] = &subscription{confirmed: true}
		}
		w.mu.Unlock()
		w.broadcast()
		if same {
			var list []string
			for p := range needed {
				if p.domain == vpc && p.extent != descriptor.CarriedVPC {
					list = append(list, p.String())
				}
			}
			slices.Sort(list)
			return list
		}
	}
	t.Fatal("the parts never settle")
	return nil
}

func withVPC(dividers int, revision int64) func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutVPC(tx, &store.VPC{Meta: store.Meta{UID: "v-uid"}, Name: "v", VNI: 20, Dividers: dividers, RolesRevision: revision})
	}
}

func withSubnet(name string, bouncers int) func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutSubnet(tx, &store.Subnet{Meta: store.Meta{UID: name + "-uid"}, Name: name, VPC: "v", Bouncers: bouncers})
	}
}

// hosted returns an Address of this node, in subnet a.
func hosted() func(store.Tx) error {
	return func(tx store.Tx) error {
		return store.PutAddress(
			tx,
			&store.Address{Meta: store.Meta{UID: "a"}, Name: "v.10.0.0.1", VPC: "v", Subnet: "a", IP: netip.MustParseAddr("10.0.0.1"), Node: "n"},
		)
	}
}

// withMember returns a member of subnet's bouncers, or with "" of the VPC's dividers.
func withMember(subnet, node, stage string) func(store.Tx) error {
	return func(tx store.Tx) error {
		m := &roles.Member{VPC: "v", VPCUID: "v-uid", Subnet: subnet, Node: node, NodeUID: node + "-uid", Stage: stage, Revision: 1}
		if subnet != "" {
			m.SubnetUID = subnet + "-uid"
		}
		m.Name = m.Key() + "." + node
		m.UID = m.Name
		return roles.PutMember(tx, m)
	}
}

const (
	members, allSubnets, allAddresses = "role members of VPC v", "subnets of VPC v", "addresses of VPC v"
	tableA, tableB                    = "addresses of subnet a of VPC v", "addresses of subnet b of VPC v"
	oneA, oneB                        = "subnet a of VPC v", "subnet b of VPC v"
)

func TestSubscription_NobodyToAsk_Followed(t *testing.T) {
	hosts := hosted()
	for name, c := range map[string]struct {
		rows []func(store.Tx) error
		want []string
	}{
		"nothing of the VPC is here": {[]func(store.Tx) error{withVPC(3, 9), withSubnet("a", 3), withMember("a", "m", roles.Serving)}, nil},
		"no roles":                   {[]func(store.Tx) error{hosts, withVPC(0, 0), withSubnet("a", 0)}, []string{allSubnets, allAddresses}},
		"roles without a member yet": {[]func(store.Tx) error{hosts, withVPC(0, 0), withSubnet("a", 3)}, []string{allSubnets, allAddresses}},
		"the VPC is deleted":         {[]func(store.Tx) error{hosts}, []string{allSubnets, allAddresses}},
		"bouncers that join":         {[]func(store.Tx) error{hosts, withVPC(0, 1), withSubnet("a", 3), withMember("a", "m", roles.Joining)}, []string{members, allSubnets, allAddresses}},
		"bouncers that serve":        {[]func(store.Tx) error{hosts, withVPC(0, 1), withSubnet("a", 3), withMember("a", "m", roles.Serving)}, []string{members, allSubnets}},
		"a node that begins while one joins": {
			[]func(store.Tx) error{hosts, withVPC(0, 1), withSubnet("a", 3), withMember("a", "m", roles.Serving), withMember("a", "o", roles.Joining)}, []string{members, allSubnets},
		},
		"bouncers of one of two subnets": {
			[]func(store.Tx) error{hosts, withVPC(0, 1), withSubnet("a", 3), withSubnet("b", 0), withMember("a", "m", roles.Serving)}, []string{members, allSubnets, tableB},
		},
		"bouncers that nobody wants any more": {[]func(store.Tx) error{hosts, withVPC(0, 1), withSubnet("a", 0), withMember("a", "m", roles.Serving)}, []string{members, allSubnets, allAddresses}},
		"bouncers that leave":                 {[]func(store.Tx) error{hosts, withVPC(0, 1), withSubnet("a", 3), withMember("a", "m", roles.Leaving)}, []string{members, allSubnets, allAddresses}},
		"bouncers of a predecessor of the subnet": {[]func(store.Tx) error{hosts, withVPC(0, 1), withSubnet("a", 3), func(tx store.Tx) error {
			return roles.PutMember(tx, &roles.Member{Name: "old", VPC: "v", VPCUID: "v-uid", Subnet: "a", SubnetUID: "old", Node: "m", NodeUID: "m-uid", Stage: roles.Serving})
		}}, []string{members, allSubnets, allAddresses}},
		"a bouncer here that hosts": {[]func(store.Tx) error{hosts, withVPC(0, 1), withSubnet("a", 1), withMember("a", "n", roles.Serving)}, []string{members, allSubnets, allAddresses}},
		"a bouncer here that hosts, of one of two subnets with bouncers": {
			[]func(store.Tx) error{hosts, withVPC(0, 1), withSubnet("a", 1), withSubnet("b", 1), withMember("a", "m", roles.Serving), withMember("b", "n", roles.Joining)},
			[]string{members, allSubnets, tableB},
		},
		"a bouncer here that does not host": {[]func(store.Tx) error{withVPC(0, 1), withSubnet("a", 1), withSubnet("b", 0), withMember("a", "n", roles.Joining)}, []string{members, allSubnets, tableA}},
		"a member of a predecessor of the node": {[]func(store.Tx) error{withVPC(0, 1), withSubnet("a", 1), func(tx store.Tx) error {
			return roles.PutMember(tx, &roles.Member{Name: "old", VPC: "v", VPCUID: "v-uid", Subnet: "a", SubnetUID: "a-uid", Node: "n", NodeUID: "old", Stage: roles.Serving})
		}}, nil},
		"dividers": {
			[]func(store.Tx) error{
				hosts, withVPC(2, 1), withSubnet("a", 0), withSubnet("b", 0),
				withMember("", "m", roles.Serving), withMember("a", "m", roles.Serving), withMember("b", "m", roles.Serving),
			},
			[]string{members, oneA},
		},
		"dividers, and bouncers that join": {
			[]func(store.Tx) error{hosts, withVPC(2, 1), withSubnet("a", 0), withMember("", "m", roles.Serving), withMember("a", "m", roles.Joining)},
			[]string{members, oneA, tableA},
		},
		"dividers that join":                {[]func(store.Tx) error{hosts, withVPC(2, 1), withSubnet("a", 0), withMember("", "m", roles.Joining)}, []string{members, allSubnets, allAddresses}},
		"a divider here that does not host": {[]func(store.Tx) error{withVPC(2, 1), withSubnet("a", 0), withMember("", "n", roles.Serving)}, []string{members, allSubnets}},
		"a bouncer here in a divided VPC": {
			[]func(store.Tx) error{
				withVPC(2, 1), withSubnet("a", 0), withSubnet("b", 0),
				withMember("", "m", roles.Serving), withMember("b", "n", roles.Serving),
			},
			[]string{members, oneB, tableB},
		},
	} {
		t.Run(name, func(t *testing.T) {
			slices.Sort(c.want)
			if diff := cmp.Diff(c.want, newTables(t, c.rows...).settle(t, "v")); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSync_BouncersIncomplete_NotReliedOn: it would rely on the first of several
// alone. Once it does, another one that joins changes nothing.
func TestSync_BouncersIncomplete_NotReliedOn(t *testing.T) {
	w := newTables(t, hosted(), withVPC(0, 1), withSubnet("a", 2))
	for _, c := range []struct {
		name string
		row  func(store.Tx) error
		want []string
	}{
		{"one joins", withMember("a", "m", roles.Joining), []string{allAddresses, members, allSubnets}},
		{"another joins", withMember("a", "o", roles.Joining), []string{allAddresses, members, allSubnets}},
		{"the first serves", withMember("a", "m", roles.Serving), []string{allAddresses, members, allSubnets}},
		{"both serve", withMember("a", "o", roles.Serving), []string{members, allSubnets}},
		{"a third joins", withMember("a", "p", roles.Joining), []string{members, allSubnets}},
		{"one leaves", withMember("a", "m", roles.Leaving), []string{members, allSubnets}},
		{"nobody serves", withMember("a", "o", roles.Leaving), []string{allAddresses, members, allSubnets}},
		{"the third serves", withMember("a", "p", roles.Serving), []string{members, allSubnets}},
		{"nobody is wanted", withSubnet("a", 0), []string{allAddresses, members, allSubnets}},
	} {
		w.put(t, c.row)
		slices.Sort(c.want)
		if diff := cmp.Diff(c.want, w.settle(t, "v")); diff != "" {
			t.Errorf("%s: parts (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestDefaultVPC_WithBouncers_NodeAddressesFollowed(t *testing.T) {
	in := func(change func(store.Tx) error) func(store.Tx) error { return change }
	w := newTables(t,
		in(func(tx store.Tx) error {
			return store.PutVPC(tx, &store.VPC{Meta: store.Meta{UID: "d-uid"}, Name: "default", VNI: 1, RolesRevision: 1})
		}),
		in(func(tx store.Tx) error {
			return store.PutSubnet(tx, &store.Subnet{Meta: store.Meta{UID: "d-uid2"}, Name: "d", VPC: "default", Bouncers: 1})
		}),
		in(func(tx store.Tx) error {
			return roles.PutMember(
				tx,
				&roles.Member{Name: "m", VPC: "default", VPCUID: "d-uid", Subnet: "d", SubnetUID: "d-uid2", Node: "m", NodeUID: "m", Stage: roles.Serving},
			)
		}),
	)
	want := []string{"addresses of nodes", "role members of VPC default", "subnets of VPC default"}
	if diff := cmp.Diff(want, w.settle(t, "default")); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

// TestSubscription_ManySubnetsWithoutBouncers_OneWatch: each would be a request to the API server.
func TestSubscription_ManySubnetsWithoutBouncers_OneWatch(t *testing.T) {
	w := newTables(t, hosted(), withVPC(0, 1), withSubnet("a", 1), withMember("a", "m", roles.Serving))
	for i := range tablesAtMost {
		w.put(t, withSubnet(fmt.Sprint("more-", i), 0))
	}
	if got := w.settle(t, "v"); len(got) != 2+tablesAtMost || slices.Contains(got, allAddresses) {
		t.Errorf("%d parts, want one for each subnet: %v", len(got), got)
	}
	w.put(t, withSubnet("one-more", 0))
	if diff := cmp.Diff([]string{allAddresses, members, allSubnets}, w.settle(t, "v")); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

// TestSubscription_ServicePods_FollowedWherePodsAre: a role member translates no addresses.
func TestSubscription_ServicePods_FollowedWherePodsAre(t *testing.T) {
	const services = "Services of VPC v"
	for _, c := range []struct {
		name   string
		scaled bool
		rows   []func(store.Tx) error
		want   bool
	}{
		{"a pod", true, []func(store.Tx) error{hosted(), withVPC(0, 0)}, true},
		{"a pod, without verdicts", false, []func(store.Tx) error{hosted(), withVPC(0, 0)}, false},
		{"a bouncer", true, []func(store.Tx) error{withVPC(0, 1), withSubnet("a", 1), withMember("a", "n", roles.Serving)}, false},
		{"a pod and a bouncer", true, []func(store.Tx) error{hosted(), withVPC(0, 1), withSubnet("a", 1), withMember("a", "n", roles.Serving)}, true},
	} {
		w := newTables(t, c.rows...)
		w.cfg.ScaledEndpoints = c.scaled
		if got := w.settle(t, "v"); slices.Contains(got, services) != c.want {
			t.Errorf("%s: followed is %v, Services among it: want %v", c.name, got, c.want)
		}
	}
}

// TestTables_PartlyRead_OnlyReadTablesGiven: nothing counts as complete before it has been read, and a
// part that is about to be dropped does not count.
func TestTables_PartlyRead_OnlyReadTablesGiven(t *testing.T) {
	w := newTables(t, hosted(), withVPC(0, 1), withSubnet("a", 1), withSubnet("b", 0), withMember("a", "m", roles.Serving))
	w.settle(t, "v")
	table := w.Tables().Of("v")
	if !table.Members || !table.Subnets || table.Addresses || table.Has("a") || !table.Has("b") {
		t.Errorf("read is %+v, want members, Subnets and the table of b", table)
	}
	if first := w.Tables(); first != w.Tables() {
		t.Error("the tables are new without a change")
	}
	w.mu.Lock()
	w.parts[part{domain: "v", subnet: "b", extent: descriptor.AddressesOfSubnet}].confirmed = false
	w.mu.Unlock()
	w.broadcast()
	if table := w.Tables().Of("v"); table.Has("b") {
		t.Error("a table counts that has not been read")
	}
	if table := w.Tables().Of("unknown"); table.Subnets || table.Has("a") {
		t.Errorf("of a VPC that is not followed %+v is complete", table)
	}
}

// TestTables_ReadTogetherWithVerdicts_Counted: a VPC that has just been read decides
// that its Subnets are needed. At no moment does it count as all that there is to read.
func TestTables_ReadTogetherWithVerdicts_Counted(t *testing.T) {
	for range 20 {
		w := newTables(t, hosted(), withVPC(0, 0))
		w.base, w.judged = []*reflector.Source{}, true
		f, scope := &subscription{confirmed: true}, &sharedScope{}
		f.shared = []*sharedScope{scope}
		vpc := part{domain: "v"}
		w.parts = map[part]*subscription{vpc: f, {domain: "default"}: {confirmed: true}}
		if w.DomainSynced("v").IsOpen() {
			t.Fatal("the VPC counts as read before it is")
		}
		read := make(chan struct{})
		go func() { defer close(read); w.onceRead(vpc, scope)() }()
		for done := false; !done; {
			select {
			case <-read:
				done = true
			default:
			}
			if w.DomainSynced("v").IsOpen() {
				t.Fatal("the VPC counts as read without its Subnets and Addresses")
			}
		}
	}
}
