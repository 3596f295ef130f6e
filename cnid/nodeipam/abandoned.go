// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/store"
)

// ReleaseAbandoned releases attachments that no DEL will come for, if their clients name no
// network namespace. For other attachments, the namespace tells the manager. Such an attachment
// is abandoned if two facts hold: its pod is gone from the API or has ended, and neither the pod
// nor the container is on the node. One alone is not enough: a pod that is deleted by force may
// still run, and a container that starts is not there yet.
//
// The caller has to know that the store has all pods of the node. running lists the pods and
// containers of the node, as a function that reports whether it has one of two. An error of it
// releases nothing.
func (s *Service) ReleaseAbandoned(
	ctx context.Context,
	running func() (func(podUID, containerID string) bool, error),
) error {
	without := s.withoutPod()
	if len(without) == 0 {
		return nil
	}
	runs, err := running()
	if err != nil {
		return fmt.Errorf("look for the pods and containers of %d attachments whose pods are gone: %w", len(without), err)
	}
	var errs []error
	for _, rec := range without {
		if slices.ContainsFunc(rec.UIDs(), func(uid string) bool { return runs(uid, rec.ContainerID) }) {
			continue
		}
		s.cfg.Log.Info("removing an attachment without a DEL", "containerID", rec.ContainerID, "ifName", rec.IfName,
			"pod", rec.Pod.Namespace+"/"+rec.Pod.Name, "reason", "its pod and its container are gone")
		key := rec.RequestKey()
		errs = append(errs, s.Release(ctx, rest.Key{ContainerID: key.ContainerID, IfName: key.IfName}))
	}
	return errors.Join(errs...)
}

// withoutPod lists finished attachments without a namespace whose pods are gone from the API or
// have ended.
func (s *Service) withoutPod() []journal.Record {
	var list []journal.Record
	s.cfg.Store.View(func(tx store.ReadTx) {
		for _, rec := range s.cfg.Journal.Records() {
			if !rec.External || rec.NetnsPath != "" || rec.Phase != journal.PhaseDone {
				continue
			}
			if pod := store.GetPod(tx, rec.Pod.UID); pod == nil || pod.Terminal {
				list = append(list, rec)
			}
		}
	})
	return list
}
