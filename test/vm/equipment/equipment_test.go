// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package equipment

import (
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/test/vm/qemu"
)

func TestAddAdapter_Devices_PortAndIOMMUFirst(t *testing.T) {
	m := qemu.Machine{Devices: []string{"other"}}
	AddAdapter(&m, OpenCable, SomeMAC())
	at := func(prefix string) int {
		return slices.IndexFunc(m.Devices, func(d string) bool { return strings.HasPrefix(d, prefix) })
	}
	iommu, port, adapter := at("intel-iommu"), at("pcie-root-port"), at("igb")
	if at("other") != 0 || iommu < 1 || port < iommu || adapter < port {
		t.Errorf("devices are %q", m.Devices)
	}
	for _, reference := range []string{"netdev=wire", "bus=socket1", "mac=02:a1:00:00:00:02"} {
		if !strings.Contains(m.Devices[adapter], reference) {
			t.Errorf("the adapter %q lacks %s", m.Devices[adapter], reference)
		}
	}
	if !strings.Contains(m.Devices[port], "id=socket1") || !slices.Equal(m.Networks, []string{OpenCable}) || !strings.Contains(OpenCable, "id=wire") {
		t.Errorf("it refers to what is not there: %q, %q", m.Devices, m.Networks)
	}
	if !slices.Contains(m.KernelArguments, "intel_iommu=on") {
		t.Errorf("the kernel does not use the IOMMU: %q", m.KernelArguments)
	}
}
