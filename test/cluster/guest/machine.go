// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"fmt"

	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/vm/equipment"
	"github.com/alioth-net/alioth/test/vm/qemu"
)

const (
	// processors of a machine: starting a kubelet is work for two.
	processors = 2
	// memory in MiB, which holds the file system too.
	memory = 3072
)

// Machine describes the virtual machine of a plan. It is to be run in the network
// namespace of the lab's switch, where its ports are.
func Machine(plan Plan, kernel, image, console string) qemu.Machine {
	first, second := plan.Topology.Taps(plan.Index)
	mac, adapterMAC := plan.Topology.MACs(plan.Index)
	m := qemu.Machine{
		Kernel: kernel, Initramfs: image, Console: console, CPUs: processors, Memory: memory,
		Networks: []string{tap("lan", first)},
		Devices:  []string{fmt.Sprintf("virtio-net-pci,netdev=lan,mac=%s,romfile=", mac)},
		Shares:   []qemu.Share{{Tag: ShareTag, Dir: plan.Share}},
		// Each line on the console takes time.
		KernelArguments: []string{"quiet"},
	}
	equipment.AddAdapter(&m, tap("wire", second), adapterMAC)
	for n, cable := range plan.Topology.Cables(plan.Index) {
		for _, end := range []underlay.Link{cable.Near, cable.Far} {
			m.Networks = append(m.Networks, fmt.Sprintf("hubport,id=%s,hubid=%d", end.Name, n))
			m.Devices = append(m.Devices, fmt.Sprintf("virtio-net-pci,netdev=%s,mac=%s,romfile=", end.Name, end.MAC))
		}
	}
	return m
}

// tap returns a network by a port of the switch, which exists.
func tap(id, port string) string {
	return fmt.Sprintf("tap,id=%s,ifname=%s,script=no,downscript=no", id, port)
}
