// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// MaxBackends is the largest number of backends of one Service.
const MaxBackends = 1000

// Sizes of the maps, MAX_SERVICES and so on in types_service.h.
const (
	// MaxServices is the largest number of virtual addresses, and ports of them, on a
	// node.
	MaxServices = 131072
	// MaxAllBackends is the largest number of backends of all of them. A lookup table
	// takes two rows per backend at most, so there is room for all.
	MaxAllBackends = 262144
)

// Protocols of services.
const (
	ProtoTCP = 6
	ProtoUDP = 17
)

// Backend is one receiver of a Service's flows.
type Backend struct {
	IP   netip.Addr
	Port uint16
	// Outside reports that the address is not in the VPC: its egress decides about each
	// packet. Only Services of a VPC may have it.
	Outside bool
}

// Service is a virtual address with its backends. VNI 0 means a service that every VPC reaches
// from shadow addresses. A number above all VNIs belongs to a network outside of every VPC. The
// backends of any other service belong to its VPC or network, unless they are marked as outside
// of the VPC.
type Service struct {
	VNI   uint32
	VIP   netip.Addr
	Port  uint16
	Proto uint8 // IPPROTO_TCP (6) or IPPROTO_UDP (17)
	// Backends are MaxBackends at most, each once. Without any, connections from the
	// service's own VPC are refused at once.
	Backends []Backend
	// LeftOut reports, for a service without backends, that another proxy may have some. Then
	// the node's own sockets are not refused.
	LeftOut bool
	// Affinity is the time after a client's last new flow that keeps new flows of the client at
	// the same backend, in whole seconds; 0: no affinity.
	Affinity time.Duration
}

// isOfVPC reports whether the service is of one VPC, which has an egress.
func (s Service) isOfVPC() bool { return s.VNI != 0 && !IsOutside(s.VNI) }

// Compare orders backends as the programs search them.
func (b Backend) Compare(o Backend) int {
	return cmp.Or(b.IP.Compare(o.IP), cmp.Compare(b.Port, o.Port))
}

func (s Service) text() (key, content string) {
	backends := slices.SortedFunc(slices.Values(s.Backends), Backend.Compare)
	return fmt.Sprintf("service %s port %d protocol %d in %s", s.VIP, s.Port, s.Proto, numbered(s.VNI)),
		fmt.Sprintf("backends %+v, left out %t, affinity %s", backends, s.LeftOut, s.Affinity)
}
