// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// Kinds of networks.
const (
	KindDanmNet        = "DanmNet"
	KindTenantNetwork  = "TenantNetwork"
	KindClusterNetwork = "ClusterNetwork"
)

// Types of networks that DANM calls dynamic: their interfaces are made from a device of the
// node. Each other type names a CNI plugin, and is called static.
const (
	TypeIPVLAN  = "ipvlan"
	TypeMACVLAN = "macvlan"
	TypeSRIOV   = "sriov"
)

// Types of VNIs.
const (
	VLAN  = "vlan"
	VXLAN = "vxlan"
)

var dynamic = []string{TypeIPVLAN, TypeMACVLAN, TypeSRIOV}

// DynamicTypes lists the types that are dynamic.
func DynamicTypes() []string { return slices.Clone(dynamic) }

// Dynamic reports whether a type, in lower case, is dynamic.
func Dynamic(networkType string) bool { return slices.Contains(dynamic, networkType) }

// Ref names a network. Namespace is "" for a ClusterNetwork.
type Ref struct{ Group, Kind, Namespace, Name string }

// String returns the network's kind and name, as messages have it.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return fmt.Sprintf("%s %s/%s", r.Kind, r.Namespace, r.Name)
}

// Network is the row of a DanmNet, TenantNetwork or ClusterNetwork of either group. Key:
// (Kind, Namespace, Name, Group).
type Network struct {
	store.Meta
	Ref
	NetworkID string
	// Type is in lower case, and TypeIPVLAN where the object has none.
	Type string
	// AllowedNamespaces may use a ClusterNetwork; empty: all of them.
	AllowedNamespaces []string
	// HostDevice is the parent device on the nodes, DevicePool the name of an extended
	// resource; at most one of them is set.
	HostDevice, DevicePool string
	// Settings has the fields that all interfaces in the network share, such as Mode and MTU. Each
	// interface has its own Parent, Routes, Rules and IPv6 beside them.
	Settings netif.Config
	// VF has the settings of interfaces of type sriov.
	VF netif.VF
	// VLAN ID or VXLAN network identifier on the parent; 0 for none, at most one is set.
	VLAN, VXLAN uint32
	// Prefix starts the names of interfaces in pods; "" for the default.
	Prefix string
	V4, V6 Range
	// Routes by destination, IPv4 first.
	Routes []Route
	// Table is the number of the routing table for routes that pods request; 0 for none.
	Table int
	Ready bool
	// Reason and Message of the Ready condition.
	Reason, Message string
	// Unexamined: it is Ready for an earlier specification, or a TenantNetwork that is Ready has
	// no profile of its present type. The specification then is the word of its writer alone.
	Unexamined bool
	// NameConflict is the message of that condition, "" without one.
	NameConflict string
	// Profiled is true for a TenantNetwork that has a profile for its type. The profile then
	// gives its parent and its VNI.
	Profiled bool
	// NetworkIDGiven is true if NetworkID comes from the profile, and not from the spec.
	NetworkIDGiven bool
	// Invalid describes a value that can't be used although the schema lets it pass, ""
	// for none. The fields of such a value are zero.
	Invalid string
}

// Range is the addresses of one family. The zero value is an empty range.
type Range struct {
	Prefix netip.Prefix
	// Pool is the part for dynamic addresses, not valid for none.
	Pool store.AddrRange
	// EUI64: without a pool, a dynamic address follows from the interface's MAC (RFC 4291,
	// appendix A).
	EUI64 bool
}

// HasPool reports whether the range has a pool.
func (r Range) HasPool() bool { return r.Pool.First.IsValid() }

// Route is a route of the pods: the gateway is in the network's range of its family.
type Route struct {
	Dst     netip.Prefix
	Gateway netip.Addr
}

// Reference names this life of the network: a successor of the same name has another UID.
func (n *Network) Reference() store.NetworkRef {
	return store.NetworkRef{Group: n.Group, Kind: n.Kind, Namespace: n.Namespace, Name: n.Name, UID: n.UID}
}

// Admits reports whether pods of a namespace may use the network: a ClusterNetwork has the
// list of the namespaces that may, and an empty one means all. Each other network is for
// its own.
func (n *Network) Admits(namespace string) bool {
	if n.Kind != KindClusterNetwork {
		return n.Namespace == namespace
	}
	return len(n.AllowedNamespaces) == 0 || slices.Contains(n.AllowedNamespaces, namespace)
}

// Usable reports whether new attachments may be made by the network as it is now.
func (n *Network) Usable() bool { return n.Ready && !n.Unexamined && !n.Deleting }

// Domain returns the domain of the network's addresses.
func (n *Network) Domain() string { return n.Reference().Domain() }

// Placed reports whether the network is on the parent that it names. A TenantNetwork is placed
// once it has a profile: until then its parent is a tenant's word alone, and must neither count
// nor cost others anything.
func (n *Network) Placed() bool { return n.Kind != KindTenantNetwork || n.Profiled }

// SameWire reports whether interfaces of both networks are made in the same way, on the same
// device and with the same number.
func (n *Network) SameWire(o *Network) bool {
	mine, mineVNI := n.VNI()
	theirs, theirVNI := o.VNI()
	return n.Type == o.Type && n.NetworkID == o.NetworkID && n.Parent() == o.Parent() && mine == theirs &&
		mineVNI == theirVNI
}

// Parent returns the device or pool that interfaces are made from, "" for none.
func (n *Network) Parent() string { return cmp.Or(n.HostDevice, n.DevicePool) }

// VNI returns the type of the network's VNI and its number; "" and 0 for none.
func (n *Network) VNI() (vniType string, vni uint32) {
	switch {
	case n.VLAN != 0:
		return VLAN, n.VLAN
	case n.VXLAN != 0:
		return VXLAN, n.VXLAN
	}
	return "", 0
}

// Link returns the host link of the network's interfaces. It returns false for a network on the
// parent itself, and for a network whose VNI does not fit a link.
func (n *Network) Link() (LinkID, bool) {
	vniType, vni := n.VNI()
	if vni == 0 || n.HostDevice == "" || n.Type != TypeIPVLAN && n.Type != TypeMACVLAN {
		return LinkID{}, false
	}
	return LinkID{Device: n.HostDevice, Type: vniType, VNI: vni}, true
}

// OnNodes returns the nodes' needs for interfaces of the network: its host link, or the device
// alone. It returns false for a network that is on no device which it names.
func (n *Network) OnNodes() (LinkID, bool) {
	if id, ok := n.Link(); ok {
		return id, true
	}
	if _, vni := n.VNI(); vni != 0 || n.HostDevice == "" || n.Type != TypeIPVLAN && n.Type != TypeMACVLAN {
		return LinkID{}, false
	}
	return LinkID{Device: n.HostDevice, Type: DeviceOnly}, true
}

// Segment names the segment that networks share on the wire: the parent with the VNI on it. It is
// "" without a parent, where the network's plugin decides, and for a network that is not placed.
func (n *Network) Segment() string {
	if n.Parent() == "" || !n.Placed() {
		return ""
	}
	if vniType, vni := n.VNI(); vni != 0 {
		return LinkID{Device: n.Parent(), Type: vniType, VNI: vni}.Segment()
	}
	return n.Parent() + "/"
}

// Ranges returns the ranges that the network has, IPv4 first.
func (n *Network) Ranges() []Range {
	var all []Range
	for _, r := range []Range{n.V4, n.V6} {
		if r.Prefix.IsValid() {
			all = append(all, r)
		}
	}
	return all
}

const (
	bySegment = "segment"
	byParent  = "parent"
	byDomain  = "domain"
	byRefusal = "refusal"
)

var networks = memory.Define(memory.Table[Network]{
	Name: "multinet",
	Key:  func(n *Network) []byte { return keyOf(n.Ref) },
	Meta: func(n *Network) *store.Meta { return &n.Meta },
	Indexes: map[string]func(*Network) []byte{
		bySegment: func(n *Network) []byte { return textOrNil(n.Segment()) },
		byParent:  keyOfParent,
		byDomain:  func(n *Network) []byte { return memory.TextKey(n.Domain()) },
		byRefusal: keyOfRefusal,
	},
})

func keyOf(r Ref) []byte { return memory.TextKey(r.Kind, r.Namespace, r.Name, r.Group) }

// keyOfParent leaves out a network that is not placed.
func keyOfParent(n *Network) []byte {
	if !n.Placed() {
		return nil
	}
	return textOrNil(n.Parent())
}

// keyOfRefusal leaves out a network that is Ready.
func keyOfRefusal(n *Network) []byte {
	if n.Ready || n.Reason == "" {
		return nil
	}
	return memory.TextKey(n.Reason, n.Namespace)
}

// textOrNil leaves a row without the text out of an index.
func textOrNil(text string) []byte {
	if text == "" {
		return nil
	}
	return memory.TextKey(text)
}

// Get returns the network of one group, or nil.
func Get(tx store.ReadTx, ref Ref) *Network { return networks.Get(tx, keyOf(ref)) }

// Find returns the network of a kind and name that serves, or nil: the older one if both
// groups have it. It need not be Ready.
func Find(tx store.ReadTx, kind, namespace, name string) *Network {
	for _, row := range Namesakes(tx, kind, namespace, name) {
		return row
	}
	return nil
}

// Namesakes returns the networks of a kind and name in both groups, the oldest first.
func Namesakes(tx store.ReadTx, kind, namespace, name string) []*Network {
	return networks.OldestFirst(tx, memory.Primary, memory.TextKey(kind, namespace, name))
}

// ByDomain returns the network of that Domain, or nil.
func ByDomain(tx store.ReadTx, domain string) *Network {
	for row := range networks.Seq(tx, byDomain, memory.TextKey(domain)) {
		return row
	}
	return nil
}

// Older reports whether a network precedes another one: by creation, then kind and name.
func (n *Network) Older(other *Network) bool { return networks.ByAge(n, other) < 0 }

// OnSegment returns the placed networks of a segment, the oldest first.
func OnSegment(tx store.ReadTx, segment string) []*Network {
	return networks.OldestFirst(tx, bySegment, memory.TextKey(segment))
}

// Peers yields the networks of OnSegment in no order, which costs less.
func Peers(tx store.ReadTx, segment string) iter.Seq[*Network] {
	return networks.Seq(tx, bySegment, memory.TextKey(segment))
}

// OnParent returns the placed networks on a parent device or pool, whatever their VNI.
func OnParent(tx store.ReadTx, parent string) []*Network {
	return networks.List(tx, byParent, memory.TextKey(parent))
}

// InNamespace yields the networks of a kind in a namespace, by name.
func InNamespace(tx store.ReadTx, kind, namespace string) iter.Seq[*Network] {
	return networks.Seq(tx, memory.Primary, memory.TextKey(kind, namespace))
}

// Refused returns the networks whose condition Ready is False with a reason, by namespace.
func Refused(tx store.ReadTx, reason string) []*Network {
	return networks.List(tx, byRefusal, memory.TextKey(reason))
}

// RefusedIn yields the rows of Refused in one namespace.
func RefusedIn(tx store.ReadTx, reason, namespace string) iter.Seq[*Network] {
	return networks.Seq(tx, byRefusal, memory.TextKey(reason, namespace))
}

// Networks yields all networks, by kind, namespace and name.
func Networks(tx store.ReadTx) iter.Seq[*Network] { return networks.All(tx) }

// Put inserts or replaces a network.
func Put(tx store.Tx, row *Network) error {
	if held := Get(tx, row.Ref); held != nil && held.UID != row.UID {
		store.DropNetworkCursors(tx, held.Domain())
	}
	_, err := networks.Put(tx, row)
	return err
}

// Delete removes a network if it has that UID, and reports whether it did. The last chosen
// addresses are forgotten with it.
func Delete(tx store.Tx, ref Ref, uid string) bool {
	row := networks.Remove(tx, keyOf(ref), uid)
	if row == nil {
		return false
	}
	store.DropNetworkCursors(tx, row.Domain())
	return true
}
