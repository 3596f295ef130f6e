// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"regexp"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/nodeipam/answer"
	"github.com/alioth-net/alioth/cnid/nodeipam/endpoints"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

const (
	// defaultIfname is the interface of a request that names none.
	defaultIfname = "eth0"
	// maxDesired limits the desired addresses of a request.
	maxDesired = 16
	// maxPath is PATH_MAX of Linux, and maxName the limit of Kubernetes for names.
	maxPath, maxName = 4096, 253
)

var done = wire.Response{ReturnCode: wire.Success}

func (s *Server) requestMany(ctx context.Context, c call) (any, error) {
	var body wire.IPConfigsRequest
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	entries, err := s.request(ctx, body)
	return wire.IPConfigsResponse{PodIPInfo: entries, Response: done}, err
}

// requestOne refuses a pod that has not exactly one address. The attachment stays: a
// request for many finds it, and the DEL that follows every failed ADD removes it.
func (s *Server) requestOne(ctx context.Context, c call) (any, error) {
	var body wire.IPConfigRequest
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	entries, err := s.request(ctx, body.Plural())
	switch {
	case err != nil:
		return nil, err
	case len(entries) != 1:
		return nil, invalid(
			wire.InvalidRequest,
			fmt.Errorf("the pod has %d addresses: ask %s", len(entries), wire.RequestIPConfigsPath),
		)
	}
	return wire.IPConfigResponse{PodIPInfo: entries[0], Response: done}, nil
}

func (s *Server) request(ctx context.Context, body wire.IPConfigsRequest) ([]wire.PodIPInfo, error) {
	r, err := requestOf(body)
	if err != nil {
		return nil, err
	}
	interfaces, err := s.cfg.Service.Request(ctx, r)
	if err != nil {
		return nil, err
	}
	entries, err := answer.Entries(r.IfName, interfaces, s.cfg.Node())
	if err != nil {
		return nil, &Failure{Code: wire.InconsistentIPConfigState, Reason: err.Error()}
	}
	return entries, nil
}

func (s *Server) releaseMany(ctx context.Context, c call) (any, error) {
	var body wire.IPConfigsRequest
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	return done, s.release(ctx, body)
}

func (s *Server) releaseOne(ctx context.Context, c call) (any, error) {
	var body wire.IPConfigRequest
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	return done, s.release(ctx, body.Plural())
}

func (s *Server) release(ctx context.Context, body wire.IPConfigsRequest) error {
	key, err := keyOf(body)
	if err != nil {
		return err
	}
	if key.ContainerID == "" && key.PodInterfaceID == "" {
		// Attachments have a container, so a pod's name alone names none.
		_, err := podOf(body.OrchestratorContext)
		return err
	}
	return s.Release(ctx, key)
}

// Release detaches the attachments of a key, and forgets the clients' additions to the container
// if nothing of it is left.
func (s *Server) Release(ctx context.Context, key Key) error {
	if err := s.cfg.Service.Release(ctx, key); err != nil || s.cfg.Endpoints == nil || key.ContainerID == "" {
		return err
	}
	if left, err := s.cfg.Service.Attachments(ctx, key.ContainerID); err != nil || attached(left) {
		return nil //nolint:nilerr // it is released; Keep forgets the rest
	}
	if err := s.cfg.Endpoints.Delete(key.ContainerID); err != nil && !errors.Is(err, endpoints.ErrNotFound) {
		s.cfg.Log.Warn(
			"can't remove the state of an endpoint; trying again later",
			"containerID",
			key.ContainerID,
			"error",
			err,
		)
	}
	return nil
}

// attached reports whether one of the attachments is not being released.
func attached(list []Attachment) bool {
	for _, one := range list {
		if one.State != wire.PendingRelease {
			return true
		}
	}
	return false
}

// requestOf checks a request.
func requestOf(body wire.IPConfigsRequest) (Request, error) {
	key, err := keyOf(body)
	if err != nil {
		return Request{}, err
	}
	if key.ContainerID == "" {
		return Request{}, invalid(wire.InvalidParameter, errors.New("infraContainerID is empty"))
	}
	key.IfName = cmp.Or(key.IfName, defaultIfname)
	pod, err := podOf(body.OrchestratorContext)
	if err != nil {
		return Request{}, err
	}
	r := Request{Key: key, Pod: pod, Network: body.NetworkName, NetnsPath: body.NetnsPath}
	if len(r.NetnsPath) > maxPath || r.NetnsPath != "" && !filepath.IsAbs(r.NetnsPath) || len(r.Network) > maxName {
		return Request{}, invalid(
			wire.InvalidParameter,
			errors.New("networkName or netnsPath is too long, or no absolute path"),
		)
	}
	r.Desired, err = desired(body.DesiredIPAddresses)
	return r, err
}

func desired(texts []string) ([]netip.Addr, error) {
	if len(texts) > maxDesired {
		return nil, invalid(wire.InvalidParameter, fmt.Errorf("more than %d desired addresses", maxDesired))
	}
	var list []netip.Addr
	for _, text := range texts {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return nil, invalid(wire.InvalidParameter, fmt.Errorf("desired address: %w", quote.Error(err)))
		}
		list = append(list, addr.Unmap())
	}
	return list, nil
}

// keyOf checks the names of an attachment. All of them may be empty.
func keyOf(body wire.IPConfigsRequest) (Key, error) {
	var id error
	if body.InfraContainerID != "" {
		id = wire.CheckContainerID(body.InfraContainerID)
	}
	if err := errors.Join(id, wire.CheckIfname(body.Ifname), wire.CheckPodInterfaceID(body.PodInterfaceID)); err != nil {
		return Key{}, invalid(wire.InvalidParameter, err)
	}
	return Key{ContainerID: body.InfraContainerID, IfName: body.Ifname, PodInterfaceID: body.PodInterfaceID}, nil
}

// nameOfPod matches possible names of a pod; the API server has checked the name more strictly.
var nameOfPod = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// podOf reads the name of a pod.
func podOf(orchestratorContext json.RawMessage) (Pod, error) {
	var who wire.OrchestratorContext
	if text := bytes.TrimSpace(orchestratorContext); len(text) > 0 {
		if err := json.Unmarshal(text, &who); err != nil {
			return Pod{}, &refusal{
				http.StatusOK,
				wire.UnsupportedOrchestratorContext,
				"orchestratorContext does not name a pod of Kubernetes: " + quote.Error(err).Error(),
			}
		}
	}
	if who.PodName == "" && who.PodNamespace == "" {
		return Pod{}, &refusal{
			http.StatusOK,
			wire.EmptyOrchestratorContext,
			"orchestratorContext has no PodName and PodNamespace",
		}
	}
	for _, name := range []string{who.PodName, who.PodNamespace} {
		if len(name) > maxName || !nameOfPod.MatchString(name) {
			return Pod{}, &refusal{
				http.StatusOK,
				wire.UnsupportedOrchestratorContext,
				"orchestratorContext has names that no pod has",
			}
		}
	}
	if err := wire.CheckPodInterfaceID(who.PodUID); err != nil {
		return Pod{}, &refusal{
			http.StatusOK,
			wire.UnsupportedOrchestratorContext,
			"orchestratorContext has a PodUID that no pod has",
		}
	}
	return Pod{Namespace: who.PodNamespace, Name: who.PodName, UID: who.PodUID}, nil
}
