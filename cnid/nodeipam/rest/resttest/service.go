// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resttest has a Service for tests of the node IPAM API and of its clients.
package resttest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/alioth-net/alioth/cnid/nodeipam/answer"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// Since is the time of all attachments.
var Since = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Service attaches in memory. Each attachment gets the lowest free address of
// 192.0.2.0/24 for InfraNIC.
type Service struct {
	// Devices and IPv6 add a delegated device and a second family to each attachment.
	Devices, IPv6 bool
	// Keep: Collect releases nothing, as if all pods were there.
	Keep bool
	// Before is called first in each method, with its name; its error is the result.
	Before func(ctx context.Context, method string) error

	mu       sync.Mutex
	attached map[rest.Key]rest.Attachment
	// Requests and Collected have the arguments of calls that succeeded.
	Requests  []rest.Request
	Collected [][]rest.Key
}

func (s *Service) before(ctx context.Context, method string) error {
	if s.Before == nil {
		return nil
	}
	return s.Before(ctx, method)
}

// Request implements rest.Service.
func (s *Service) Request(ctx context.Context, r rest.Request) ([]answer.Interface, error) {
	if err := s.before(ctx, "Request"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Requests = append(s.Requests, r)
	place := rest.Key{ContainerID: r.ContainerID, IfName: r.IfName}
	if known, ok := s.attached[place]; ok {
		return known.Interfaces, nil
	}
	interfaces := s.interfaces(r, s.free())
	if s.attached == nil {
		s.attached = map[rest.Key]rest.Attachment{}
	}
	s.attached[place] = rest.Attachment{Key: r.Key, Pod: r.Pod, State: wire.Assigned, Since: Since, Interfaces: interfaces}
	return interfaces, nil
}

// free returns the lowest number that no attachment has.
func (s *Service) free() int {
	used := map[netip.Addr]bool{}
	for _, one := range s.attached {
		used[one.Interfaces[0].Addresses[0].Prefix.Addr()] = true
	}
	n := 2
	for used[numbered(n)] {
		n++
	}
	return n
}

func numbered(n int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, byte(2 + n/256), byte(n)}) }

func (s *Service) interfaces(r rest.Request, n int) []answer.Interface {
	first := answer.Interface{Name: r.IfName, NIC: wire.InfraNIC, ID: "nc-infra", Addresses: []answer.Address{{
		Prefix: netip.PrefixFrom(numbered(n), 24), Gateway: netip.MustParseAddr("192.0.2.1"), ID: fmt.Sprintf("id-%d", n),
	}}}
	if s.IPv6 {
		first.Addresses = append(first.Addresses, answer.Address{
			Prefix: netip.MustParsePrefix(
				fmt.Sprintf("2001:db8::%x/64", n),
			), Gateway: netip.MustParseAddr("2001:db8::1"), ID: fmt.Sprintf("id6-%d", n),
		})
	}
	list := []answer.Interface{first}
	if s.Devices {
		list = append(
			list,
			answer.Interface{
				Name: "eth1",
				NIC:  wire.FrontendNIC,
				MAC:  "02:00:00:00:00:01",
				ID:   "nc-tenant",
				Addresses: []answer.Address{{
					Prefix: netip.PrefixFrom(
						netip.AddrFrom4([4]byte{203, 0, byte(113 + n/256), byte(n)}),
						24,
					), ID: fmt.Sprintf("tenant-%d", n),
				}},
			},
		)
	}
	return list
}

// Release implements rest.Service.
func (s *Service) Release(ctx context.Context, key rest.Key) error {
	if err := s.before(ctx, "Release"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for place, one := range s.attached {
		if key.Names(one.Key) {
			delete(s.attached, place)
		}
	}
	return nil
}

// Collect implements rest.Service. All pods count as gone, unless Keep is set.
func (s *Service) Collect(ctx context.Context, network string, valid []rest.Key) error {
	if err := s.before(ctx, "Collect"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Collected = append(s.Collected, append([]rest.Key{{ContainerID: network}}, valid...))
	for place := range s.attached {
		if !s.Keep && !slices.Contains(valid, place) {
			delete(s.attached, place)
		}
	}
	return nil
}

// Attachments implements rest.Service.
func (s *Service) Attachments(ctx context.Context, containerID string) ([]rest.Attachment, error) {
	if err := s.before(ctx, "Attachments"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []rest.Attachment
	for _, one := range s.attached {
		if containerID == "" || containerID == one.ContainerID {
			list = append(list, one)
		}
	}
	return list, nil
}

// Ready implements rest.Service.
func (s *Service) Ready(ctx context.Context) error { return s.before(ctx, "Ready") }

// SetState changes the state of the attachments with an interface of that name.
func (s *Service) SetState(ifName string, state wire.IPState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for place, one := range s.attached {
		if one.IfName == ifName {
			one.State = state
			s.attached[place] = one
		}
	}
}
