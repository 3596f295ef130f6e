// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/nodeipam/endpoints"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

func (s *Server) getEndpoint(ctx context.Context, c call) (any, error) {
	list, err := s.ofContainer(ctx, c.containerID)
	if err != nil {
		return nil, err
	}
	if !attached(list) {
		return nil, &Failure{Code: wire.NotFound, Reason: fmt.Sprintf("nothing of container %s is attached", c.containerID)}
	}
	var added map[string]endpoints.Interface
	if s.cfg.Endpoints != nil {
		added = s.cfg.Endpoints.Get(c.containerID)
	}
	return wire.GetEndpointResponse{Response: done, EndpointInfo: endpointInfo(list, added)}, nil
}

func (s *Server) patchEndpoint(ctx context.Context, c call) (any, error) {
	var patch wire.EndpointPatch
	if err := c.decode(&patch); err != nil {
		return nil, err
	}
	added, err := additions(patch)
	if err != nil {
		return nil, err
	}
	list, err := s.ofContainer(ctx, c.containerID)
	if err != nil {
		return nil, err
	}
	if !attached(list) {
		return nil, &Failure{
			Code:   wire.UnknownContainerID,
			Reason: fmt.Sprintf("nothing of container %s is attached", c.containerID),
		}
	}
	if s.cfg.Endpoints == nil {
		return nil, &Failure{Code: wire.NilEndpointStateStore, Reason: "this node keeps no state of endpoints"}
	}
	switch err := s.cfg.Endpoints.Patch(c.containerID, added); {
	case errors.Is(err, endpoints.ErrLimit):
		return nil, invalid(wire.InvalidRequest, err)
	case err != nil:
		return nil, &Failure{Code: wire.NilEndpointStateStore, Reason: err.Error()}
	}
	return done, nil
}

// deleteEndpoint removes the added interfaces. The attachment stays until it is released.
func (s *Server) deleteEndpoint(ctx context.Context, c call) (any, error) {
	list, err := s.ofContainer(ctx, c.containerID)
	if err != nil {
		return nil, err
	}
	err = endpoints.ErrNotFound
	if s.cfg.Endpoints != nil {
		err = s.cfg.Endpoints.Delete(c.containerID)
	}
	switch {
	case err == nil, errors.Is(err, endpoints.ErrNotFound) && attached(list):
		return done, nil
	case errors.Is(err, endpoints.ErrNotFound):
		return nil, &Failure{Code: wire.NotFound, Reason: fmt.Sprintf("nothing of container %s is known", c.containerID)}
	}
	return nil, &Failure{Code: wire.NilEndpointStateStore, Reason: err.Error()}
}

func (s *Server) ofContainer(ctx context.Context, containerID string) ([]Attachment, error) {
	if err := wire.CheckContainerID(containerID); err != nil {
		return nil, invalid(wire.InvalidParameter, err)
	}
	return s.cfg.Service.Attachments(ctx, containerID)
}

// additions returns the additions of a patch.
func additions(patch wire.EndpointPatch) (map[string]endpoints.Interface, error) {
	if len(patch) == 0 {
		return nil, invalid(wire.InvalidRequest, errors.New("the body names no interface"))
	}
	added := map[string]endpoints.Interface{}
	for name, info := range patch {
		if info == nil || info.HostVethName == "" && info.HnsEndpointID == "" && info.NICType == "" && info.MacAddress == "" {
			return nil, invalid(
				wire.InvalidRequest,
				fmt.Errorf("interface %s has none of HostVethName, HnsEndpointID, NICType and MacAddress", quote.Text(name)),
			)
		}
		if err := wire.CheckIfname(name); err != nil || name == "" {
			return nil, invalid(wire.InvalidRequest, cmp.Or(err, errors.New("an interface has no name")))
		}
		added[name] = endpoints.Interface{
			HnsEndpointID: info.HnsEndpointID, HnsNetworkID: info.HnsNetworkID, HostVethName: info.HostVethName,
			MACAddress: info.MacAddress, NetworkContainerID: info.NetworkContainerID, NICType: info.NICType,
		}
	}
	return added, nil
}

// endpointInfo joins the attachments with the added interfaces. If both have an interface, the
// attachment counts: a client can't move addresses.
func endpointInfo(list []Attachment, added map[string]endpoints.Interface) wire.EndpointInfo {
	info := wire.EndpointInfo{IfnameToIPMap: map[string]wire.IPInfo{}}
	for name, one := range added {
		info.IfnameToIPMap[name] = wire.IPInfo{
			HnsEndpointID: one.HnsEndpointID, HnsNetworkID: one.HnsNetworkID, HostVethName: one.HostVethName,
			MacAddress: one.MACAddress, NetworkContainerID: one.NetworkContainerID, NICType: one.NICType,
		}
	}
	for _, attachment := range list {
		if attachment.State == wire.PendingRelease {
			continue
		}
		info.PodName, info.PodNamespace = attachment.Pod.Name, attachment.Pod.Namespace
		for _, one := range attachment.Interfaces {
			ip := info.IfnameToIPMap[one.Name]
			ip.NICType, ip.MacAddress, ip.NetworkContainerID = one.NIC, cmp.Or(
				one.MAC,
				ip.MacAddress,
			), cmp.Or(
				one.ID,
				ip.NetworkContainerID,
			)
			for _, address := range one.Addresses {
				if address.Prefix.Addr().Is6() {
					ip.IPv6 = append(ip.IPv6, ipNet(address.Prefix))
				} else {
					ip.IPv4 = append(ip.IPv4, ipNet(address.Prefix))
				}
			}
			info.IfnameToIPMap[one.Name] = ip
		}
	}
	return info
}

func ipNet(p netip.Prefix) wire.IPNet {
	return wire.IPNet{IP: p.Addr().String(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
