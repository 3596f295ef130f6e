// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// HasAddress reports whether an address of a VPC is in the maps.
func HasAddress(in bpf.Maps, vni uint32, ip netip.Addr) (bool, error) {
	var row bpf.AliothAddress
	err := addressTable.in(in).Lookup(bpf.AliothAddressKey{Vni: vni, Ip: bpf.EncodeAddr(ip)}, &row)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up address %s of VNI %d: %w", ip, vni, err)
	}
	return true, nil
}

// Backends returns the backends of a port of a virtual address, in the order of their slots. The
// list is empty for a missing port, and may be incomplete during a change.
func Backends(in bpf.Maps, s state.Service) ([]state.Backend, error) {
	var row bpf.AliothService
	err := serviceTable.in(in).Lookup(serviceKey(s), &row)
	var list []state.Backend
	for slot := uint32(0); err == nil && slot < row.Backends; slot++ {
		var b bpf.AliothBackend
		if err = backendTable.in(in).Lookup(bpf.AliothBackendKey{Service: row.Id, Slot: slot}, &b); err == nil {
			list = append(list, decodeBackend(b))
		}
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, fmt.Errorf("look up the backends of %s port %d of VNI %d: %w", s.VIP, s.Port, s.VNI, err)
	}
	return list, nil
}

// ServiceMemory returns the kernel memory of the maps of services in bytes, and false
// if the kernel does not report it.
func ServiceMemory(in bpf.Maps) (bytes uint64, known bool, err error) {
	for _, t := range []*descriptor{servicesTable, backendsTable, choicesTable, lookupsTable} {
		info, err := in[MapOf(t.name())].Info()
		if err != nil {
			return 0, false, fmt.Errorf("read about map %s: %w", t.name(), err)
		}
		taken, ok := info.Memlock()
		if !ok {
			return 0, false, nil
		}
		bytes += taken
	}
	return bytes, true, nil
}
