// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/alioth-net/alioth/cnid/cni/attachment"
	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// add attaches a pod.
func (s *Server) add(ctx context.Context, c command) (json.RawMessage, error) {
	list, err := s.cfg.Manager.Establish(
		ctx,
		attachment.Request{Key: c.key, Pod: c.pod, Network: c.conf.Name, NetnsPath: c.netns},
	)
	if err != nil {
		return nil, err
	}
	return result(c, list)
}

// check compares the attachments of a pod with the journal, the kernel, the API and the
// runtime's previous result (CNI 1.1, section "CHECK").
func (s *Server) check(ctx context.Context, c command) error {
	records, err := s.cfg.Manager.Check(ctx, c.key, c.pod)
	if errors.Is(err, journal.ErrNotFound) {
		return types.NewError(types.ErrUnknownContainer, fmt.Sprintf("no attachment %s on this node", c.key), "")
	}
	if err != nil {
		return err
	}
	return checkPrevious(c, records)
}

// checkPrevious looks for the attachments' addresses in the runtime's result. The result may also
// contain addresses of later plugins.
func checkPrevious(c command, records []journal.Record) error {
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
	for _, rec := range records {
		for _, addr := range rec.Addrs {
			if !known[addr.String()] {
				return fmt.Errorf("prevResult lacks address %s of attachment %s", addr, rec.Key)
			}
		}
	}
	return nil
}

// Ready returns nil, or a local and lasting problem that prevents every ADD (CNI 1.1,
// section "STATUS").
func (s *Server) Ready() error { return s.cfg.Manager.Ready() }

func (s *Server) status() error {
	if err := s.Ready(); err != nil {
		return unavailable(err)
	}
	return nil
}

func unavailable(problem error) *types.Error {
	return types.NewError(cniapi.CodeUnavailable, "no pod can be attached: "+problem.Error(), "")
}

// gc removes attachments of one network that the runtime doesn't list (CNI 1.1,
// section "GC"), if they are dead.
func (s *Server) gc(ctx context.Context, c command) error {
	valid := map[journal.Key]bool{}
	for _, v := range slices.Concat(c.conf.Valid, c.conf.ValidEarlier) {
		valid[journal.Key{ContainerID: v.ContainerID, IfName: v.IfName}] = true
	}
	return s.cfg.Manager.GC(ctx, c.conf.Name, valid)
}
