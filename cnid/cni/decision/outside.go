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
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/allocation"
	"github.com/alioth-net/alioth/store/rules/pluginconf"
	"github.com/alioth-net/alioth/store/rules/services"
)

// unprepared returns the missing part of an attachment outside of every VPC. Its addresses need
// their Address objects, as in a VPC.
func unprepared(tx store.ReadTx, pod *store.Pod, described netif.Interface) (missing string) {
	domain := store.NetworkRef{UID: described.OutsideUID}.Domain()
	for _, prefix := range described.Addresses {
		row := store.AddressByIP(tx, domain, prefix.Addr())
		if row == nil || row.Deleting || !pod.Holds(row) || row.Attachment != described.Name {
			return fmt.Sprintf("interface %s: the Address object of %s has not arrived yet", described.Name, prefix.Addr())
		}
	}
	return unlinked(tx, described)
}

// unserved returns the missing part of the Services in the network of an attachment: their
// backends, or the number of the network. With both, the first connection of the pod finds the
// Services.
func unserved(tx store.ReadTx, q question, described netif.Interface) (missing string) {
	domain := store.NetworkRef{UID: described.OutsideUID}.Domain()
	switch {
	case !q.synced(domain):
		return fmt.Sprintf(
			"interface %s: this node is still reading the Services in network %q and its addresses",
			described.Name,
			described.Outside,
		)
	case services.InDomain(tx, domain) && multinet.NumberOf(tx, described.OutsideUID) == 0:
		return fmt.Sprintf(
			"interface %s: the DomainClaim of network %q, in which there are Services, has not arrived yet; is alioth-operator running?",
			described.Name,
			described.Outside,
		)
	}
	return ""
}

// unlinked returns the missing part of an attachment on a VLAN or VXLAN: the object that tells
// nodes to make and name the link. A device of a pool puts packets into its VLAN itself.
func unlinked(tx store.ReadTx, described netif.Interface) (missing string) {
	if described.Link == nil {
		return ""
	}
	id, ok := multinet.LinkBelow(*described.Link)
	if ok && multinet.GetHostLink(tx, v1alpha1.HostLinkName(id.Type, id.VNI, id.Device)) == nil {
		return fmt.Sprintf(
			"interface %s: the HostLink object of %s has not arrived yet; is alioth-operator running?",
			described.Name,
			id,
		)
	}
	return ""
}

// outside returns binding and interface of an attachment that leads to a network outside of every
// VPC. Without a MAC in the description, the MAC follows from the pod and the name of the interface.
// So the MAC stays the same when the record is rebuilt.
func outside(described netif.Interface, podUID string) (journal.Binding, journal.Interface, error) {
	binding := journal.Binding{Outside: described.Outside}
	iface := journal.Interface{
		Addrs:    described.Addresses,
		Gateways: described.Gateways,
		MAC:      macOf(podUID, described.Name),
		AltName:  described.AltName,
	}
	families := map[bool]bool{}
	for _, prefix := range described.Addresses {
		if !prefix.IsValid() || families[prefix.Addr().Is4()] {
			return binding, iface, fmt.Errorf(
				"interface %s: want at most one address per family, got %v",
				described.Name,
				described.Addresses,
			)
		}
		families[prefix.Addr().Is4()] = true
	}
	if described.Link != nil {
		if described.Link.VLAN != 0 && described.Link.VXLAN != 0 {
			return binding, iface, fmt.Errorf(
				"interface %s: it is on VLAN %d and VXLAN %d, want at most one of them",
				described.Name,
				described.Link.VLAN,
				described.Link.VXLAN,
			)
		}
		if described.Link.VXLAN != 0 && described.Link.Pool != "" {
			return binding, iface, fmt.Errorf(
				"interface %s: a device of a pool has no VXLAN, got %d",
				described.Name,
				described.Link.VXLAN,
			)
		}
		iface.Config = *described.Link
		iface.Routes = slices.Clone(iface.Routes) // the row of the claim has them too
	}
	if described.MAC == "" {
		return binding, iface, nil
	}
	var err error
	if iface.MAC, err = journal.ParseMAC(described.MAC); err != nil {
		return binding, iface, fmt.Errorf("interface %s: %w", described.Name, err)
	}
	return binding, iface, nil
}

// delegateOf returns the plugins' input, nil for an interface without plugins.
func delegateOf(described netif.Interface) *ifdriver.Delegate {
	if described.Delegate == nil {
		return nil
	}
	return &ifdriver.Delegate{
		Conf: described.Delegate.Conf, File: described.Delegate.File,
		Args:    pluginconf.Plain{IP: described.Delegate.IP, MAC: described.Delegate.MAC}.Args(),
		InOrder: described.Definition != "",
	}
}

// defaultsOf returns the default routes that the plugins of an interface may make.
func defaultsOf(i int, described netif.Interface) ifdriver.DefaultRoutes {
	switch {
	case described.NoDefaultRoute:
		return ifdriver.NoDefaultRoutes
	case i > 0 && !described.DefaultRoute:
		return ifdriver.MissingDefaultRoutes
	}
	return ifdriver.OwnDefaultRoutes
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
	if pod == nil || pod.Node != node || !allocation.IsOpen(pod) {
		return netif.Interface{}, fmt.Errorf("the pod with UID %s is not on this node, or not allocated", podUID)
	}
	described, missing := allocation.Held(tx, pod, name)
	if missing == "" {
		missing = unprepared(tx, pod, described)
	}
	if missing != "" {
		return described, errors.New(missing)
	}
	return described, nil
}

// vpcAddrs returns the addresses that a record has in a VPC.
func vpcAddrs(rec journal.Record) []netip.Addr {
	if !rec.InVPC() {
		return nil
	}
	return ipsOf(rec.Addrs)
}
