// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/state/statetest"
)

// identified are interfaces whose rows have an identity, or send it.
func identified() map[string]state.Interface {
	base := state.Interface{Ifindex: 7, VNI: 5, MAC: macA, Addrs: []netip.Addr{ip("10.0.1.10")}}
	with := func(change func(*state.Interface)) state.Interface {
		i := base
		change(&i)
		return i
	}
	return map[string]state.Interface{
		"without identity":           base,
		"the largest identity":       with(func(i *state.Interface) { i.Identity, i.SendsIdentity = 1<<24-1, true }),
		"the lowest bit":             with(func(i *state.Interface) { i.Identity, i.SendsIdentity = 1, true }),
		"an identity is not sent":    with(func(i *state.Interface) { i.Identity = 4711 }),
		"no identity is sent":        with(func(i *state.Interface) { i.SendsIdentity = true }),
		"the node's own":             with(func(i *state.Interface) { i.Identity, i.Node = 1, true }),
		"a netkit pair with another": with(func(i *state.Interface) { i.Identity, i.Netkit, i.SendsIdentity = 300, true, true }),
	}
}

func TestInterfaceRow_Identity_EncodedAndDecoded(t *testing.T) {
	for name, i := range identified() {
		for _, served := range []bool{false, true} {
			got := decodeInterface(7, encodeInterface(i, served))
			if d := cmp.Diff(i, got, statetest.SameAddr); d != "" {
				t.Errorf("%s, with Services %t (-want +got):\n%s", name, served, d)
			}
		}
	}
}

// The attachment alone decides whether an interface works: it has no identity.
func TestInterfaceRow_OtherIdentity_AttachmentComplete(t *testing.T) {
	for name, i := range identified() {
		have := &Rows{}
		have.add(part{State: &state.State{Interfaces: []state.Interface{i}}, have: have})
		bare := i
		bare.Identity, bare.SendsIdentity = 0, false
		if missing, any := have.Lacks(state.State{Interfaces: []state.Interface{bare}}); any {
			t.Errorf("%s: the attachment lacks %s", name, missing)
		}
		bare.MAC[5]++
		if _, any := have.Lacks(state.State{Interfaces: []state.Interface{bare}}); !any {
			t.Errorf("%s: another MAC is not missed", name)
		}
	}
}
