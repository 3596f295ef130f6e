// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attachment"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

// adopt takes into the journal what is on the node and not in it, going by
// what was read from the API and by what the kernel still has programmed. It
// returns for how many pods that can't be done: their Addresses are lost, too.
// Once the operator has made those again, it can.
func (n *node) adopt(ctx context.Context) (lost int, err error) {
	programmed, err := programmedInterfaces(n.cfg.BPFDir)
	if err != nil {
		// Their flows through the shadow door end, that is all.
		n.log.Warn("can't read the shadow addresses that are programmed", "error", err)
	}
	unknown, err := n.attachments.Adopt(ctx, func(found attach.Found) (rec journal.Record, err error) {
		n.store.View(func(tx store.ReadTx) { rec, err = recall(tx, n.cfg.NodeName, found) })
		if last := programmed[found.Link.HostIfindex]; last.VNI == rec.VNI {
			rec.Shadow4, rec.Shadow6 = last.Shadow4, last.Shadow6
		}
		return rec, err
	})
	for _, left := range unknown {
		var pod *store.Pod
		n.store.View(func(tx store.ReadTx) { pod = store.GetPod(tx, left.PodUID) })
		if pod == nil {
			continue // the interface goes with the pod's sandbox
		}
		lost++
		n.tellUnknown(left, journal.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
	}
	return lost, err
}

// tellUnknown says once of an interface that its pod is cut off, and why.
func (n *node) tellUnknown(left attachment.Unknown, pod journal.Pod) {
	key := journal.Key{ContainerID: left.ContainerID, IfName: left.IfName}
	if n.unknown[key] {
		return
	}
	n.unknown[key] = true
	n.lost(plan.Lost{
		Record: journal.Record{Identity: journal.Identity{Key: key, Pod: pod}},
		Reason: fmt.Sprintf("its node's journal has lost it, and it can't be told what it was given: %v", left.Cause),
	})
}

// programmedInterfaces returns what the pinned maps have, by index.
func programmedInterfaces(pinDir string) (map[int]state.Interface, error) {
	reader, err := datapath.OpenReader(pinDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	found, err := reader.Snapshot()
	if err != nil {
		return nil, err
	}
	byIndex := map[int]state.Interface{}
	for _, iface := range found.Interfaces {
		byIndex[iface.Ifindex] = iface
	}
	return byIndex, nil
}

// holderOf returns the pod of a UID as the holder of its addresses. Of one that is gone
// from the API they are all that knows its name.
func holderOf(tx store.ReadTx, uid, node string) store.Holder {
	if pod := store.GetPod(tx, uid); pod != nil {
		return pod.AsHolder()
	}
	for _, row := range store.AddressesNaming(tx, uid) {
		if row.Holder.Kind == store.HolderPod && row.Node == node {
			return row.Holder
		}
	}
	return store.Holder{Kind: store.HolderPod, UID: uid}
}

// recall is an attachment.Recall. It takes everything but the interface itself
// from the Address objects of the pod's UID, and what they refer to: neither
// what the pod's annotations say nor what its namespace has is the node's to
// believe.
func recall(tx store.ReadTx, node string, found attach.Found) (journal.Record, error) {
	name := v1alpha1.PodAttachment
	if found.Request != "" {
		name = found.IfName
	}
	rows, missing := completeSet(tx, holderOf(tx, found.PodUID, node), node, name)
	if missing != "" {
		return journal.Record{}, errors.New(missing)
	}
	first := rows[0]
	vpc := store.GetVPC(tx, first.VPC)
	if vpc == nil || vpc.VNI == 0 {
		return journal.Record{}, fmt.Errorf("VPC %s of the pod's addresses does not exist or has no VNI", first.VPC)
	}
	mac, err := journal.ParseMAC(first.MAC)
	if err != nil {
		return journal.Record{}, fmt.Errorf("read Address object %s: %w", first.Name, err)
	}
	rec := journal.Record{
		Identity:  journal.Identity{Pod: journal.Pod{Namespace: first.Holder.Namespace, Name: first.Holder.Name, UID: first.Holder.UID}, Attachment: first.Attachment},
		Binding:   journal.Binding{VPC: vpc.Name, VNI: vpc.VNI},
		Interface: journal.Interface{MAC: mac},
	}
	if pod := store.GetPod(tx, found.PodUID); pod != nil && found.Request == "" {
		rec.Probed, rec.ProbeTimeout, rec.HostPorts = pod.NetworkProbes, pod.ProbeTimeout, plan.HostPorts(pod)
	}
	for _, row := range rows {
		prefix, gateway, missing := inSubnet(tx, row)
		if missing != "" {
			return journal.Record{}, errors.New(missing)
		}
		rec.Addrs, rec.Gateways, rec.Subnets = append(rec.Addrs, prefix), append(rec.Gateways, gateway), append(rec.Subnets, row.Subnet)
	}
	if found.Request != "" {
		rec.Gateways = nil // as it was decided
	}
	return rec, nil
}
