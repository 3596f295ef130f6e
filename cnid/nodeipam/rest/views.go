// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

func (s *Server) debugIPAddresses(ctx context.Context, c call) (any, error) {
	var body wire.GetIPAddressesRequest
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	list, err := s.addresses(ctx)
	list = slices.DeleteFunc(list, func(one wire.IPConfigurationStatus) bool {
		return len(body.IPConfigStateFilter) > 0 && !slices.Contains(body.IPConfigStateFilter, one.State)
	})
	return wire.GetIPAddressStatusResponse{IPConfigurationStatus: list, Response: done}, err
}

func (s *Server) debugPodContext(ctx context.Context, _ call) (any, error) {
	list, err := s.addresses(ctx)
	return wire.GetPodContextResponse{PodContext: byInterface(list), Response: done}, err
}

func (s *Server) debugRestData(ctx context.Context, _ call) (any, error) {
	list, err := s.addresses(ctx)
	data := wire.HTTPRestServiceData{
		PodIPIDByPodInterfaceKey: byInterface(list),
		PodIPConfigState:         map[string]wire.IPConfigurationStatus{},
	}
	for _, one := range list {
		data.PodIPConfigState[one.ID] = one
	}
	return wire.GetHTTPServiceDataResponse{HTTPRestServiceData: data, Response: done}, err
}

// addresses returns all addresses, sorted by address.
func (s *Server) addresses(ctx context.Context) ([]wire.IPConfigurationStatus, error) {
	attachments, err := s.cfg.Service.Attachments(ctx, "")
	list := []wire.IPConfigurationStatus{}
	for _, attachment := range attachments {
		who := wire.PodInfo{
			PodName: attachment.Pod.Name, PodNamespace: attachment.Pod.Namespace, PodInfraContainerID: attachment.ContainerID,
			PodInterfaceID: cmp.Or(attachment.PodInterfaceID, attachment.ContainerID+"-"+attachment.IfName),
		}
		for _, one := range attachment.Interfaces {
			for _, address := range one.Addresses {
				text := address.Prefix.Addr().String()
				list = append(list, wire.IPConfigurationStatus{
					State: attachment.State, ID: cmp.Or(address.ID, text), IPAddress: text,
					LastStateTransition: attachment.Since.UTC().Format(time.RFC3339Nano), NCID: one.ID, PodInfo: who,
				})
			}
		}
	}
	slices.SortFunc(list, func(a, b wire.IPConfigurationStatus) int {
		return cmp.Or(strings.Compare(a.IPAddress, b.IPAddress), strings.Compare(a.ID, b.ID))
	})
	return list, err
}

func byInterface(list []wire.IPConfigurationStatus) map[string][]string {
	ids := map[string][]string{}
	for _, one := range list {
		ids[one.PodInfo.PodInterfaceID] = append(ids[one.PodInfo.PodInterfaceID], one.ID)
	}
	return ids
}

func (s *Server) health(ctx context.Context, _ call) (any, error) {
	return done, s.cfg.Service.Ready(ctx)
}

func (s *Server) collect(ctx context.Context, c call) (any, error) {
	var body wire.CollectRequest
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	if body.NetworkName == "" {
		return nil, invalid(wire.InvalidParameter, errors.New("networkName is empty"))
	}
	valid := make([]Key, 0, len(body.Valid))
	for _, one := range body.Valid {
		valid = append(valid, Key{ContainerID: one.ContainerID, IfName: one.Ifname})
	}
	return done, s.cfg.Service.Collect(ctx, body.NetworkName, valid)
}
