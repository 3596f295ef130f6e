// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scaled

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/scaled"
	"github.com/alioth-net/alioth/store/rules/services"
)

var testRules = Rules{DefaultVPC: "default", Shared: []string{"default/kubernetes"}, APIServer: "default/kubernetes"}

// web returns a Service of blue-vpc, with a pod of its namespace in its slice.
func web(change func(*store.Service), more ...any) []any {
	row := &store.Service{
		Meta: operatortest.Meta("uid-web", 0), Namespace: "blue", Name: "web", ClusterIPs: operatortest.Addrs("10.96.0.7"),
		Ports: []store.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}},
	}
	change(row)
	pod := operatortest.Pod("blue", "blue", "a", "", "")
	return append([]any{
		&store.Namespace{Meta: operatortest.Meta("uid-blue", 0), Name: "blue", Tenant: "blue"},
		operatortest.VPC("blue-vpc", 2, []string{"blue"}, "10.0.0.0/16"), operatortest.Network("blue", "blue", "default", "blue-vpc", 1), row,
		operatortest.Address("blue-vpc", "net1", "10.0.0.1", pod), slice(pod.UID, "10.0.0.1"),
	}, more...)
}

func slice(uid, ip string) *store.EndpointSlice {
	return &store.EndpointSlice{
		Meta: operatortest.Meta("uid-slice", 0), Namespace: "blue", Name: "web-1", Service: "web",
		Ports:     []store.ServicePort{{Name: "http", Protocol: "TCP", Port: 8080}},
		Endpoints: []store.Endpoint{{Addresses: operatortest.Addrs(ip), Ready: true, PodUID: uid}},
	}
}

// apply carries steps out in the store.
func apply(tx store.Tx, steps []step) error {
	for _, s := range steps {
		if s.wanted == nil {
			scaled.Delete(tx, s.held.Name, s.held.UID)
		} else if err := scaled.Put(tx, s.wanted); err != nil {
			return err
		}
	}
	return nil
}

func stepsOf(s *store.Store) (steps []step) {
	s.View(func(tx store.ReadTx) { steps = decide(tx, testRules, "blue", "web") })
	return steps
}

func described(steps []step) (list []string) {
	for _, s := range steps {
		switch {
		case s.wanted == nil:
			list = append(list, fmt.Sprintf("delete %s %d", s.held.VPC, s.held.Part))
		case s.held == nil:
			list = append(list, fmt.Sprintf("create %s %d with %d", s.wanted.VPC, s.wanted.Part, len(s.wanted.Backends)))
		default:
			list = append(list, fmt.Sprintf("change %s %d to %d", s.wanted.VPC, s.wanted.Part, len(s.wanted.Backends)))
		}
	}
	return list
}

func TestVerdict_ServiceChanges_Follows(t *testing.T) {
	s := operatortest.New(t, web(func(*store.Service) {})...)
	update := func(change func(store.Tx) error) {
		t.Helper()
		if err := s.Update(change); err != nil {
			t.Fatal(err)
		}
	}
	again := func(change func(*store.Service)) func(store.Tx) error {
		return func(tx store.Tx) error {
			row := *store.GetService(tx, "blue", "web")
			change(&row)
			return store.PutService(tx, &row)
		}
	}
	for _, c := range []struct {
		name   string
		change func(store.Tx) error
		want   []string
	}{
		{"it is new", func(store.Tx) error { return nil }, []string{"create blue-vpc 0 with 1"}},
		{"nothing changes", func(store.Tx) error { return nil }, nil},
		{"another pod gets the address", func(tx store.Tx) error {
			store.DeleteAddress(tx, "blue-vpc.10.0.0.1", store.GetAddress(tx, "blue-vpc.10.0.0.1").UID)
			return store.PutAddress(tx, operatortest.Address("blue-vpc", "net1", "10.0.0.1", operatortest.Pod("blue", "blue", "b", "", "")))
		}, []string{"change blue-vpc 0 to 0"}},
		{"the slice names it", func(tx store.Tx) error {
			return store.PutEndpointSlice(tx, slice(operatortest.Pod("blue", "blue", "b", "", "").UID, "10.0.0.1"))
		}, []string{"change blue-vpc 0 to 1"}},
		{"it gets a node port", again(func(row *store.Service) {
			row.Ports = []store.ServicePort{{Name: "http", Protocol: "TCP", Port: 80, NodePort: 30080}}
		}), []string{"create blue-vpc 0 with 1", "delete blue-vpc 0"}},
		{"its VPC refuses the tenant", func(tx store.Tx) error {
			row := *store.GetVPC(tx, "blue-vpc")
			row.AllowedTenants = nil
			return store.PutVPC(tx, &row)
		}, []string{"create  0 with 0", "delete blue-vpc 0"}},
		{"it has no node port any more", again(func(row *store.Service) { row.Ports = []store.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}} }), []string{"delete  0"}},
		{"the VPC allows it again", func(tx store.Tx) error {
			row := *store.GetVPC(tx, "blue-vpc")
			row.AllowedTenants = []string{"blue"}
			return store.PutVPC(tx, &row)
		}, []string{"create blue-vpc 0 with 1"}},
		{"somebody changes the verdict", func(tx store.Tx) error {
			for held := range scaled.All(tx) {
				row := *held
				row.Backends = append(slices.Clone(row.Backends), scaled.Backend{IP: operatortest.Addrs("10.0.0.66")[0]})
				return scaled.Put(tx, &row)
			}
			return nil
		}, []string{"change blue-vpc 0 to 1"}},
		{"it is made again", func(tx store.Tx) error {
			row := *store.GetService(tx, "blue", "web")
			store.DeleteService(tx, "blue", "web", row.UID)
			row.UID = "uid-successor"
			return store.PutService(tx, &row)
		}, []string{"create blue-vpc 0 with 1", "delete blue-vpc 0"}},
		{"it is gone", func(tx store.Tx) error { store.DeleteService(tx, "blue", "web", "uid-successor"); return nil }, []string{"delete blue-vpc 0"}},
	} {
		update(c.change)
		steps := stepsOf(s)
		if diff := cmp.Diff(c.want, described(steps)); diff != "" {
			t.Errorf("%s: steps (-want +got):\n%s", c.name, diff)
		}
		update(func(tx store.Tx) error { return apply(tx, steps) })
	}
}

// TestVerdict_AnyNumberOfWrites_BackendsKept: a node may see any number of the writes.
func TestVerdict_AnyNumberOfWrites_BackendsKept(t *testing.T) {
	s := operatortest.New(t, web(func(*store.Service) {})...)
	sized := func(n int) {
		t.Helper()
		err := s.Update(func(tx store.Tx) error {
			row := slice("", "10.0.0.1")
			row.Endpoints[0].Addresses = nil
			for i := range n {
				ip := fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250)
				pod := operatortest.Pod("blue", "blue", fmt.Sprint("p", i), "", "")
				if store.AddressByIP(tx, "blue-vpc", operatortest.Addrs(ip)[0]) == nil {
					if err := store.PutAddress(tx, operatortest.Address("blue-vpc", "net1", ip, pod)); err != nil {
						return err
					}
				}
				row.Endpoints = append(row.Endpoints, store.Endpoint{
					Addresses: operatortest.Addrs(ip), Ready: true, PodUID: store.AddressByIP(tx, "blue-vpc", operatortest.Addrs(ip)[0]).Holder.UID,
				})
			}
			return store.PutEndpointSlice(tx, row)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := func(tx store.ReadTx) int {
		home, _ := services.FromRows(scaled.ByService(tx, "blue", "web"))
		if home == nil {
			return 0
		}
		return len(home.Backends)
	}
	last := 0
	for _, n := range []int{1100, 1300, 200, 3000, 10} {
		sized(n)
		for i, one := range stepsOf(s) {
			if err := s.Update(func(tx store.Tx) error { return apply(tx, []step{one}) }); err != nil {
				t.Fatal(err)
			}
			s.View(func(tx store.ReadTx) {
				if got := seen(tx); got < min(n, last) {
					t.Errorf("from %d to %d backends, write %d: %d are there", last, n, i, got)
				}
			})
		}
		s.View(func(tx store.ReadTx) {
			if got := seen(tx); got != n {
				t.Errorf("%d backends are there, want %d", got, n)
			}
		})
		last = n
	}
}
