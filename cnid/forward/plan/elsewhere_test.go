// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

func TestPlan_AddressElsewhere_OtherNodeOrNowhere(t *testing.T) {
	self := &store.Node{Name: "node1", Addresses: ips("192.0.2.1", "2001:db8::1")}
	w := newWorld(t,
		func(tx store.Tx) error { return store.PutNode(tx, self) },
		func(tx store.Tx) error {
			return store.PutNode(tx, &store.Node{Name: "node2", Addresses: ips("2001:db8::2", "192.0.2.2")})
		},
		func(tx store.Tx) error {
			return store.PutNode(tx, &store.Node{Name: "thief", Addresses: ips("192.0.2.1")})
		},
		func(tx store.Tx) error { return store.PutNode(tx, &store.Node{Name: "bare"}) },
		func(tx store.Tx) error {
			return store.PutPod(tx, &store.Pod{Meta: store.Meta{UID: "here"}, Namespace: "a", Name: "b", Node: "node1"})
		},
	)
	remote := state.Address{VNI: 20, IP: ip("10.10.1.11"), Kind: state.Remote, Node: ip("192.0.2.2"), MAC: state.MAC{2, 0, 0, 0, 1, 1}}
	outside := state.Address{VNI: 20, IP: ip("10.10.1.11"), Kind: state.HeldOutside}
	for name, tc := range map[string]struct {
		change func(*store.Address)
		want   state.Address
	}{
		"of another node":                          {func(*store.Address) {}, remote},
		"of this node":                             {func(a *store.Address) { a.Node = "node1" }, state.Address{}},
		"of a node that is not known":              {func(a *store.Address) { a.Node = "node9" }, state.Address{}},
		"of a node without addresses":              {func(a *store.Address) { a.Node = "bare" }, state.Address{}},
		"of a node that says it has this one's":    {func(a *store.Address) { a.Node = "thief" }, state.Address{}},
		"of a Service":                             {func(a *store.Address) { a.Node, a.MAC = "", "" }, state.Address{}},
		"with a MAC that is none":                  {func(a *store.Address) { a.MAC = "02" }, state.Address{}},
		"that names a pod of this node":            {func(a *store.Address) { a.Holder.UID = "here" }, state.Address{}},
		"of another CNI plugin":                    {func(a *store.Address) { a.External = true }, outside},
		"of another CNI plugin on this node":       {func(a *store.Address) { a.External, a.Node = true, "node1" }, outside},
		"of another one, naming a pod of this one": {func(a *store.Address) { a.External, a.Holder.UID = true, "here" }, state.Address{}},
	} {
		row := &store.Address{
			Name:   "blue.10.10.1.11",
			VPC:    "blue",
			IP:     ip("10.10.1.11"),
			MAC:    "02:00:00:00:01:01",
			Node:   "node2",
			Holder: store.Holder{Kind: store.HolderPod, UID: "there"},
		}
		tc.change(row)
		w.store.View(func(tx store.ReadTx) {
			got, ok := Elsewhere(tx, self, "node1", 20, row)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateComparable(tc.want.IP)); diff != "" || ok != (tc.want.VNI != 0) {
				t.Errorf("an Address %s (-want +got), %v:\n%s", name, ok, diff)
			}
		})
	}
}
