// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

const older, newer = "multitenancy.acn.azure.com", "acn.azure.com"

func newStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func update(t *testing.T, s *store.Store, do func(tx store.Tx) error) {
	t.Helper()
	if err := s.Update(do); err != nil {
		t.Fatal(err)
	}
}

func meta(uid string, age int64) store.Meta {
	return store.Meta{UID: uid, Created: time.Unix(age, 0)}
}

func podNetwork(group, name string, age int64) *nodeipam.PodNetwork {
	return &nodeipam.PodNetwork{Meta: meta(group+name, age), Ref: nodeipam.Ref{Group: group, Name: name}, VPC: "blue"}
}

// instance returns an instance in namespace a.
func instance(group, name string, age int64) *nodeipam.Instance {
	return &nodeipam.Instance{Meta: meta(group+name, age), Ref: nodeipam.Ref{Group: group, Namespace: "a", Name: name}}
}

func TestInstance_TwoGroups_OlderServes(t *testing.T) {
	s := newStore(t)
	young, old := podNetwork(newer, "net", 5), podNetwork(older, "net", 3)
	even, evenLater := podNetwork(newer, "even", 3), podNetwork(older, "even", 3)
	mine, theirs := instance(newer, "pni", 2), instance(older, "pni", 3)
	update(t, s, func(tx store.Tx) error {
		for _, row := range []*nodeipam.PodNetwork{young, old, even, evenLater} {
			if err := nodeipam.PutPodNetwork(tx, row); err != nil {
				return err
			}
		}
		for _, row := range []*nodeipam.Instance{theirs, mine} {
			if err := nodeipam.PutInstance(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
	serves := func(name string, want *nodeipam.PodNetwork) {
		t.Helper()
		s.View(func(tx store.ReadTx) {
			if got := nodeipam.ServingPodNetwork(tx, name); got != want {
				t.Errorf("%s is served by %v, want %v", name, got, want)
			}
		})
	}
	serves("net", old)
	serves("even", even) // by the name of the group
	serves("ne", nil)
	s.View(func(tx store.ReadTx) {
		for _, tt := range []struct {
			namespace, name string
			want            *nodeipam.Instance
		}{{"a", "pni", mine}, {"b", "pni", nil}, {"", "pni", nil}, {"a", "pn", nil}} {
			if got := nodeipam.ServingInstance(tx, tt.namespace, tt.name); got != tt.want {
				t.Errorf("%s/%s is served by %v, want %v", tt.namespace, tt.name, got, tt.want)
			}
		}
		if got := nodeipam.PodNetworksOfVPC(tx, "blue"); len(got) != 4 || len(nodeipam.PodNetworksOfVPC(tx, "blu")) != 0 {
			t.Errorf("of the VPC are %v", got)
		}
	})
	update(t, s, func(tx store.Tx) error {
		if nodeipam.DeletePodNetwork(tx, old.Ref, "another") || !nodeipam.DeletePodNetwork(tx, old.Ref, old.UID) {
			t.Error("a row is deleted by its own UID only")
		}
		return nil
	})
	serves("net", young)
}

// reserved returns the names of the instances that have an address of a VPC.
func reserved(s *store.Store, vpc, ip string) (names []string) {
	s.View(func(tx store.ReadTx) {
		for _, row := range nodeipam.ReservedBy(tx, vpc, netip.MustParseAddr(ip)) {
			names = append(names, row.Name)
		}
	})
	return names
}

func counted(s *store.Store, podNetwork string) (count int) {
	s.View(func(tx store.ReadTx) { count = nodeipam.CountReserved(tx, podNetwork) })
	return count
}

func TestReservation_OtherVPC_NotReserved(t *testing.T) {
	s := newStore(t)
	ips := func(texts ...string) (list []netip.Addr) {
		for _, text := range texts {
			list = append(list, netip.MustParseAddr(text))
		}
		return list
	}
	put := func(name string, version string, what ...nodeipam.Reserved) {
		row := instance(older, name, 1)
		row.ResourceVersion, row.Reserved = version, what
		update(t, s, func(tx store.Tx) error { return nodeipam.PutInstance(tx, row) })
	}
	want := func(vpc, ip string, names ...string) {
		t.Helper()
		if got := reserved(s, vpc, ip); !slices.Equal(got, names) {
			t.Errorf("%s of %s is reserved by %q, want %q", ip, vpc, got, names)
		}
	}
	put("one", "1", nodeipam.Reserved{PodNetwork: "x", VPC: "blue", IPs: ips("10.0.0.1", "10.0.0.2")},
		nodeipam.Reserved{PodNetwork: "y", VPC: "green", IPs: ips("10.0.0.2", "fd00::1")})
	put("two", "2", nodeipam.Reserved{PodNetwork: "x", VPC: "blue", IPs: ips("10.0.0.2")})
	want("blue", "10.0.0.1", "one")
	want("blue", "10.0.0.2", "one", "two")
	want("green", "10.0.0.1")
	want("green", "fd00::1", "one")
	want("blu", "10.0.0.1")
	if x, y := counted(s, "x"), counted(s, "y"); x != 3 || y != 2 {
		t.Errorf("reserved are %d and %d addresses, want 3 and 2", x, y)
	}

	put("one", "3", nodeipam.Reserved{PodNetwork: "x", VPC: "blue", IPs: ips("10.0.0.3")})
	want("blue", "10.0.0.1")
	want("blue", "10.0.0.2", "two")
	want("blue", "10.0.0.3", "one")
	want("green", "fd00::1")
	put("one", "2") // an older version of the same object
	want("blue", "10.0.0.3", "one")

	update(t, s, func(tx store.Tx) error {
		row := instance(older, "one", 1)
		if nodeipam.DeleteInstance(tx, row.Ref, "another") || len(nodeipam.ReservedBy(tx, "blue", ips("10.0.0.3")[0])) != 1 {
			t.Error("another UID deletes the instance or its reservations")
		}
		if !nodeipam.DeleteInstance(tx, row.Ref, row.UID) {
			t.Error("its own UID does not delete the instance")
		}
		return nil
	})
	want("blue", "10.0.0.3")
	if x, y := counted(s, "x"), counted(s, "y"); x != 1 || y != 0 {
		t.Errorf("reserved are %d and %d addresses, want 1 and 0", x, y)
	}
}

func TestReports_BothGroups_FoundTogether(t *testing.T) {
	s := newStore(t)
	var configs []*nodeipam.PodConfig
	var infos []*nodeipam.NodeInfo
	for _, group := range []string{newer, older} {
		configs = append(configs, &nodeipam.PodConfig{Meta: meta(group, 1), Ref: nodeipam.Ref{Group: group, Namespace: "a", Name: "web"}})
		infos = append(infos, &nodeipam.NodeInfo{Meta: meta(group, 1), Ref: nodeipam.Ref{Group: group, Name: "node-1"}})
	}
	other := &nodeipam.PodConfig{Meta: meta("other", 1), Ref: nodeipam.Ref{Group: newer, Namespace: "a", Name: "web-0"}}
	otherNode := &nodeipam.NodeInfo{Meta: meta("other", 1), Ref: nodeipam.Ref{Group: newer, Name: "node-10"}}
	update(t, s, func(tx store.Tx) error {
		for _, row := range append(configs, other) {
			if err := nodeipam.PutPodConfig(tx, row); err != nil {
				return err
			}
		}
		for _, row := range append(infos, otherNode) {
			if err := nodeipam.PutNodeInfo(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
	s.View(func(tx store.ReadTx) {
		if diff := cmp.Diff(infos, nodeipam.NodeInfosOf(tx, "node-1")); diff != "" {
			t.Errorf("infos of the node (-want +got):\n%s", diff)
		}
	})
	update(t, s, func(tx store.Tx) error {
		if !nodeipam.DeletePodConfig(tx, other.Ref, other.UID) || !nodeipam.DeleteNodeInfo(tx, otherNode.Ref, otherNode.UID) {
			t.Error("rows are not deleted")
		}
		return nil
	})
	s.View(func(tx store.ReadTx) {
		if diff := cmp.Diff(configs, slices.Collect(nodeipam.PodConfigs(tx))); diff != "" {
			t.Errorf("configs that are left (-want +got):\n%s", diff)
		}
		if left := nodeipam.GetNodeInfo(tx, otherNode.Ref); left != nil {
			t.Errorf("left is %v", left)
		}
	})
}

// TestAssumedReservation_SameVersionAgain_Stays: informers repeat the version of the object
// without the reservation.
func TestAssumedReservation_SameVersionAgain_Stays(t *testing.T) {
	s := newStore(t)
	at := func(version string) *nodeipam.Instance {
		row := instance(older, "pni", 1)
		row.ResourceVersion = version
		return row
	}
	put := func(version string) {
		t.Helper()
		update(t, s, func(tx store.Tx) error { return nodeipam.PutInstance(tx, at(version)) })
	}
	put("1")
	update(t, s, func(tx store.Tx) error {
		return nodeipam.AssumeReserved(tx, at("1"), []nodeipam.Reserved{{PodNetwork: "x", VPC: "blue", IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}})
	})
	for _, step := range []struct {
		version string
		want    int
	}{{"", 1}, {"1", 1}, {"2", 0}} {
		if step.version != "" {
			put(step.version)
		}
		if got := len(reserved(s, "blue", "10.0.0.1")); got != step.want || counted(s, "x") != step.want {
			t.Errorf("after version %q %d instances have the address, and %d are counted, want %d", step.version, got, counted(s, "x"), step.want)
		}
	}
}
