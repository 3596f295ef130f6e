// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/store/memory"
)

// HolderKind is the kind of the holder of an address.
type HolderKind string

// The kinds of holder, spelled as in the API.
const (
	HolderPod     HolderKind = "Pod"
	HolderNode    HolderKind = "Node"
	HolderService HolderKind = "Service"
)

// Holder is the holder of an address.
type Holder struct {
	Kind      HolderKind
	Namespace string
	Name      string
	UID       string
}

// NetworkRef names a network outside of every VPC. The zero value names no network.
type NetworkRef struct {
	// Group is "" if only the UID of the network is known.
	Group string
	Kind  string
	// Namespace is "" if the kind has none.
	Namespace, Name string
	UID             string
}

// Domain returns the domain of the network's addresses, "<UID>.net". No VPC has such a
// name, because the name of a VPC has no dot.
func (n NetworkRef) Domain() string { return n.UID + networkSuffix }

// IsNetworkDomain reports whether a domain belongs to a network outside of every VPC.
func IsNetworkDomain(domain string) bool { return strings.HasSuffix(domain, networkSuffix) }

// NetworkUID returns the UID of the network outside of every VPC that has the domain.
func NetworkUID(domain string) string { return strings.TrimSuffix(domain, networkSuffix) }

// networkSuffix is the end of domains of networks outside of every VPC.
const networkSuffix = ".net"

// Path returns kind/namespace/name, or kind/name if the kind has no namespace.
func (n NetworkRef) Path() string {
	if n.Namespace == "" {
		return n.Kind + "/" + n.Name
	}
	return n.Kind + "/" + n.Namespace + "/" + n.Name
}

// String names the network in messages.
func (n NetworkRef) String() string {
	if n.Namespace == "" {
		return n.Kind + " " + n.Name
	}
	return n.Kind + " " + n.Namespace + "/" + n.Name
}

// Address is the row of an Address object. Key: Name; (Domain, IP) is unique.
type Address struct {
	Meta
	Name string
	// VPC is the name of the VPC, "" outside of every VPC.
	VPC string
	// Network is the network outside of every VPC, the zero value in a VPC.
	Network NetworkRef
	// Subnet is the name of the Subnet object, "" outside of every VPC.
	Subnet string
	IP     netip.Addr
	// MAC, lower case with colons.
	MAC string
	// Node, MAC and Attachment are "" if the holder is a Service.
	Node       string
	Holder     Holder
	Attachment string
	// External reports that another CNI plugin makes the interface with the address.
	External bool
	// Kept reports that no object of the address exists, and that no claim for it is in
	// progress: the operator keeps the address for its pod. Only the operator's store has
	// such rows.
	Kept bool
	// Set lists all addresses of the same attachment, IP included.
	Set []netip.Addr
	// Config is the configuration of the interface of a pod in a VPC; nil for others, and in an
	// Address of release 0.1.
	Config *netif.VPCConfig
	// Interfaces are the names of all interfaces of the pod, if this is an address of the first one.
	Interfaces []string
}

// Domain returns the uniqueness domain of the IP: the name of the VPC, or the domain of the
// network outside of every VPC.
func (a *Address) Domain() string {
	if a.Network.UID != "" {
		return a.Network.Domain()
	}
	return a.VPC
}

// SameConfig reports whether two addresses have the same configuration and list of interfaces, or
// one has none.
func (a *Address) SameConfig(b *Address) bool {
	return a.Config == nil || b.Config == nil || *a.Config == *b.Config && slices.Equal(a.Interfaces, b.Interfaces)
}

// Place names the VPC or network in messages.
func (a *Address) Place() string {
	if a.Network.UID != "" {
		return a.Network.String()
	}
	return "VPC " + a.VPC
}

const (
	byIP     = "ip"
	bySubnet = "subnet"
	byHolder = "holder"
	byNode   = "node"
)

var addresses = memory.Define(memory.Table[Address]{
	Name: "address",
	Key:  func(a *Address) []byte { return memory.TextKey(a.Name) },
	Meta: func(a *Address) *Meta { return &a.Meta },
	Indexes: map[string]func(*Address) []byte{
		byIP:     func(a *Address) []byte { return memory.IPKey(memory.TextKey(a.Domain()), a.IP) },
		bySubnet: func(a *Address) []byte { return memory.IPKey(memory.TextKey(a.Subnet), a.IP) },
		byHolder: func(a *Address) []byte { return memory.TextKey(a.Holder.UID) },
		byNode:   func(a *Address) []byte { return memory.IPKey(memory.TextKey(a.Node), a.IP) },
	},
})

// GetAddress returns the Address object of that name, or nil.
func GetAddress(tx ReadTx, name string) *Address {
	return addresses.Get(tx, memory.TextKey(name))
}

// AddressByIP returns the address of that IP in a domain, which is the name of a VPC or
// NetworkRef.Domain, or nil.
func AddressByIP(tx ReadTx, domain string, ip netip.Addr) *Address {
	for row := range addresses.Seq(tx, byIP, memory.IPKey(memory.TextKey(domain), ip)) {
		return row
	}
	return nil
}

// AddressesBySubnet returns the addresses of a Subnet object, by IP.
func AddressesBySubnet(tx CentralTx, subnet string) []*Address {
	return addresses.List(tx, bySubnet, memory.TextKey(subnet))
}

// AddressesByDomain returns the addresses of a domain, which is the name of a VPC or
// NetworkRef.Domain, by IP.
func AddressesByDomain(tx ReadTx, domain string) []*Address {
	return addresses.List(tx, byIP, memory.TextKey(domain))
}

// AddressesFrom yields the addresses of a domain from the given IP on, in ascending
// order: IPv4 before IPv6.
func AddressesFrom(tx ReadTx, domain string, from netip.Addr) iter.Seq[*Address] {
	return func(yield func(*Address) bool) {
		for row := range addresses.From(tx, byIP, memory.IPKey(memory.TextKey(domain), from)) {
			if row.Domain() != domain || !yield(row) {
				return
			}
		}
	}
}

// AddressesNaming returns every address whose holder has that UID, also addresses that do not
// count for it. It is for releasing and comparing; other callers use AddressesByPod,
// AddressesByService or AddressesOf.
func AddressesNaming(tx ReadTx, uid string) []*Address {
	return addresses.List(tx, byHolder, memory.TextKey(uid))
}

// IsHeldBack reports whether the row keeps the address from others and gives it to no
// interface of its pod: the pod may still run with it.
func (a *Address) IsHeldBack() bool { return a.Kept && a.Attachment == "" }

// CountsFor reports whether the address is the holder's, which is on that node, "" for a
// Service. Kind, UID, namespace, name and node must all agree: an Address that
// contradicts its holder was made by mistake or with a stolen token, and does not count
// (docs/design/011).
func (a *Address) CountsFor(holder Holder, node string) bool {
	return a.Holder == holder && a.Node == node
}

// AddressesOf returns the addresses that count for a holder on a node.
func AddressesOf(tx ReadTx, holder Holder, node string) []*Address {
	return slices.DeleteFunc(AddressesNaming(tx, holder.UID), func(row *Address) bool {
		return !row.CountsFor(holder, node)
	})
}

// AddressesByPod returns the addresses that count for a pod where it runs.
func AddressesByPod(tx ReadTx, pod *Pod) []*Address {
	return AddressesOf(tx, pod.AsHolder(), pod.Node)
}

// AddressesByService returns the addresses that count for a Service.
func AddressesByService(tx ReadTx, service *Service) []*Address {
	return AddressesOf(tx, service.AsHolder(), "")
}

// AddressesByNode returns the addresses that are in use on a node, by IP.
func AddressesByNode(tx ReadTx, node string) []*Address {
	return addresses.List(tx, byNode, memory.TextKey(node))
}

// OwnAddresses returns the Addresses that a node holds for itself in the default VPC, at most one
// per family, IPv4 first. Of two Addresses of one family the older counts.
func OwnAddresses(tx ReadTx, node, defaultVPC string) (list []*Address) {
	var own []*Address
	for _, row := range AddressesByNode(tx, node) {
		if row.Holder.Kind == HolderNode && row.Holder.Name == node && row.VPC == defaultVPC && !row.Deleting {
			own = append(own, row)
		}
	}
	slices.SortFunc(own, func(a, b *Address) int {
		return cmp.Or(a.Created.Compare(b.Created), a.IP.Compare(b.IP))
	})
	for _, family := range ipfamily.Both {
		at := slices.IndexFunc(own, func(row *Address) bool { return family.Has(row.IP) })
		if at >= 0 {
			list = append(list, own[at])
		}
	}
	return list
}

// AddressesByNodeIP returns the addresses of different domains with the same IP on a
// node.
func AddressesByNodeIP(tx ReadTx, node string, ip netip.Addr) []*Address {
	return addresses.List(tx, byNode, memory.IPKey(memory.TextKey(node), ip))
}

// ListAddresses returns all addresses by name.
func ListAddresses(tx ReadTx) []*Address {
	return slices.Collect(addresses.All(tx))
}

// AllAddresses yields all addresses by name.
func AllAddresses(tx ReadTx) iter.Seq[*Address] {
	return addresses.All(tx)
}

// PutAddress inserts or replaces an address. It returns ErrConflict if an
// Address of another name has that IP of the domain.
func PutAddress(tx Tx, row *Address) error {
	held := GetAddress(tx, row.Name)
	what := addresses.Compare(row, held)
	if what == memory.Same {
		return nil
	}
	if other := AddressByIP(tx, row.Domain(), row.IP); other != nil && other.Name != row.Name {
		return fmt.Errorf(
			"put address %s: %s of %s is address %s: %w",
			row.Name,
			row.IP,
			row.Place(),
			other.Name,
			ErrConflict,
		)
	}
	if held != nil {
		if err := countAddress(tx, held, -1); err != nil {
			return err
		}
	}
	if err := countAddress(tx, row, 1); err != nil {
		return err
	}
	return addresses.Insert(tx, row, held, what)
}

// AssumeAddress inserts the row of an address that is about to be created in the API,
// so that it is not chosen twice. The row has no UID. It returns ErrConflict, and
// names the holder, if the address is there already, assumed or real.
//
// The caller then calls ConfirmAddress after the creation, or DeleteAddress with an
// empty UID after a failure. The real row may arrive in between, and has precedence
// over both.
func AssumeAddress(tx Tx, row *Address) error {
	held := GetAddress(tx, row.Name)
	if held == nil {
		held = AddressByIP(tx, row.Domain(), row.IP)
	}
	if held != nil {
		return fmt.Errorf("assume address %s: held by %s %s/%s: %w",
			row.Name, held.Holder.Kind, held.Holder.Namespace, held.Holder.Name, ErrConflict)
	}
	assumed := *row
	assumed.UID, assumed.ResourceVersion = "", ""
	return PutAddress(tx, &assumed)
}

// ConfirmAddress replaces an assumed row, as GetAddress returned it before the creation,
// by the one that the API returned. It does nothing if the assumed row is gone: then the
// object's own events have come already, and perhaps its deletion too, after which the
// address may have been assumed again.
func ConfirmAddress(tx Tx, assumed, row *Address) error {
	if held := GetAddress(tx, row.Name); held == nil || held != assumed || held.UID != "" {
		return nil
	}
	return PutAddress(tx, row)
}

// DeleteAddress removes an address if it has that UID, and reports whether it did. An assumed row
// has the empty UID.
func DeleteAddress(tx Tx, name, uid string) bool {
	row := addresses.Remove(tx, memory.TextKey(name), uid)
	if row == nil {
		return false
	}
	memory.Must(countAddress(tx, row, -1))
	return true
}
