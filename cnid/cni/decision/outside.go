// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/attach"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/allocation"
	"github.com/alioth-net/alioth/store/rules/pluginconf"
	"github.com/alioth-net/alioth/store/rules/services"
)

// unprepared returns the missing part of an attachment outside of every VPC. Its addresses need
// their Address objects, as in a VPC.
func unprepared(tx store.ReadTx, pod *store.Pod, said netif.Interface) (missing string) {
	domain := store.NetworkRef{UID: said.OutsideUID}.Domain()
	for _, prefix := range said.Addresses {
		row := store.AddressByIP(tx, domain, prefix.Addr())
		if row == nil || row.Deleting || !pod.Holds(row) || row.Attachment != said.Name {
			return fmt.Sprintf("interface %s: the Address object of %s has not arrived yet", said.Name, prefix.Addr())
		}
	}
	return unlinked(tx, said)
}

// unserved returns the missing part of the Services in the network of an attachment: their
// backends, or the number of the network. With both, the first connection of the pod finds the
// Services.
func unserved(tx store.ReadTx, q question, said netif.Interface) (missing string) {
	domain := store.NetworkRef{UID: said.OutsideUID}.Domain()
	switch {
	case !q.synced(domain):
		return fmt.Sprintf(
			"interface %s: this node is still reading the Services in network %q and its addresses",
			said.Name,
			said.Outside,
		)
	case services.InDomain(tx, domain) && multinet.NumberOf(tx, said.OutsideUID) == 0:
		return fmt.Sprintf(
			"interface %s: the DomainClaim of network %q, in which there are Services, has not arrived yet; is alioth-operator running?",
			said.Name,
			said.Outside,
		)
	}
	return ""
}

// unlinked returns the missing part of an attachment on a VLAN or VXLAN: the object that tells
// nodes to make and name the link. A device of a pool puts packets into its VLAN itself.
func unlinked(tx store.ReadTx, said netif.Interface) (missing string) {
	if said.Link == nil {
		return ""
	}
	id, ok := multinet.LinkBelow(*said.Link)
	if ok && multinet.GetHostLink(tx, v1alpha1.HostLinkName(id.Type, id.VNI, id.Device)) == nil {
		return fmt.Sprintf(
			"interface %s: the HostLink object of %s has not arrived yet; is alioth-operator running?",
			said.Name,
			id,
		)
	}
	return ""
}

// outside returns binding and interface of an attachment that leads to a network outside of every
// VPC. Without a MAC in the description, the MAC follows from the pod and the name of the interface.
// So the MAC stays the same when the record is rebuilt.
func outside(said netif.Interface, podUID string) (journal.Binding, journal.Interface, error) {
	binding := journal.Binding{Outside: said.Outside}
	iface := journal.Interface{
		Addrs:    said.Addresses,
		Gateways: said.Gateways,
		MAC:      macOf(podUID, said.Name),
		AltName:  said.AltName,
	}
	families := map[bool]bool{}
	for _, prefix := range said.Addresses {
		if !prefix.IsValid() || families[prefix.Addr().Is4()] {
			return binding, iface, fmt.Errorf(
				"interface %s: want at most one address per family, got %v",
				said.Name,
				said.Addresses,
			)
		}
		families[prefix.Addr().Is4()] = true
	}
	if said.Link != nil {
		if said.Link.VLAN != 0 && said.Link.VXLAN != 0 {
			return binding, iface, fmt.Errorf(
				"interface %s: it is on VLAN %d and VXLAN %d, want at most one of them",
				said.Name,
				said.Link.VLAN,
				said.Link.VXLAN,
			)
		}
		if said.Link.VXLAN != 0 && said.Link.Pool != "" {
			return binding, iface, fmt.Errorf(
				"interface %s: a device of a pool has no VXLAN, got %d",
				said.Name,
				said.Link.VXLAN,
			)
		}
		iface.Config = *said.Link
		iface.Routes = slices.Clone(iface.Routes) // the row of the claim has them too
	}
	if said.MAC == "" {
		return binding, iface, nil
	}
	var err error
	if iface.MAC, err = journal.ParseMAC(said.MAC); err != nil {
		return binding, iface, fmt.Errorf("interface %s: %w", said.Name, err)
	}
	return binding, iface, nil
}

// delegateOf returns the plugins' input, nil for an interface without plugins.
func delegateOf(said netif.Interface) *attach.Delegate {
	if said.Delegate == nil {
		return nil
	}
	return &attach.Delegate{
		Conf: said.Delegate.Conf, File: said.Delegate.File,
		Args: pluginconf.Plain{IP: said.Delegate.IP, MAC: said.Delegate.MAC}.Args(), InOrder: said.Definition != "",
	}
}

// defaultsOf returns the default routes that the plugins of an interface may make.
func defaultsOf(i int, said netif.Interface) attach.DefaultRoutes {
	switch {
	case said.NoDefaultRoute:
		return attach.NoDefaultRoutes
	case i > 0 && !said.DefaultRoute:
		return attach.MissingDefaultRoutes
	}
	return attach.OwnDefaultRoutes
}

// macOf returns a locally administered unicast address: 0a, which no attachment in a
// VPC begins with, and 40 bits of a hash of pod and interface.
func macOf(podUID, name string) journal.MAC {
	mac := journal.MAC{0x0a}
	hash := sha256.Sum256([]byte(podUID + "/" + name))
	copy(mac[1:], hash[:])
	return mac
}

// claimedOutside returns the description of the attachment of that name of a pod on this node. The
// attachment must lead outside of every VPC, and be claimed.
func claimedOutside(tx store.ReadTx, node, podUID, name string) (netif.Interface, error) {
	pod := store.GetPod(tx, podUID)
	if pod == nil || pod.Node != node || !pod.NetworkReady {
		return netif.Interface{}, fmt.Errorf("the pod with UID %s is not on this node, or not allocated", podUID)
	}
	said, missing := allocation.Claimed(tx, pod, name)
	if missing == "" {
		missing = unprepared(tx, pod, said)
	}
	if missing != "" {
		return said, errors.New(missing)
	}
	return said, nil
}

// vpcAddrs returns the addresses that a record has in a VPC.
func vpcAddrs(rec journal.Record) []netip.Addr {
	if !rec.InVPC() {
		return nil
	}
	return ipsOf(rec.Addrs)
}
