// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package convert turns the state of a node into the documents that its daemon serves, and back
// where a reader plans with them. It is pure. A test fails for a field that is left out.
package convert

import (
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/forward/plan/serviceplan"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// each converts a list, and keeps nil.
func each[From, To any](list []From, convert func(From) To) []To {
	if list == nil {
		return nil
	}
	all := make([]To, len(list))
	for i, one := range list {
		all[i] = convert(one)
	}
	return all
}

// Attachments converts records of the journal.
func Attachments(records []journal.Record) []nodestatus.Attachment { return each(records, attachment) }

func attachment(rec journal.Record) nodestatus.Attachment {
	return nodestatus.Attachment{
		Key: nodestatus.Key(rec.Key), Request: rec.Request, ClientID: rec.ClientID, Pod: nodestatus.Pod(rec.Pod),
		RuntimeUID: rec.RuntimeUID, CNINetwork: rec.CNINetwork, NetnsPath: rec.NetnsPath, Name: rec.Attachment,
		VPC: rec.VPC, VNI: rec.VNI, Subnets: rec.Subnets, Outside: rec.Outside, External: rec.External,
		Kind: string(rec.Kind), HostIfName: rec.HostIfName, Addrs: rec.Addrs, Gateways: rec.Gateways,
		MAC: rec.MAC.String(), AltName: rec.AltName, PCI: rec.PCI,
		Config: rec.Config, MTU: rec.MTU, VLAN: vlanOf(rec.Config), VF: deviceSettings(rec.Config),
		Routes: each(rec.Routes, func(r netif.Route) nodestatus.Route { return nodestatus.Route(r) }),
		Device: device(rec.Device), Probed: rec.Probed, ProbeTimeout: rec.ProbeTimeout,
		HostPorts: each(rec.HostPorts, func(p journal.HostPort) nodestatus.HostPort { return nodestatus.HostPort(p) }),
		Shadow4:   rec.Shadow4, Shadow6: rec.Shadow6, Seq: rec.Seq, Begun: rec.Begun, Phase: string(rec.Phase),
	}
}

func device(d journal.Device) nodestatus.Device {
	out := nodestatus.Device{HostIfindex: d.HostIfindex, NetnsInode: d.NetnsInode, NetnsCookie: d.NetnsCookie}
	if d.MAC != (journal.MAC{}) {
		out.MAC = d.MAC.String()
	}
	return out
}

// Records converts attachments back. An attachment without an Ethernet address gets the zero one.
func Records(attachments []nodestatus.Attachment) []journal.Record { return each(attachments, record) }

func record(a nodestatus.Attachment) journal.Record {
	mac, _ := journal.ParseMAC(a.MAC) // see Records
	return journal.Record{
		Identity: journal.Identity{
			Key: journal.Key(a.Key), Request: a.Request, ClientID: a.ClientID, Pod: journal.Pod(a.Pod),
			RuntimeUID: a.RuntimeUID, CNINetwork: a.CNINetwork, NetnsPath: a.NetnsPath, Attachment: a.Name,
		},
		Binding: journal.Binding{VPC: a.VPC, VNI: a.VNI, Subnets: a.Subnets, Outside: a.Outside, External: a.External},
		Interface: journal.Interface{
			Kind: ifdriver.Kind(a.Kind), HostIfName: a.HostIfName, Addrs: a.Addrs, Gateways: a.Gateways,
			MAC: mac, AltName: a.AltName,
			PCI: a.PCI, Config: configOf(a), Device: deviceBack(a.Device),
		},
		Probed: a.Probed, ProbeTimeout: a.ProbeTimeout,
		HostPorts: each(a.HostPorts, func(p nodestatus.HostPort) journal.HostPort { return journal.HostPort(p) }),
		Shadow4:   a.Shadow4, Shadow6: a.Shadow6, Seq: a.Seq, Begun: a.Begun, Phase: journal.Phase(a.Phase),
	}
}

func deviceBack(d nodestatus.Device) journal.Device {
	mac, _ := journal.ParseMAC(d.MAC) // see Records
	return journal.Device{HostIfindex: d.HostIfindex, NetnsInode: d.NetnsInode, NetnsCookie: d.NetnsCookie, MAC: mac}
}

// Settings converts the configuration of a node's plan.
func Settings(c plan.Config) nodestatus.Settings {
	kinds := map[string]nodestatus.Kind{}
	for kind, can := range c.Kinds {
		kinds[string(kind)] = nodestatus.Kind{
			HostEnd: can.HostEnd, Hook: int(can.Hook), FollowsMTU: can.FollowsMTU, Restorable: can.Restorable,
			Device:   can.Device,
			External: can.External,
		}
	}
	name := func(r serviceplan.Ref) nodestatus.ServiceName { return nodestatus.ServiceName(r) }
	return nodestatus.Settings{
		Node: c.Node, DefaultVPC: c.DefaultVPC, Shadows: c.Shadows, ServiceRanges: c.ServiceRanges,
		SharedServices: each(c.SharedServices, name), APIServer: name(c.APIServer),
		Reserved: c.Reserved, Infrastructure: c.Infrastructure,
		Metadata: c.Metadata, TunnelPort: c.TunnelPort, ProxyHealthPort: c.ProxyHealthPort, FlowsPerShadow: c.FlowsPerShadow,
		NodePorts: c.NodePorts, ScaledEndpoints: c.ScaledEndpoints, Kinds: kinds, NetnsCookie: c.NetnsCookie,
	}
}

// Config converts settings back.
func Config(s nodestatus.Settings) plan.Config {
	kinds := ifdriver.Catalog{}
	for kind, can := range s.Kinds {
		kinds[ifdriver.Kind(kind)] = ifdriver.Capabilities{
			HostEnd: can.HostEnd, Hook: ifdriver.Hook(can.Hook), FollowsMTU: can.FollowsMTU, Restorable: can.Restorable,
			Device:   can.Device,
			External: can.External,
		}
	}
	ref := func(n nodestatus.ServiceName) serviceplan.Ref { return serviceplan.Ref(n) }
	return plan.Config{
		Node: s.Node, DefaultVPC: s.DefaultVPC, Shadows: s.Shadows, ServiceRanges: s.ServiceRanges,
		SharedServices: each(
			s.SharedServices,
			ref,
		), APIServer: ref(s.APIServer), Reserved: s.Reserved, Infrastructure: s.Infrastructure,
		Metadata: s.Metadata, TunnelPort: s.TunnelPort, ProxyHealthPort: s.ProxyHealthPort, FlowsPerShadow: s.FlowsPerShadow,
		NodePorts: s.NodePorts, ScaledEndpoints: s.ScaledEndpoints, Kinds: kinds, NetnsCookie: s.NetnsCookie,
	}
}
