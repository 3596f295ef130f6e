// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// sharedVNI is the VNI of services that every VPC shares.
const sharedVNI = 0

// Bytes that a translation may change: both addresses, both ports and two checksums. The quoted
// part of an ICMP error has them once more.
const (
	translatedBytes = 2*16 + 2*2 + 2*2
	quotedBytes     = 2*translatedBytes + 2
)

func gatewayOf(i state.Interface, like netip.Addr) netip.Addr {
	if like.Is6() {
		return i.Gateway6
	}
	return i.Gateway4
}

// serves reports whether a VPC has a service with that address and backend.
func (r *Rules) serves(vni uint32, vip, backend netip.Addr) bool {
	return slices.ContainsFunc(r.state.Services, func(s state.Service) bool {
		return s.VNI == vni && s.VIP == vip &&
			slices.ContainsFunc(s.Backends, func(b state.Backend) bool { return b.IP == backend })
	})
}

// leadsOutside reports whether a service of a VPC leads from the one address to the other.
func (r *Rules) leadsOutside(vni uint32, vip, backend netip.Addr) bool {
	return slices.ContainsFunc(r.state.Services, func(s state.Service) bool {
		return s.VNI == vni && s.VIP == vip &&
			slices.ContainsFunc(s.Backends, func(b state.Backend) bool { return b.IP == backend && b.Outside })
	})
}

// leads reports whether one of those services leads from one port to the other.
func (r *Rules) leads(vni uint32, in, out seen) bool {
	return slices.ContainsFunc(r.state.Services, func(s state.Service) bool {
		return s.VNI == vni && s.VIP == in.dst && s.Proto == in.proto && s.Port == in.dport &&
			slices.Contains(s.Backends, state.Backend{IP: out.dst, Port: out.dport})
	})
}

// kept checks that a frame goes on in its VPC unchanged, but for the translation by services of
// that VPC: of the destination in a question, of the source in an answer, and of both if a pod
// asks itself.
func (r *Rules) kept(vni uint32, in, out seen) error {
	if bytes.Equal(in.all[12:], out.all[12:]) {
		return nil
	}
	gateways := []netip.Addr{}
	for _, i := range r.state.Interfaces {
		if i.VNI == vni && has(i, out.dst) {
			gateways = append(gateways, i.Gateway4, i.Gateway6)
		}
	}
	toSelf := out.dst == in.src
	asked := r.serves(vni, in.dst, out.dst)
	answered := r.serves(vni, out.src, in.src)
	most := translatedBytes
	if in.proto == 1 || in.proto == 58 || in.dport == 0 {
		most = quotedBytes
	}
	switch {
	case len(in.all) != len(out.all) || changed(in.all[12:], out.all[12:]) > most:
		return fmt.Errorf("more is changed than a service would")
	case in.sound && !out.sound:
		return fmt.Errorf("the header's checksum is broken")
	case out.dst != in.dst && !asked && (!toSelf || !slices.Contains(gateways, in.dst)):
		return fmt.Errorf("%s is no backend of %s in VNI %d", out.dst, in.dst, vni)
	case out.src != in.src && !answered && (!toSelf || !slices.Contains(gateways, out.src)):
		return fmt.Errorf("%s does not answer for %s in VNI %d", in.src, out.src, vni)
	case asked && (in.proto == state.ProtoTCP || in.proto == state.ProtoUDP) && in.dport != 0 && !r.leads(vni, in, out):
		return fmt.Errorf("port %d of %s does not lead to port %d of %s", in.dport, in.dst, out.dport, out.dst)
	}
	r.Seen["translated"]++
	return nil
}

// changed counts the bytes that differ between two frames of one length.
func changed(a, b []byte) (count int) {
	for i := range a {
		if a[i] != b[i] {
			count++
		}
	}
	return count
}
