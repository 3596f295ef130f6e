// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/alioth-net/alioth/cnid/cniapi"
	"github.com/alioth-net/alioth/cnid/journal"
)

// check compares an attachment with the journal, the kernel, the API and what
// the runtime believes (CNI 1.1, section "CHECK").
func (s *Server) check(ctx context.Context, c command) error {
	unlock, err := s.lock(ctx, c.key.ContainerID)
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := s.cfg.Journal.Get(c.key)
	if errors.Is(err, journal.ErrNotFound) {
		return types.NewError(types.ErrUnknownContainer, fmt.Sprintf("no attachment %s on this node", c.key), "")
	}
	if err != nil {
		return err
	}
	if rec.Pod != c.pod {
		return fmt.Errorf("attachment %s belongs to pod %s (UID %s), not %s (UID %s)", c.key, rec.Pod, rec.Pod.UID, c.pod, c.pod.UID)
	}
	if _, err := s.intact(ctx, rec); err != nil {
		return err
	}
	if err := s.cfg.Decisions.Check(rec); err != nil {
		return err
	}
	if err := s.cfg.Datapath.Check(rec); err != nil {
		return err
	}
	return checkPrevious(c, rec)
}

// checkPrevious looks for our addresses in the runtime's result. Plugins
// behind us may have added to it.
func checkPrevious(c command, rec journal.Record) error {
	if len(c.conf.PrevResult) == 0 {
		return types.NewError(types.ErrInvalidNetworkConfig, "CHECK needs prevResult", "")
	}
	prev, err := create.Create(c.conf.CNIVersion, c.conf.PrevResult)
	if err != nil {
		return types.NewError(types.ErrDecodingFailure, "decode prevResult", err.Error())
	}
	res, err := types100.NewResultFromResult(prev)
	if err != nil {
		return types.NewError(types.ErrDecodingFailure, "convert prevResult", err.Error())
	}
	known := map[string]bool{}
	for _, ip := range res.IPs {
		known[ip.Address.String()] = true
	}
	for _, addr := range rec.Addrs {
		if !known[addr.String()] {
			return fmt.Errorf("prevResult lacks address %s of attachment %s", addr, c.key)
		}
	}
	return nil
}

// Ready returns nil, or what is local, lasting and stops every ADD (CNI 1.1,
// section "STATUS").
func (s *Server) Ready() error {
	if since, err := s.cfg.Journal.Failing(); err != nil && time.Since(since) >= s.cfg.Lasting {
		return err
	}
	return s.cfg.Datapath.Ready()
}

func (s *Server) status() error {
	if err := s.Ready(); err != nil {
		return unavailable(err)
	}
	return nil
}

func unavailable(problem error) *types.Error {
	return types.NewError(cniapi.CodeUnavailable, "no pod can be attached: "+problem.Error(), "")
}

// gc removes attachments of one network that the runtime doesn't list (CNI
// 1.1, section "GC"), if their network namespace is gone too. The list alone
// is not trusted: a runtime that lost its state, or a second one on the node,
// would take the network from running pods. What it wants gone and is alive is
// logged.
func (s *Server) gc(ctx context.Context, c command) error {
	valid := map[journal.Key]bool{}
	for _, v := range slices.Concat(c.conf.Valid, c.conf.ValidEarlier) {
		valid[journal.Key{ContainerID: v.ContainerID, IfName: v.IfName}] = true
	}
	var errs []error
	for _, rec := range s.cfg.Journal.Records() {
		if valid[rec.Key] || rec.CNINetwork != c.conf.Name {
			continue
		}
		errs = append(errs, s.reconcile(ctx, rec.Key))
		if _, err := s.cfg.Journal.Get(rec.Key); err == nil {
			s.cfg.Log.Warn("runtime does not list an attachment that is alive; keeping it",
				"pod", rec.Pod.String(), "containerID", rec.ContainerID, "ifName", rec.IfName)
		}
	}
	return errors.Join(errs...)
}
