// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
)

// holderOf returns the pod of a UID as the holder of its addresses. Of a pod that is gone
// from the API only its addresses have the name.
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

// Rebuild returns the record of an interface that is on a node and not in its journal, as
// attachment.Rebuild wants it. can has the capabilities of the driver that found it. In a VPC
// everything but the interface itself comes from the Address objects of the pod's UID, and the
// objects that they refer to: neither the pod's annotations nor the content of its network
// namespace is trusted. Other interfaces without a datapath lead outside of every VPC, unless
// another CNI plugin has made them: their AttachmentClaims describe them.
func Rebuild(
	tx store.ReadTx,
	cfg plan.Config,
	can ifdriver.Capabilities,
	found ifdriver.Found,
) (rec journal.Record, err error) {
	name := v1alpha1.PodAttachment
	if found.Request != "" {
		name = found.IfName
	}
	if can.Datapath() || can.External {
		rec, err = rebuildInVPC(tx, cfg.Node, name, found)
	} else {
		rec, err = rebuildOutside(tx, cfg.Node, name, found)
	}
	if err != nil {
		return journal.Record{}, err
	}
	if can.External != rec.External {
		return journal.Record{}, fmt.Errorf("the Address objects of interface %s are for another driver", name)
	}
	if can.External {
		if found.Request != "" {
			rec.Mode = ifdriver.ModeDevice
		}
		return rec, nil
	}
	// A record of another CNI plugin's interface has the UID from a request alone: tenants may
	// write the annotation, and ReleaseAbandoned goes by the UID.
	pod := store.GetPod(tx, found.PodUID)
	rec.RuntimeUID = staticUID(pod)
	if can.Datapath() {
		rec.Routes = rebuiltRoutes(tx, cfg, pod, rec)
	}
	if byDefault := found.Request == ""; can.Datapath() && !routedNow(tx, pod, name, byDefault) ||
		!can.Datapath() && !byDefault {
		rec.Gateways = nil // as it was decided
	}
	if found.Request == "" && pod != nil {
		rec.Probed, rec.ProbeTimeout, rec.HostPorts = pod.NetworkProbes, pod.ProbeTimeout, plan.HostPorts(pod)
	}
	return rec, nil
}

// staticUID returns the UID that runtimes have of a static pod, "" of other pods.
func staticUID(pod *store.Pod) string {
	if pod == nil {
		return ""
	}
	return pod.StaticUID
}

func rebuildOutside(tx store.ReadTx, node, name string, found ifdriver.Found) (rec journal.Record, err error) {
	described, err := claimedOutside(tx, node, found.PodUID, name)
	if err != nil {
		return rec, err
	}
	pod := holderOf(tx, found.PodUID, node)
	rec.Pod, rec.Attachment = journal.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, name
	rec.Binding, rec.Interface, err = outside(described, found.PodUID)
	return rec, err
}

func rebuildInVPC(tx store.ReadTx, node, name string, found ifdriver.Found) (journal.Record, error) {
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
		Identity: journal.Identity{
			Pod:        journal.Pod{Namespace: first.Holder.Namespace, Name: first.Holder.Name, UID: first.Holder.UID},
			Attachment: first.Attachment,
		},
		Binding:   journal.Binding{VPC: vpc.Name, VNI: vpc.VNI, External: first.External},
		Interface: journal.Interface{MAC: mac},
	}
	if first.Config != nil {
		rec.AltName = first.Config.AltName
	}
	if missing := locate(tx, rows, &rec.Binding, &rec.Interface); missing != "" {
		return journal.Record{}, errors.New(missing)
	}
	return rec, nil
}
