// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netfilter"
	"github.com/alioth-net/alioth/store"
)

// Listens says whether a program on the node itself listens at a port of a
// protocol, by its IANA number, at an address or, with the zero value, at any.
type Listens func(protocol uint8, ip netip.Addr, port uint16) (bool, error)

// HostPortRace says why rec, which is in the journal, can't have a port: of two
// ADDs at one time, which saw nothing of each other, the later gives way.
func HostPortRace(records []journal.Record, rec journal.Record) string {
	earlier := slices.DeleteFunc(slices.Clone(records), func(other journal.Record) bool { return other.Seq >= rec.Seq })
	for _, port := range rec.HostPorts {
		if holder, ok := holderOf(port, earlier, rec.Pod.UID); ok {
			return leadsTo(port, holder)
		}
	}
	return ""
}

func leadsTo(port journal.HostPort, holder journal.Pod) string {
	return fmt.Sprintf("hostPort %s leads to pod %s on this node already; choose another one, or wait until that pod is gone", port, holder)
}

// HostPortConflict says why a port of the node can't lead to a pod that asks
// for it, or "".
func HostPortConflict(cfg Config, records []journal.Record, uid string, asked []journal.HostPort, listens Listens) string {
	for _, port := range asked {
		if port.Protocol == "UDP" && port.HostPort == cfg.TunnelPort {
			return fmt.Sprintf("hostPort %s is the port of the tunnel between nodes; choose another one", port)
		}
		if holder, ok := holderOf(port, records, uid); ok {
			return leadsTo(port, holder)
		}
		listening, err := listens(hostProtocol(port.Protocol), port.HostIP, port.HostPort)
		if err != nil {
			return fmt.Sprintf("hostPort %s: can't find out whether the node itself listens there: %v", port, err)
		}
		if listening {
			return fmt.Sprintf("hostPort %s is taken: a program on node %s itself listens there; choose another one", port, cfg.Node)
		}
	}
	return ""
}

// holderOf finds the pod that has a port. What is being undone has it until its
// record is gone.
func holderOf(port journal.HostPort, records []journal.Record, uid string) (journal.Pod, bool) {
	for _, rec := range records {
		if rec.Pod.UID != uid && slices.ContainsFunc(rec.HostPorts, port.Clashes) {
			return rec.Pod, true
		}
	}
	return journal.Pod{}, false
}

// HostPorts converts what a pod asks for.
func HostPorts(pod *store.Pod) []journal.HostPort {
	var list []journal.HostPort
	for _, port := range pod.HostPorts {
		list = append(list, journal.HostPort(port))
	}
	return list
}

// hostPorts are those of all pods, of two that clash the older's.
func (b *nodeBuilder) hostPorts() []netfilter.HostPort {
	var list []netfilter.HostPort
	for at, rec := range b.live {
		for _, port := range rec.HostPorts {
			if _, clash := holderOf(port, b.live[:at], rec.Pod.UID); clash {
				continue
			}
			for _, shadow := range shadowsOf(rec) {
				if !port.HostIP.IsValid() || port.HostIP.Is4() == shadow.Is4() {
					list = append(list, netfilter.HostPort{
						Protocol: hostProtocol(port.Protocol), HostIP: port.HostIP, HostPort: port.HostPort, Port: port.Port, Shadow: shadow,
					})
				}
			}
		}
	}
	return list
}

// Taken is a node port of a Service that leads to a pod on this node instead, which
// has it as its hostPort.
type Taken struct {
	Service ServiceRef
	// UID is the Service's.
	UID string
	// Reason says for a person what happens.
	Reason string
}

// taken are the node ports that go to pods here, which were asked for first.
func (b *nodeBuilder) taken(fronts *frontBuilder) []Taken {
	var list []Taken
	for _, rec := range b.live {
		for _, port := range rec.HostPorts {
			row := fronts.behind(port, shadowsOf(rec))
			if row == nil {
				continue
			}
			list = append(list, Taken{
				ServiceRef{row.Namespace, row.Name}, row.UID, fmt.Sprintf(
					"on node %s port %s leads to pod %s, whose hostPort it is, and not to this Service: choose another port for one of them",
					b.in.Node, port, rec.Pod),
			})
		}
	}
	return list
}

// hostProtocol returns the number of a protocol that has ports.
func hostProtocol(name string) uint8 {
	if name == "SCTP" {
		return unix.IPPROTO_SCTP
	}
	return protocol(name)
}

// onLoopback says whether a port of the pod is open at the node's IPv4 loopback
// addresses.
func onLoopback(rec journal.Record) bool {
	return slices.ContainsFunc(rec.HostPorts, func(port journal.HostPort) bool {
		return port.HostIP == netip.Addr{} || port.HostIP.Is4() && port.HostIP.IsLoopback()
	})
}
