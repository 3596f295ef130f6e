// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netif describes one interface of one pod. The operator decides the description, its
// AttachmentClaim and the annotation of the pod carry the description, and the journal, the
// drivers and the reports of a node use the same types.
package netif

import (
	"encoding/json"
	"net/netip"

	"k8s.io/utils/ptr"
)

// KindPair is the kind of an attachment by a pair of devices. The node chooses the type
// of the devices.
const KindPair = "veth"

// KindDelegate is the kind of an attachment that other CNI plugins make.
const KindDelegate = "delegate"

// KindExternal is the kind of an attachment that another CNI plugin makes with addresses
// of Alioth: the node's IPAM API gives them to it.
const KindExternal = "external"

// Interface is one interface of one pod.
type Interface struct {
	// Name of the interface in the pod, for example eth0.
	Name string `json:"name"`
	// AltName is a second name of the interface, requested by nic.name.
	AltName string `json:"altName,omitempty"`
	// Kind names the driver on the node, for example KindPair.
	Kind string `json:"kind"`
	// Network is namespace/name of the Network; "" where the pod uses the
	// default VPC directly.
	Network string `json:"network,omitempty"`
	// Definition is namespace/name of the NetworkAttachmentDefinition that the pod has
	// selected for the interface; "" for none.
	Definition string `json:"definition,omitempty"`
	// DefaultRoute reports that the pod requests its default routes by the interface.
	DefaultRoute bool `json:"defaultRoute,omitempty"`
	// NoDefaultRoute keeps default routes away from the interface: another interface of the
	// pod has them. An interface in a network of DANM has them in Link otherwise.
	NoDefaultRoute bool `json:"noDefaultRoute,omitempty"`
	// VPC is the name of the VPC object; "" outside of every VPC.
	VPC string `json:"vpc"`
	// Outside names the interface's network as kind/namespace/name, if that network is outside of
	// every VPC; as kind/name, if the network belongs to the whole cluster. Subnet is "" then.
	Outside string `json:"outside,omitempty"`
	// OutsideUID is the UID of that network.
	OutsideUID string `json:"outsideUID,omitempty"`
	// Subnet is the name of the Subnet object.
	Subnet string `json:"subnet"`
	// Addresses, at most one per family, IPv4 first, with the subnet's prefix
	// length.
	Addresses []netip.Prefix `json:"addresses"`
	// Gateways, one per family of Addresses.
	Gateways []netip.Addr `json:"gateways,omitempty"`
	// MAC of the interface, lower case with colons.
	MAC string `json:"mac"`
	// Link is the configuration outside of every VPC; nil in a VPC.
	Link *Config `json:"link,omitempty"`
	// Delegate is the input of CNI plugins for an interface that they make; nil for others.
	Delegate *Delegate `json:"delegate,omitempty"`
}

// Delegate is the input of CNI plugins: Conf or File.
type Delegate struct {
	// Conf is a complete list of configurations (CNI 1.1, section "Network configuration
	// format"): nodes pass it on unchanged.
	Conf json.RawMessage `json:"conf,omitempty"`
	// File is a configuration on the nodes' disks.
	File *DelegateFile `json:"file,omitempty"`
	// IP and MAC for the plugins in CNI_ARGS (pluginconf.Plain), "" for nothing.
	IP  string `json:"ip,omitempty"`
	MAC string `json:"mac,omitempty"`
}

// OwnIPAM reports whether the addresses of the interface are the plugins' to choose: no
// AttachmentClaim and no Address has them.
func (d *Delegate) OwnIPAM() bool { return d != nil && (d.File == nil || !d.File.Inject) }

// DelegateFile names a configuration in the nodes' folder of CNI configurations. NetworkID
// selects the configuration of a DANM network with a static type. Name selects the configuration
// of a NetworkAttachmentDefinition that has none of its own.
type DelegateFile struct {
	// NetworkID stands for the file <NetworkID>.conflist or <NetworkID>.conf.
	NetworkID string `json:"networkID,omitempty"`
	// Name is the name in the configuration.
	Name string `json:"name,omitempty"`
	// Type of the first plugin, in any case; "" for any.
	Type string `json:"type,omitempty"`
	// Plugins and IPAM are the granted types.
	Plugins []string `json:"plugins"`
	IPAM    []string `json:"ipam,omitempty"`
	// Inject: the plugin gets the addresses and routes of the attachment in place of the
	// file's IPAM. An attachment without addresses has no IPAM then.
	Inject bool `json:"inject,omitempty"`
	// Args and Runtime are the pod's requests: the fields Args and Runtime of
	// pluginconf.Request in JSON, nil without any.
	Args    json.RawMessage `json:"args,omitempty"`
	Runtime json.RawMessage `json:"runtime,omitempty"`
	// PlainIPs and PlainMAC: the addresses and the MAC of Runtime may reach plugins without
	// the capability, in CNI_ARGS (pluginconf.Request.Plain).
	PlainIPs bool `json:"plainIPs,omitempty"`
	PlainMAC bool `json:"plainMAC,omitempty"`
}

// VPCConfig is the configuration of an interface in a VPC, beside its name, its addresses and what
// its node derives from the VPC: MTU, gateways and routes.
type VPCConfig struct {
	// AltName is a second name of the interface.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	// +optional
	AltName string `json:"altName,omitempty"`
	// Definition is namespace/name of the NetworkAttachmentDefinition that the pod has selected for
	// the interface.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[-a-z0-9.]+/[-a-z0-9.]+$`
	// +optional
	Definition string `json:"definition,omitempty"`
	// NoDefaultRoute keeps default routes away from the interface: another interface of the pod has
	// them.
	// +optional
	NoDefaultRoute bool `json:"noDefaultRoute,omitempty"`
}

// VPCConfig returns the configuration of an interface in a VPC.
func (a *Interface) VPCConfig() VPCConfig {
	return VPCConfig{AltName: a.AltName, Definition: a.Definition, NoDefaultRoute: a.NoDefaultRoute}
}

// SetVPCConfig sets the configuration of an interface in a VPC.
func (a *Interface) SetVPCConfig(c VPCConfig) {
	a.AltName, a.Definition, a.NoDefaultRoute = c.AltName, c.Definition, c.NoDefaultRoute
}

// IPv6 is an interface's part in IPv6. Router advertisements and the detection of duplicate
// addresses are off in each case: the addresses of an interface are decided elsewhere.
type IPv6 string

const (
	// IPv6Default is for VPCs: IPv6 is on if the interface has an IPv6 address. The
	// interface has no link-local address, because nobody has decided it.
	IPv6Default IPv6 = ""
	// IPv6Off turns IPv6 off.
	IPv6Off IPv6 = "off"
	// IPv6None turns IPv6 on for an interface without a decided address. It has a link-local one
	// (RFC 4291 section 2.8), so that software in the pod can begin.
	IPv6None IPv6 = "none"
	// IPv6On turns IPv6 on for an interface with addresses and a link-local one, as hosts
	// on an Ethernet have.
	IPv6On IPv6 = "on"
)

// Config is the configuration of an interface beside its name and addresses. Outside of every VPC
// the operator decides all of it. In a VPC the node chooses MTU and Routes, and the other fields
// are zero.
type Config struct {
	// Parent is the device of the node below the interface.
	Parent string `json:"parent,omitempty"`
	// Mode of the interface; "" for the driver's default.
	Mode string `json:"mode,omitempty"`
	// VLAN is the VLAN ID on Parent, 1 to 4094; 0 for none.
	VLAN uint32 `json:"vlan,omitempty"`
	// VXLAN is the VXLAN network identifier on Parent, 1 to 16777215; 0 for none.
	VXLAN uint32 `json:"vxlan,omitempty"`
	// Pool is the extended resource that has the device of the interface, "" for an
	// interface without one, and VF the settings of that device. VLAN is a setting too.
	Pool string `json:"pool,omitempty"`
	VF   *VF    `json:"vf,omitempty"`
	// MTU in bytes; 0 selects the MTU of Parent, or of the device.
	MTU int `json:"mtu,omitempty"`
	// IPv6 is one of the states above.
	IPv6 IPv6 `json:"ipv6,omitempty"`
	// Routes through the interface. Without a gateway the destination is on the link.
	Routes []Route `json:"routes,omitempty"`
	// Rules that select routing tables.
	Rules []Rule `json:"rules,omitempty"`
}

// ParentLink returns the number of the VLAN or VXLAN link on Parent below the interface, and whether
// the link is a VXLAN. It returns 0 for an interface of Parent itself, and for a device of a pool:
// the device itself puts packets into the VLAN.
func (c Config) ParentLink() (number uint32, vxlan bool) {
	switch {
	case c.Pool != "":
		return 0, false
	case c.VXLAN != 0:
		return c.VXLAN, true
	}
	return c.VLAN, false
}

// Settings returns the settings of the device, which are the defaults without VF.
func (c Config) Settings() VF { return ptr.Deref(c.VF, VF{}) }

// Route leads to Dst through Gateway, which has the same family.
type Route struct {
	// Dst has no bits behind its length.
	Dst netip.Prefix `json:"dst"`
	// Gateway is the zero value where Dst is on the link. A gateway outside of the prefixes of the
	// interface is on the link too.
	Gateway netip.Addr `json:"gw,omitzero"`
	// Table is the number of a routing table, 1 to 4294967295; 0 for the main table, or for a
	// table that is not chosen yet.
	Table int `json:"table,omitempty"`
}

// Rule selects a routing table for the packets of a source.
type Rule struct {
	// From is an address of the interface. 0.0.0.0/32 and ::/128 stand for the addresses of
	// the family that plugins choose (Delegate.OwnIPAM).
	From netip.Prefix `json:"from"`
	// Table is the number of the routing table.
	Table int `json:"table"`
}
