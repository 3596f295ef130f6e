// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/decision"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
)

// RebuilderConfig has the functions of a Rebuilder. All fields are required.
type RebuilderConfig struct {
	Plan plan.Config
	// PinDir has the maps that an earlier process has left.
	PinDir string
	Store  *store.Store
	// Attachments adopts attachments, as attachment.Manager does.
	Attachments interface {
		Adopt(ctx context.Context, rebuild attachment.Rebuild) ([]attachment.Unknown, error)
	}
	Reporter interface {
		// Lost is called once for an attachment that can't be rebuilt while its pod lives.
		Lost(lost plan.Lost)
	}
	Log *slog.Logger
}

// Rebuilder rebuilds records that the journal has lost.
type Rebuilder struct {
	cfg RebuilderConfig
	// unknown are the interfaces that Reporter.Lost was called for, because nothing else is known of them.
	unknown map[journal.Key]bool
}

// NewRebuilder returns a Rebuilder.
func NewRebuilder(cfg RebuilderConfig) *Rebuilder {
	return &Rebuilder{cfg: cfg, unknown: map[journal.Key]bool{}}
}

// Rebuild adds attachments of the node without a record to the journal, from the API's objects
// and the kernel's programmed state. It returns the number of pods that it can't rebuild, because
// their Addresses are lost too. It succeeds for these once the operator has created the Addresses
// again.
func (r *Rebuilder) Rebuild(ctx context.Context) (lost int, err error) {
	programmed, err := programmedInterfaces(r.cfg.PinDir)
	if err != nil {
		// The only effect is that their flows with shadow addresses end.
		r.cfg.Log.Warn("can't read the shadow addresses that are programmed", "error", err)
	}
	unknown, err := r.cfg.Attachments.Adopt(
		ctx,
		func(kind ifdriver.Kind, found ifdriver.Found) (rec journal.Record, err error) {
			r.cfg.Store.View(
				func(tx store.ReadTx) { rec, err = decision.Rebuild(tx, r.cfg.Plan, r.cfg.Plan.Kinds[kind], found) },
			)
			if last := programmed[found.Link.HostIfindex]; last.VNI == rec.VNI {
				rec.Shadow4, rec.Shadow6 = last.Shadow4, last.Shadow6
			}
			return rec, err
		},
	)
	for _, left := range unknown {
		var pod *store.Pod
		r.cfg.Store.View(func(tx store.ReadTx) { pod = store.GetPod(tx, left.PodUID) })
		if pod == nil {
			continue // the interface goes with the pod's sandbox
		}
		lost++
		r.notify(left, journal.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
	}
	return lost, err
}

// notify reports once, with the cause, that the pod of an interface is disconnected.
func (r *Rebuilder) notify(left attachment.Unknown, pod journal.Pod) {
	key := journal.Key{ContainerID: left.ContainerID, IfName: left.IfName}
	if r.unknown[key] {
		return
	}
	r.unknown[key] = true
	r.cfg.Reporter.Lost(plan.Lost{
		Record: journal.Record{Identity: journal.Identity{Key: key, Pod: pod}},
		Reason: fmt.Sprintf("its node's journal has lost the record, and it can't be rebuilt: %v", left.Cause),
	})
}

// programmedInterfaces returns the interfaces in the pinned maps, by index.
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
