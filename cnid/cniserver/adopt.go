// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"context"
	"errors"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/journal"
)

// Recall returns what the control plane decided for the pod of an interface
// that is on the node: a record with pod, attachment, VPC, VNI, addresses,
// subnets, gateways, MAC, and shadow addresses if they are known. The error
// says for a person why that can't be told.
type Recall func(attach.Found) (journal.Record, error)

// Adopt takes interfaces into the journal that are on the node and not in it:
// the journal was damaged, or somebody deleted it. Their pods have their
// network back with the next pass over the node. An interface of which it can't
// be told whose it is stays as it is; it goes with its sandbox. The error says
// that it could not be found out what is on the node.
func (s *Server) Adopt(ctx context.Context, recall Recall) error {
	var errs []error
	for kind, attacher := range s.cfg.Attachers {
		list, err := attacher.List(ctx)
		errs = append(errs, err)
		for _, found := range list {
			s.adopt(kind, found, recall)
		}
	}
	return errors.Join(errs...)
}

// adopt leaves what a command is at work on to it: an ADD makes the interface
// anew, and a DEL removes it.
func (s *Server) adopt(kind journal.Kind, found attach.Found, recall Recall) {
	unlock, free := s.locks.try(found.ContainerID)
	if !free {
		return
	}
	defer unlock()
	key := journal.Key{ContainerID: found.ContainerID, IfName: found.IfName}
	if _, err := s.cfg.Journal.Get(key); err == nil {
		return
	}
	log := s.cfg.Log.With("containerID", key.ContainerID, "ifName", key.IfName, "podUID", found.PodUID)
	rec, err := recall(found)
	if err == nil {
		rec.Key, rec.Kind, rec.CNINetwork, rec.NetnsPath = key, kind, found.Network, found.NetnsPath
		rec.HostIfName, rec.MTU = found.Link.HostIfName, found.MTU
		rec, err = s.cfg.Journal.Adopt(rec, device(found.Link))
	}
	if err != nil {
		log.Error("the journal has lost an attachment that can't be told from what is left; its pod is cut off, delete the pod", "error", err)
		return
	}
	log.Warn("the journal had lost an attachment; rebuilt it from the node and the API", "pod", rec.Pod.String())
}
