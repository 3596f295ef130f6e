// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attachment"
	"github.com/alioth-net/alioth/cnid/decision"
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
	unknown, err := n.attachments.Adopt(ctx, func(kind attach.Kind, found attach.Found) (rec journal.Record, err error) {
		n.store.View(func(tx store.ReadTx) { rec, err = decision.Rebuild(tx, n.cfg.NodeName, n.plan.Kinds[kind], found) })
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
