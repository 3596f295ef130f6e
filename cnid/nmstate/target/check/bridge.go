// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"math"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

func (p *Problems) checkBridge(path string, b *document.Bridge) {
	const maxCost, maxPriority = math.MaxUint16, 63
	for n, port := range b.Ports {
		at := fmt.Sprintf("%s.port[%d]", path, n)
		p.Within(at+".stp-path-cost", port.PathCost, 1, maxCost)
		p.Within(at+".stp-priority", port.Priority, 0, maxPriority)
		if port.VLAN != nil {
			p.checkPortVLAN(at+".vlan", port.VLAN)
		}
	}
	if o := b.Options; o != nil {
		p.Within(path+".options.group-forward-mask", o.GroupForwardMask, 0, math.MaxUint16)
		p.Within(path+".options.mac-ageing-time", o.MACAgeingTime, 0, maxAgeing)
		p.Within(path+".options.vlan-default-pvid", o.VLANDefaultPVID, 0, maxVLAN)
		p.Word(path+".options.vlan-protocol", o.VLANProtocol, document.Protocol8021Q, document.Protocol8021AD)
		p.checkSTP(path+".options.stp", o.STP)
		p.checkMulticast(path+".options", o)
	}
}

func (p *Problems) checkMulticast(path string, o *document.BridgeOptions) {
	p.Word(path+".multicast-router", o.MulticastRouter, document.MulticastRouters...)
	p.checkMAC(path+".group-addr", o.GroupAddress)
	for _, n := range []struct {
		name  string
		value *int
	}{
		{"hash-max", o.HashMax},
		{"multicast-last-member-count", o.MulticastLastMemberCount},
		{"multicast-startup-query-count", o.MulticastStartupQueryCount},
		{"multicast-last-member-interval", o.MulticastLastMemberInterval},
		{"multicast-membership-interval", o.MulticastMembershipInterval},
		{"multicast-querier-interval", o.MulticastQuerierInterval},
		{"multicast-query-interval", o.MulticastQueryInterval},
		{"multicast-query-response-interval", o.MulticastQueryResponseInterval},
		{"multicast-startup-query-interval", o.MulticastStartupQueryInterval},
	} {
		p.Within(path+"."+n.name, n.value, 0, math.MaxInt32)
	}
}

// maxAgeing is in seconds; the kernel counts hundredths of them in 32 bits.
const maxAgeing = (1<<32 - 1) / 100

// checkSTP checks times of the spanning tree protocol (br_private_stp.h of Linux).
func (p *Problems) checkSTP(path string, s *document.STP) {
	if s == nil {
		return
	}
	p.Within(path+".forward-delay", s.ForwardDelay, 2, 30)
	p.Within(path+".hello-time", s.HelloTime, 1, 10)
	p.Within(path+".max-age", s.MaxAge, 6, 40)
	p.Within(path+".priority", s.Priority, 0, math.MaxUint16)
}

func (p *Problems) checkPortVLAN(path string, v *document.PortVLAN) {
	p.Word(path+".mode", v.Mode, document.PortAccess, document.PortTrunk)
	p.Within(path+".tag", v.Tag, 1, maxVLAN)
	if v.Mode == document.PortAccess && len(v.TrunkTags) > 0 {
		p.Add(path+".trunk-tags", "an access port has no trunk tags: remove them, or set mode to trunk")
	}
	if v.Mode == document.PortAccess && v.EnableNative != nil && *v.EnableNative {
		p.Add(path+".enable-native", "true: an access port has no native VLAN: remove it, or set mode to trunk")
	}
	if v.Mode == document.PortAccess && v.Tag == nil {
		p.Add(path+".tag", "missing: an access port needs one")
	}
	if v.Mode == document.PortTrunk && v.Tag != nil && !compare.IsTrue(v.EnableNative) {
		p.Add(path+".tag", "%d: a trunk has one for untagged frames only: set enable-native to true, or remove tag", *v.Tag)
	}
	if v.Mode == "" && (v.Tag != nil || len(v.TrunkTags) > 0) {
		p.Add(path+".mode", "missing: want access or trunk")
	}
	for n, tag := range v.TrunkTags {
		p.checkTag(fmt.Sprintf("%s.trunk-tags[%d]", path, n), tag)
	}
}

func (p *Problems) checkTag(path string, tag document.TrunkTag) {
	if (tag.ID == nil) == (tag.Range == nil) {
		p.Add(path, "want either id or id-range")
	}
	p.Within(path+".id", tag.ID, 1, maxVLAN)
	if r := tag.Range; r != nil {
		p.Within(path+".id-range.min", &r.Min, 1, maxVLAN)
		p.Within(path+".id-range.max", &r.Max, 1, maxVLAN)
		if r.Min > r.Max {
			p.Add(path+".id-range", "%d to %d: want min at most max", r.Min, r.Max)
		}
	}
}
