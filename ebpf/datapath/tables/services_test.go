// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"maps"
	"testing"
	"unsafe"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/state/statetest"
)

func TestServiceMaps_Sizes_AsDocumented(t *testing.T) {
	spec, err := bpf.LoadAlioth()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint32{
		"alioth_services": state.MaxServices, "alioth_choices": state.MaxServices, "alioth_backends": state.MaxAllBackends, "alioth_maglev": maxMaglevParts,
	} {
		if got := spec.Maps[name].MaxEntries; got != want {
			t.Errorf("%s takes %d rows, not %d", name, got, want)
		}
	}
	// The limit on the number of backends then implies this limit.
	for n := range state.MaxBackends + 1 {
		if parts, share := lookupParts(lookupEntries(n)), n*maxMaglevParts/state.MaxAllBackends; parts > share {
			t.Errorf("the lookup table of %d backends takes %d rows, more than %d", n, parts, share)
		}
	}
}

func TestService_Unchanged_NotCompiledAgain(t *testing.T) {
	s := statetest.Small()
	s.Services[0].Backends = append(s.Services[0].Backends, state.Backend{IP: ip("192.0.2.3"), Port: 6443})
	first := compile(s, &Rows{})
	s.Services = append(
		s.Services,
		state.Service{VNI: 5, VIP: ip("10.96.0.2"), Port: 80, Proto: state.ProtoTCP, Backends: []state.Backend{{IP: ip("10.0.1.10"), Port: 80}}},
	)
	plan := Plan(first, compile(s, first))
	for _, op := range plan {
		switch op.Key {
		case bpf.AliothServiceKey{Vip: bpf.EncodeAddr(ip("10.96.0.1")), Port: bpf.NetworkOrder(443), Proto: state.ProtoTCP}, uint32(1),
			bpf.AliothBackendKey{Service: 1}, bpf.AliothMaglevKey{Service: 1}:
			t.Errorf("adding a service changes another: %v", op)
		}
	}
	// The tables of an earlier version are not there.
	upgraded := Rows{rows: maps.Clone(first.rows), nextID: first.nextID}
	delete(upgraded.rows, maglevTable.name())
	delete(upgraded.rows, choiceTable.name())
	want := compile(s, first)
	if got := maglevTable.of(compile(s, &upgraded)); len(got) != len(maglevTable.of(want)) ||
		got[bpf.AliothMaglevKey{Service: 1}] != maglevTable.of(want)[bpf.AliothMaglevKey{Service: 1}] {
		t.Error("the lookup table of a service that an earlier version wrote is missing")
	}
}

// The sizes equal the sizes in docs/tenants/services.md and docs/design/090.
func TestServiceRows_Sizes_AsDocumented(t *testing.T) {
	for name, c := range map[string]struct{ got, want uintptr }{
		"service": {unsafe.Sizeof(bpf.AliothServiceKey{}) + unsafe.Sizeof(bpf.AliothService{}), 32},
		"choice":  {4 + unsafe.Sizeof(bpf.AliothChoice{}), 12},
		"backend": {unsafe.Sizeof(bpf.AliothBackendKey{}) + unsafe.Sizeof(bpf.AliothBackend{}), 28},
		"part":    {unsafe.Sizeof(bpf.AliothMaglevKey{}) + unsafe.Sizeof(bpf.AliothMaglev{}), 264},
	} {
		if c.got != c.want {
			t.Errorf("a %s takes %d bytes, not %d", name, c.got, c.want)
		}
	}
}
