// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"crypto/sha256"
	"fmt"
	"net/netip"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/store"
)

// outside returns binding and interface of an attachment that leads to a network
// outside of every VPC, as the annotation describes it: no Address object stands for
// it. The MTU is 0, because that network is the driver's to know. Without a MAC in the
// annotation the interface gets one that follows from the pod and its name, so that it
// stays the same when the record is rebuilt.
func outside(said annotations.Attachment, podUID, name string) (journal.Binding, journal.Interface, error) {
	binding := journal.Binding{Outside: said.Outside}
	iface := journal.Interface{Addrs: said.Addresses, Gateways: said.Gateways, MAC: macOf(podUID, name), AltName: said.AltName}
	families := map[bool]bool{}
	for _, prefix := range said.Addresses {
		if !prefix.IsValid() || families[prefix.Addr().Is4()] {
			return binding, iface, fmt.Errorf("interface %s: want at most one address per family, got %v", name, said.Addresses)
		}
		families[prefix.Addr().Is4()] = true
	}
	if said.MAC == "" {
		return binding, iface, nil
	}
	var err error
	if iface.MAC, err = journal.ParseMAC(said.MAC); err != nil {
		return binding, iface, fmt.Errorf("interface %s: %w", name, err)
	}
	return binding, iface, nil
}

// macOf returns a locally administered unicast address: 0a, which no attachment in a
// VPC begins with, and 40 bits of a hash of pod and interface.
func macOf(podUID, name string) journal.MAC {
	mac := journal.MAC{0x0a}
	hash := sha256.Sum256([]byte(podUID + "/" + name))
	copy(mac[1:], hash[:])
	return mac
}

// saidOutside returns the attachment of that name from the annotation of a pod on this
// node. It must lead outside of every VPC.
func saidOutside(tx store.ReadTx, node, podUID, name string) (said annotations.Attachment, err error) {
	pod := store.GetPod(tx, podUID)
	if pod == nil || pod.Node != node || !pod.NetworkReady {
		return said, fmt.Errorf("the pod with UID %s is not on this node, or not allocated", podUID)
	}
	list, err := annotations.ParseAttachments(pod.Attachments)
	if err != nil {
		return said, err
	}
	for i, said := range list {
		if nameOf(i, said) == name && said.Outside != "" {
			return said, nil
		}
	}
	return said, fmt.Errorf("the annotation %s has no attachment %s outside of every VPC", v1alpha1.AttachmentsAnnotation, name)
}

// vpcAddrs returns the addresses that a record has in a VPC.
func vpcAddrs(rec journal.Record) []netip.Addr {
	if !rec.InVPC() {
		return nil
	}
	return ipsOf(rec.Addrs)
}
