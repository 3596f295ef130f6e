// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package equipment is the common part of virtual machines: the modules of the kernel that nodes
// use, and network hardware with virtual functions.
package equipment

import (
	"net"

	"github.com/alioth-net/alioth/test/vm/qemu"
)

// Modules returns the kernel modules that Alioth and its tests need. A node would load them by
// itself on request.
func Modules() []string {
	return []string{
		"crc32c_generic", // looked up by name when libcrc32c loads
		"veth", "macvlan", "ipvlan", "8021q", "bonding", "bridge", "vrf", "vxlan", "dummy", "tun",
		"sch_ingress", "sch_htb", "sch_tbf", "sch_prio", "cls_bpf", "cls_matchall", "cls_u32", "act_gact", "act_mirred",
		"nf_tables", "nf_conntrack", "nft_ct", "nft_masq", "nft_nat", "nft_chain_nat", "nft_connlimit", "nft_limit", "nft_log", "nf_log_syslog",
		"nft_fib_inet", "nft_reject_inet", "nft_numgen", "nft_hash", "nf_conntrack_netlink",
		"tcp_diag", "udp_diag",
	}
}

// HardwareModules returns the drivers of the adapter that AddAdapter adds.
func HardwareModules() []string { return []string{"igb", "igbvf", "vfio_pci"} }

// AddAdapter gives a machine a network adapter with virtual functions behind a port of PCI Express,
// and an IOMMU, which vfio-pci needs to take a function. network is the other end of its cable, as
// QEMU's option -netdev takes it, with the ID "wire".
func AddAdapter(m *qemu.Machine, network string, mac net.HardwareAddr) {
	m.Networks = append(m.Networks, network)
	m.Devices = append(
		m.Devices,
		"intel-iommu",
		"pcie-root-port,id=socket1,bus=pcie.0,slot=5",
		"igb,netdev=wire,bus=socket1,mac="+mac.String(),
	)
	// Devices of the machine itself use addresses of memory: translating them takes time.
	m.KernelArguments = append(m.KernelArguments, "intel_iommu=on", "iommu=pt")
}

// SomeMAC returns an address for an adapter that is alone.
func SomeMAC() net.HardwareAddr { return net.HardwareAddr{0x02, 0xa1, 0, 0, 0, 2} }

// OpenCable is a network for AddAdapter that leads nowhere.
const OpenCable = "hubport,id=wire,hubid=0"
